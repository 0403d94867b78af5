"""Settings: precedence, places, units, and every complaint at once."""

import json
from pathlib import Path

import pytest

from policies.options import OPTION_NAMES, Options
from supervisor import lanes
from supervisor.api import App, LaneOptions
from supervisor.errors import SettingsRefused
from supervisor.settings.place import find_home
from supervisor.settings.values import Flags, Settings, load_settings, options_for
from supervisor.told.units import count, duration, iso, seconds, size

NOTHING: dict[str, str] = {}


def written(folder: Path, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "supervisor.toml"
    file.write_text(text, "utf-8")
    return file


def refused(folder: Path, text: str) -> list[str]:
    """Return the complaints about a settings file, without its path."""
    file = written(folder, text)
    with pytest.raises(SettingsRefused) as caught:
        load_settings(cwd=folder, environ=NOTHING)
    return [line.replace(str(file), "FILE") for line in caught.value.complaints]


def test_without_a_file_the_current_folder_is_the_project(tmp_path: Path) -> None:
    """K16."""
    settings = load_settings(cwd=tmp_path, environ=NOTHING)
    assert (settings.home, settings.folder, settings.file) == (tmp_path / ".supervisor", tmp_path, None)
    assert (settings.app, settings.defaults, settings.kinds) == (None, {}, {})
    assert settings.max_workers >= 1


def test_the_nearest_settings_file_upwards_counts_and_its_paths_are_relative_to_it(tmp_path: Path) -> None:
    file = written(tmp_path, 'app = "src/app.py:notes"\nhome = "state"\nmax_workers = 3\n')
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    settings = load_settings(cwd=below, environ=NOTHING)
    assert settings == Settings(
        home=tmp_path / "state",
        app=f"{tmp_path}/src/app.py:notes",
        max_workers=3,
        folder=tmp_path,
        file=file,
    )
    assert find_home(cwd=below, environ=NOTHING) == tmp_path / "state"


def test_a_store_upwards_is_found_without_a_file(tmp_path: Path) -> None:
    (tmp_path / ".supervisor").mkdir()
    below = tmp_path / "a"
    below.mkdir()
    assert find_home(cwd=below, environ=NOTHING) == tmp_path / ".supervisor"
    assert load_settings(cwd=below, environ=NOTHING).folder == tmp_path


def test_the_command_line_wins_over_the_environment_and_that_over_the_file(tmp_path: Path) -> None:
    """Precedence of DESIGN section 7."""
    written(tmp_path, 'app = "file_app"\nhome = "file_home"\nmax_workers = 2\n')
    environ = {"LANEWAY_HOME": "env_home", "LANEWAY_APP": "env_app.py"}
    from_file = load_settings(cwd=tmp_path, environ=NOTHING)
    from_env = load_settings(cwd=tmp_path, environ=environ)
    flags = Flags(home="/flag/home", app="flag_app", max_workers=7)
    from_flags = load_settings(flags, cwd=tmp_path, environ=environ)
    assert (from_file.home, from_file.app) == (tmp_path / "file_home", "file_app")
    assert (from_env.home, from_env.app) == (tmp_path / "env_home", f"{tmp_path}/env_app.py:app")
    assert (from_flags.home, from_flags.app, from_flags.max_workers) == (Path("/flag/home"), "flag_app", 7)
    assert find_home("x", cwd=tmp_path, environ=environ) == tmp_path / "x"


def test_an_empty_flag_is_a_slip(tmp_path: Path) -> None:
    with pytest.raises(SettingsRefused, match=r"--app is empty; write FILE\.py"):
        load_settings(Flags(app=" "), cwd=tmp_path, environ=NOTHING)


def test_an_empty_variable_says_nothing(tmp_path: Path) -> None:
    settings = load_settings(cwd=tmp_path, environ={"LANEWAY_HOME": "", "LANEWAY_APP": ""})
    assert (settings.home, settings.app) == (tmp_path / ".supervisor", None)


def test_the_real_environment_is_read_when_none_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LANEWAY_HOME", str(tmp_path / "here"))
    monkeypatch.chdir(tmp_path)
    assert load_settings().home == find_home() == tmp_path / "here"


def test_durations_and_sizes_are_read_as_people_write_them(tmp_path: Path) -> None:
    written(
        tmp_path,
        '[defaults]\ngrace = "5s"\nbackoff = 2\nbackoff_max = "1h"\nbatch_bytes = "256KiB"\n'
        '[kinds.embed]\nstart_deadline = "5m"\nbatch_deadline = "1.5s"\nenv = ["HF_HOME"]\n',
    )
    settings = load_settings(cwd=tmp_path, environ=NOTHING)
    assert settings.defaults == {"grace": 5.0, "backoff": 2, "backoff_max": 3600.0, "batch_bytes": 256 << 10}
    assert settings.kinds == {"embed": {"start_deadline": 300.0, "batch_deadline": 1.5, "env": ("HF_HOME",)}}


def test_every_size_is_read_as_people_write_it(tmp_path: Path) -> None:
    """K13, K15: bytes are numbers, or texts in powers of ten or two."""
    written(
        tmp_path,
        '[defaults]\nmemory_limit = "6GB"\nfile_size_limit = "1GiB"\ncpu_limit = "90s"\nshield = true\n'
        '[kinds.embed]\nmemory_limit = "500MB"\nfile_size_limit = 65536\nmax_attempts = 2\n'
        'network = false\nspawn = "cold"\n',
    )
    settings = load_settings(cwd=tmp_path, environ=NOTHING)
    assert settings.defaults == {
        "memory_limit": 6 * 10**9,
        "file_size_limit": 1 << 30,
        "cpu_limit": 90.0,
        "shield": True,
    }
    assert settings.kinds["embed"] == {
        "memory_limit": 500 * 10**6,
        "file_size_limit": 65536,
        "max_attempts": 2,
        "network": False,
        "spawn": "cold",
    }


def test_a_bad_limit_says_how_to_write_a_good_one(tmp_path: Path) -> None:
    """K13, C198, LESSONS 63."""
    lines = refused(
        tmp_path,
        '[defaults]\nmemory_limit = 6\nprocess_limit = "many"\n'
        '[kinds.embed]\nmemory_limit = "6 apples"\ncpu_limit = "100ms"\nspawn = "warm"\nnetwork = "no"\n',
    )
    write = '; write 65536, "256KiB", "500MB" or "6GB"'
    assert lines == [
        "FILE: [defaults] memory_limit 6 is under the 32000000 bytes that a child needs before it does"
        f" any work; raise it, or switch it off with 0{write}",
        "FILE: [defaults] process_limit must be a whole number from 0 to 1000000000, not 'many'",
        "FILE: [kinds.embed] memory_limit must be a whole number of bytes from 0 to 1000000000000000,"
        f" not '6 apples'{write}",
        "FILE: [kinds.embed] cpu_limit 0.1 is under 1 second, the least that the system can count;"
        ' raise it, or switch it off with 0; write 30, "30s", "2m", "1h" or "30d"',
        "FILE: [kinds.embed] spawn must be auto or cold, not 'warm'",
        "FILE: [kinds.embed] network must be true or false, not 'no'",
    ]


def test_every_complaint_is_made_at_once_with_its_place(tmp_path: Path) -> None:
    complaints = refused(
        tmp_path,
        'app = 3\nhome = ""\nmax_workers = 0\ntypo = 1\nkeep_done = 3\nkind = {}\n'
        '[defaults]\ngrace = "soon"\nbatch_bytes = "9MB"\nretry = 1\n'
        '[kinds]\nflat = 1\n[kinds.embed]\nnice = "low"\nresume = "never"\n',
    )
    starts = [
        "FILE: home must be a text, not ''",
        "FILE: app must be a text, not 3",
        "FILE: max_workers must be a whole number from 1 to 512, not 0",
        "FILE: [defaults] grace must be a number of seconds from 0 to 1000000000, not 'soon'; write 30,",
        "FILE: [defaults] batch_bytes 9000000 is over the frame limit",
        "FILE: [defaults] has no key 'retry'",
        "FILE: [kinds.flat] must be a section, not 1",
        "FILE: [kinds.embed] nice must be a whole number from -20 to 19, not 'low'",
        "FILE: [kinds.embed] resume must be replay, checkpoint or restart, not 'never'",
        "FILE: unknown key 'typo'",
        "FILE: unknown key 'keep_done'; it belongs into [defaults] or [kinds.X]",
        'FILE: unknown section [kind] (did you mean "kinds"?)',
    ]
    assert [line[: len(start)] for line, start in zip(complaints, starts, strict=True)] == starts


def test_what_the_command_line_overrides_is_checked_all_the_same(tmp_path: Path) -> None:
    written(tmp_path, "max_workers = 0\n")
    with pytest.raises(SettingsRefused) as caught:
        load_settings(Flags(max_workers=1000), cwd=tmp_path, environ=NOTHING)
    assert [line.split(" must ")[0].split(": ")[-1] for line in caught.value.complaints] == [
        "max_workers",
        "--max-workers",
    ]


def test_what_is_left_of_refused_settings_is_kept(tmp_path: Path) -> None:
    written(tmp_path, 'app = "notes"\nnope = 1\n')
    with pytest.raises(SettingsRefused) as caught:
        load_settings(cwd=tmp_path, environ=NOTHING)
    assert caught.value.rest is not None
    assert caught.value.rest.app == "notes"


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"home = [", "is not TOML"),
        (b'home = "\xff"', "is not UTF-8, from byte 8 on"),
        (b"kinds = 3", "kinds must be sections like [kinds.embed], not 3"),
        (b"defaults = 3", "[defaults] must be a section, not 3"),
    ],
    ids=["torn", "latin", "kinds", "defaults"],
)
def test_a_file_of_the_wrong_form_is_refused(content: bytes, complaint: str, tmp_path: Path) -> None:
    (tmp_path / "supervisor.toml").write_bytes(content)
    with pytest.raises(SettingsRefused, match=r"supervisor\.toml") as caught:
        load_settings(cwd=tmp_path, environ=NOTHING)
    assert complaint in str(caught.value)


def test_a_settings_file_that_cannot_be_read_is_refused_where_it_has_a_say(tmp_path: Path) -> None:
    (tmp_path / "supervisor.toml").mkdir()
    with pytest.raises(SettingsRefused, match="cannot be read: Is a directory"):
        find_home(cwd=tmp_path, environ=NOTHING)
    assert find_home("x", cwd=tmp_path, environ=NOTHING) == tmp_path / "x"


def test_a_kinds_section_wins_over_the_decorator_and_that_over_the_defaults(tmp_path: Path) -> None:
    """Precedence of DESIGN section 7, option by option."""
    app = App("a")

    @app.lane("embed", grace=2, max_attempts=7)
    def embed(job, ctx):
        yield 1

    settings = Settings(
        home=tmp_path,
        app=None,
        max_workers=1,
        folder=tmp_path,
        defaults={"grace": 1.0, "backoff": 9.0, "max_attempts": 1, "nice": 1},
        kinds={"embed": {"grace": 3.0, "nice": 2}},
    )
    assert options_for(embed, settings) == Options(grace=3.0, max_attempts=7, backoff=9.0, nice=2)
    assert options_for(embed, settings, {"grace": 4.0}).grace == 4.0


def test_retention_is_said_in_days_in_the_file_and_in_seconds_by_the_decorator(tmp_path: Path) -> None:
    """U33."""
    app = App("a")

    @app.lane("embed", keep_done=60, keep_failed=7)
    def embed(job, ctx):
        yield 1

    written(tmp_path, '[defaults]\nkeep_done = "0"\n[kinds.embed]\nkeep_done = "30d"\n')
    options = options_for(embed, load_settings(cwd=tmp_path, environ=NOTHING))
    assert (options.keep_done, options.keep_failed) == (30 * 86_400, 7)
    lines = refused(tmp_path, '[defaults]\nkeep_failed = "1 month"\n')
    assert lines == [
        "FILE: [defaults] keep_failed must be a number of seconds from 0 to 1000000000, not '1 month';"
        ' write 30, "30s", "2m", "1h" or "30d"'
    ]


def test_every_option_may_be_set_in_the_file(tmp_path: Path) -> None:
    """A new option that the settings cannot say would go unnoticed."""
    said = {"unique": "waiting", "gates": ("power",)}  # their default is that nobody says anything
    values = {name: getattr(Options(), name) for name in OPTION_NAMES} | said
    lines = [f"{name} = {json.dumps(value)}" for name, value in values.items()]
    written(tmp_path, "\n".join(["[defaults]", *lines]))
    assert load_settings(cwd=tmp_path, environ=NOTHING).defaults == values


def test_every_option_may_be_set_in_the_decorator() -> None:
    """LESSONS 64: a type checker knows all that a lane takes."""
    assert tuple(LaneOptions.__annotations__) == OPTION_NAMES


def test_the_built_in_lane_is_sealed_and_a_kind_of_the_users_is_not(tmp_path: Path) -> None:
    """C157, K13: until the settings say otherwise."""
    app = App("a")

    @app.lane("embed")
    def embed(job, ctx):
        yield 1

    built_in = lanes.app.lanes["vault_sync"]
    settings = load_settings(cwd=tmp_path, environ=NOTHING)
    assert (options_for(built_in, settings).network, options_for(embed, settings).network) == (False, True)
    written(tmp_path, "[defaults]\nnetwork = false\n[kinds.vault_sync]\nnetwork = true\n")
    settings = load_settings(cwd=tmp_path, environ=NOTHING)
    assert (options_for(built_in, settings).network, options_for(embed, settings).network) == (True, False)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("10s", 10),
        ("5m", 300),
        ("2h", 7200),
        ("1d", 86400),
        ("250ms", 0.25),
        ("1.5", 1.5),
        (" 7 s ", 7),
        (0, 0),
    ],
    ids=str,
)
def test_a_duration_reads_as(text: object, wanted: float) -> None:
    assert seconds(text) == wanted


@pytest.mark.parametrize(
    "text", ["", "s", "-1s", "1 fortnight", "1e3", "٣s", True, None, -1, [], "9" * 400], ids=repr
)
def test_what_is_no_duration_reads_as_none(text: object) -> None:
    assert seconds(text) is None


def test_sizes_read_in_powers_of_ten_and_of_two() -> None:
    assert (size("6GB"), size("1MiB"), size("256KB"), size("1.5KiB"), size(7)) == (
        6 * 10**9,
        1 << 20,
        256_000,
        1536,
        7,
    )
    assert (size("1.5"), size("1kb"), size("MB")) == (None, None, None)


def test_a_size_with_decimals_is_whole_bytes() -> None:
    """Though 2.01 times a thousand million is not, as a float."""
    assert (size("2.01GB"), size("1.07MB"), size("1.1GiB")) == (2_010_000_000, 1_070_000, 1_181_116_006)
    assert all(size(f"{n / 100:.2f}GB") == n * 10**7 for n in range(1, 10_000))


def test_durations_are_shown_in_two_units_at_most() -> None:
    shown = [duration(value) for value in (0.0031, 0.4, 9.94, 9.96, 41, 59.7, 380, 7800, 86400, 100_000, -1)]
    assert shown == [
        "3 ms",
        "0.4 s",
        "9.9 s",
        "10 s",
        "41 s",
        "1 min",
        "6 min 20 s",
        "2 h 10 min",
        "1 d",
        "1 d 3 h",
        "0 ms",
    ]


def test_times_are_shown_in_iso_with_microseconds_and_the_zone() -> None:
    assert iso(1_700_000_000_000_001) == "2023-11-14T22:13:20.000001+00:00"
    assert iso(1_700_000_000_000_000) == "2023-11-14T22:13:20.000000+00:00"
    assert iso(None) is None
    assert (count(1, "row"), count(2, "batch"), count(3000, "row")) == ("1 row", "2 batches", "3,000 rows")
