"""The application as a whole: what loads, what is refused, and which children may run what."""

from pathlib import Path
from typing import Any

import pytest

from policies.options import Options
from supervisor.application import (
    BUILT_IN,
    Application,
    Profile,
    builtin_application,
    load_application,
)
from supervisor.errors import ApplicationRefused
from supervisor.settings.values import Settings

EMBED = """
from supervisor import App
app = App("notes")
app.migration(1, "CREATE TABLE notes (n INT)")
@app.read
def seen_notes(db): return []
@app.lane("embed", nice=5, env=["HF_HOME"])
def embed(job, ctx): yield 1,
@embed.lander
def land(db, job, rows): db.executemany("INSERT INTO notes VALUES (?)", rows)
"""
LANDER = "@{0}.lander\ndef land_{0}(db, job, rows): ...\n"


def settings_of(folder: Path, app: str | None, **more: Any) -> Settings:
    return Settings(home=folder / "home", app=app, max_workers=1, folder=folder, **more)


def loaded(folder: Path, text: str, name: str, **more: Any) -> Application:
    file = folder / f"{name}.py"
    file.write_text(text, "utf-8")
    return load_application(settings_of(folder, str(file), **more))


def complaints(folder: Path, text: str, name: str, **more: Any) -> list[str]:
    with pytest.raises(ApplicationRefused) as caught:
        loaded(folder, text, name, **more)
    return [line.replace(str(folder), "") for line in caught.value.complaints]


def test_the_built_in_lanes_come_first_and_then_the_users(tmp_path: Path) -> None:
    application = loaded(tmp_path, EMBED, "app_both")
    assert [one.app.name for one in application.apps] == ["laneway", "notes"]
    assert set(application.kinds) == {"vault_sync", "embed"}
    assert application.name == f"{tmp_path}/app_both.py"
    assert application.kinds["embed"].reads.keys() == {"seen_notes"}
    assert "seen_notes" not in application.kinds["vault_sync"].reads
    assert [len(one.app.migrations) for one in application.apps] == [1, 1]


def test_each_kind_has_the_profile_of_its_own_children(tmp_path: Path) -> None:
    """K13."""
    application = loaded(tmp_path, EMBED, "app_profile", defaults={"nice": 1})
    embed, vault = application.kinds["embed"], application.kinds["vault_sync"]
    assert embed.profile == Profile((f"{tmp_path}/app_profile.py",), ("HF_HOME",), 5)
    assert vault.profile == Profile((BUILT_IN,), (), 1, network=False)
    assert len({embed.profile, vault.profile, Profile((BUILT_IN,), (), 1, network=False)}) == 2


def test_declarations_carry_the_limits_after_settings(tmp_path: Path) -> None:
    application = loaded(tmp_path, EMBED, "app_declared", kinds={"embed": {"max_attempts": 9}})
    declared = {one.app: one.kinds for one in application.declarations()}
    assert declared["notes"]["embed"] == Options(nice=5, env=("HF_HOME",), max_attempts=9)
    assert declared["laneway"].keys() == {"vault_sync"}


def test_declarations_name_the_lanes_that_can_discard(tmp_path: Path) -> None:
    """K4: so that a retry knows without the application."""
    text = f"{EMBED}\n@embed.discard\ndef forget(db, job): ...\n"
    application = loaded(tmp_path, text, "app_discarding")
    assert {one.app: one.discards for one in application.declarations()} == {
        "notes": frozenset({"embed"}),
        "laneway": frozenset(),
    }


def test_a_lane_has_one_discard_that_takes_db_and_job(tmp_path: Path) -> None:
    """K4."""
    twice = f"{EMBED}\n@embed.discard\ndef once(db, job): ...\n@embed.discard\ndef again(db, job): ...\n"
    assert "lane 'embed' has a discard already" in complaints(tmp_path, twice, "app_two_discards")[0]
    wrong = f"{EMBED}\n@embed.discard\ndef forget(db): ...\n"
    said = complaints(tmp_path, wrong, "app_wrong")[0]
    assert "the discard of lane 'embed' must take (db, job), not (db)" in said


def test_the_built_in_lanes_can_be_all_there_is(tmp_path: Path) -> None:
    for spec in ("supervisor.lanes", BUILT_IN):
        application = load_application(settings_of(tmp_path, spec))
        assert [one.app.name for one in application.apps] == ["laneway"]
    unknown = settings_of(tmp_path, None, kinds={"embed": {"nice": 1}})
    assert set(builtin_application(unknown).kinds) == {"vault_sync"}


def test_no_application_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ApplicationRefused, match="no application; name one with --app"):
        load_application(settings_of(tmp_path, None))


def test_a_lane_without_a_lander_is_refused(tmp_path: Path) -> None:
    text = "from supervisor import App\napp = App('a')\n@app.lane('x')\ndef x(job, ctx): ...\n"
    assert complaints(tmp_path, text, "app_landless") == [
        "lane 'x' of /app_landless.py has no lander; nobody would write its rows"
    ]


def test_a_kind_or_a_name_of_the_built_in_lanes_is_refused_and_both_are_said(tmp_path: Path) -> None:
    text = (
        "from supervisor import App\napp = App('laneway')\n"
        "@app.lane('vault_sync')\ndef x(job, ctx): ...\n" + LANDER.format("x")
    )
    assert complaints(tmp_path, text, "app_twice") == [
        f"app name 'laneway' of /app_twice.py is the name of {BUILT_IN} too; rename it",
        f"kind 'vault_sync' of /app_twice.py is one of {BUILT_IN} too; rename it",
    ]


def test_a_section_for_a_kind_that_is_not_there_is_refused(tmp_path: Path) -> None:
    lines = complaints(tmp_path, EMBED, "app_section", kinds={"embd": {"nice": 1}}, file=tmp_path / "F")
    assert lines == [
        '/F: [kinds.embd] is no kind here (did you mean "embed"?); kinds here: embed, vault_sync'
    ]


def test_an_application_that_breaks_while_it_loads_is_named_with_file_and_line(tmp_path: Path) -> None:
    [line] = complaints(tmp_path, "from supervisor import App\nApp('a').lane('x y')\n", "app_broken")
    assert "a kind is 1 to 128 printable characters" in line
    assert line.endswith("/app_broken.py:2)")
    [line] = complaints(tmp_path, "def f(:\n", "app_syntax")
    assert "SyntaxError" in line
    assert "app_syntax.py:1" in line


def test_something_else_than_an_application_is_refused(tmp_path: Path) -> None:
    [line] = complaints(tmp_path, "app = object()\n", "app_object")
    assert line == "app '/app_object.py' is of type object, not a supervisor.App"


def test_what_an_application_prints_while_it_loads_is_not_on_stdout(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    loaded(tmp_path, "print('loading')\n" + EMBED, "app_chatty")
    assert capsys.readouterr() == ("", "loading\n")


def test_a_module_is_looked_for_in_the_settings_folder(tmp_path: Path) -> None:
    (tmp_path / "app_module.py").write_text(EMBED, "utf-8")
    application = load_application(settings_of(tmp_path, "app_module"))
    assert set(application.kinds) == {"vault_sync", "embed"}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("@app.lane\ndef one(job, ctx): ...\n", 'write @app.lane("one"): a lane needs the kind of its jobs'),
        (
            "@app.lane('one')\ndef one(job): ...\n",
            "the compute half of lane 'one' must take (job, ctx), not (job)",
        ),
        (
            "@app.lane('one')\ndef one(job, ctx, *, more): ...\n",
            "the compute half of lane 'one' must take (job, ctx), not (job, ctx, *, more)",
        ),
        (
            "@app.lane('one')\ndef one(job, ctx): ...\n@one.lander\ndef land(db, rows): ...\n",
            "the lander of lane 'one' must take (db, job, rows), not (db, rows)",
        ),
        (
            "app.lane('one')(7)\n",
            "the compute half of lane 'one' must be a function that takes (job, ctx), not 7",
        ),
    ],
    ids=["bare", "short", "keyword", "lander", "number"],
)
def test_a_half_that_cannot_be_called_is_refused_where_it_is_declared(
    tmp_path: Path, text: str, complaint: str
) -> None:
    name = f"app_half_{abs(hash(text))}"
    [line] = complaints(tmp_path, f"from supervisor import App\napp = App('a')\n{text}", name)
    assert f"ValueError: {complaint} (" in line


def test_an_option_that_a_lane_has_not_got_is_refused_with_all_that_it_has(tmp_path: Path) -> None:
    declared = '@app.lane("x", batchdeadline=3, timeout=1)\ndef x(job, ctx): ...\n'
    [line] = complaints(tmp_path, f"from supervisor import App\napp = App('a')\n{declared}", "app_option")
    assert (
        "lane 'x': unknown option 'batchdeadline' (did you mean \"batch_deadline\"?);"
        " unknown option 'timeout'; a lane takes rows, payload, batch_rows, batch_bytes, batch_deadline,"
    ) in line
    assert "keep_failed (/app_option.py:3)" in line


def test_halves_may_take_more_than_they_must(tmp_path: Path) -> None:
    text = (
        "from supervisor import App\napp = App('a')\n"
        "@app.lane('x')\ndef x(*anything): ...\n@x.lander\ndef land(db, job, rows, more=1): ...\n"
    )
    assert set(loaded(tmp_path, text, "app_loose").kinds) == {"vault_sync", "x"}
