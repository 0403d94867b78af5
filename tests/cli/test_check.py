"""`check`, and the names that a run refuses to share."""

import pytest

from ipc.guardian.shield import abi, described
from tests.cli.shell import Shell


def test_check_says_what_would_run(project: Shell) -> None:
    done = project("check")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith(
        f"ok: {project.folder}/squares.py:app (moody, runaway, sleepy, square, vault_sync); 2 workers"
    )
    assert done.out.count("\n") == 1, "nothing more is asked for, not even by the built-in lanes"
    assert project("check", "--json").json == {"ok": True, "complaints": [], "warnings": [], "worlds": {}}


def test_check_says_what_is_on_for_whose_children(project: Shell) -> None:
    """K13: of decorator and settings together; a seal that a kind is born with is not told."""
    settings = project.folder / "supervisor.toml"
    world = 'network = false\nmemory_limit = "2GB"\ncpu_limit = "90s"\njobs_per_child = 1000\nspawn = "cold"'
    settings.write_text(
        f"{settings.read_text()}\n[kinds.square]\n{world}\n[kinds.vault_sync]\nprocess_limit = 5\n"
    )
    done = project("check")
    assert (done.code, done.err) == (0, "")
    square = ["network sealed", "memory limit 2 GB", "CPU limit 90 s", "1,000 jobs per child", "started cold"]
    assert done.out.splitlines()[1:] == [f"  square: {', '.join(square)}", "  vault_sync: process limit 5"]
    worlds = {"square": square, "vault_sync": ["process limit 5"]}
    assert project("check", "--json").json["worlds"] == worlds


@pytest.mark.skipif(not abi(), reason="this kernel has no Landlock")
def test_check_says_what_a_shield_keeps_off(project: Shell) -> None:
    """U14."""
    settings = project.folder / "supervisor.toml"
    settings.write_text(f"{settings.read_text()}\n[kinds.square]\nshield = true\n")
    assert project("check").out.splitlines()[1:] == [f"  square: shield ({described(abi())})"]


HANDLER = """

@app.handler("greet")
def greet(job, ctx):
    return "hello"
"""


def with_settings(project: Shell, text: str) -> None:
    """Add sections to the settings, and a handler to the application."""
    app, settings = project.folder / "squares.py", project.folder / "supervisor.toml"
    app.write_text(f"{app.read_text()}{HANDLER}")
    settings.write_text(f"{settings.read_text()}\n{text}\n")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            '[kinds.square]\nmemory_limit = "900000GB"',
            "kind 'square' needs 900,000 GB of memory, and jobs get at most ",
        ),
        (
            '[kinds.square]\ntier = "huge"\n[tiers.huge]\nmemory = "900000GB"\nheavy = true',
            "kind 'square' of tier 'huge' needs 900,000 GB of memory, and jobs get at most ",
        ),
        (
            '[kinds.square]\nmemory_limit = "1GB"\n[gates]\nmemory_reserve = "900000GB"',
            "kind 'square' needs 1 GB of memory, and jobs get at most 0 B of ",
        ),
        (
            '[kinds.square]\ngates = ["quiet"]\n[gates]\nquiet = ["12:00-24:00", "23:00-12:00"]',
            "[gates] quiet is the whole day, and kind 'square' would never start; leave an hour of it,",
        ),
        (
            "[kinds.greet]\nshield = true",
            "kind 'greet' has shield = true, which only a process can have, and is a handler; choose one",
        ),
        (
            '[kinds.greet]\nmode = "subprocess"',
            "[kinds.greet] mode = \"subprocess\": 'greet' is a handler, which always runs inproc",
        ),
    ],
    ids=["memory", "tier", "reserve", "quiet", "shield", "mode"],
)
def test_what_could_never_run_is_refused_by_check_and_by_run(project: Shell, text: str, line: str) -> None:
    """C130, U12, U20: before anybody waits for it in vain."""
    with_settings(project, text)
    assert line in project.refused("check", code=2)
    assert line in project.refused("run", "--until-idle", code=2)


def test_what_is_not_asked_of_memory_or_hours_may_be_any(project: Shell) -> None:
    """U27: a limit that is no gate of the kind keeps it from nothing, nor do hours that leave it some."""
    text = '[kinds.square]\nmemory_limit = "900000GB"\ngates = ["quiet"]\n[gates]\nquiet = ["12:00-11:59"]'
    with_settings(project, text)
    done = project("check")
    assert (done.code, done.err) == (0, "")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            '[kinds.square]\nmode = "inproc"\nmemory_limit = "1GB"\nprocess_limit = 5',
            "kind 'square' runs on a thread (mode inproc: settings), which nothing holds to memory_limit,"
            " process_limit; memory_limit is only what must be free to start it;"
            ' set mode = "subprocess", or leave that out',
        ),
        (
            '[kinds.square]\nmode = "inproc"\nspawn = "cold"\nnice = 3\ncpu_limit = 0',
            "kind 'square' runs on a thread (mode inproc: settings), which nothing holds to nice, spawn;"
            ' set mode = "subprocess", or leave that out',
        ),
        (
            "[kinds.greet]\nbatch_rows = 9\ncpu_limit = 5",
            "kind 'greet' is a handler, which runs on a thread and lands no rows: batch_rows, cpu_limit of"
            " [kinds.greet] say nothing to it; make it a lane, or leave that out",
        ),
        (
            "[kinds.square]\nmax_running = 0",
            "max_running = 0 of kind 'square' is no limit; to start none of its jobs:"
            " laneway hold --kind square",
        ),
        (
            '[kinds.square]\non_gate = "yield"',
            "kind 'square' has on_gate = \"yield\" and no gates: only hold --kind makes it yield;"
            ' add gates = ["power"], or others',
        ),
        (
            '[tiers.warm]\nloader = "child"',
            '[tiers.warm] loader = "child" names no model, so no child keeps one; add model',
        ),
        (
            '[kinds.square]\nretry_on = ["OSErorr", "OSError", "lib.Busy"]\n'
            '[kinds.moody]\nretry_on = ["OSErorr"]',
            "retry_on of kinds 'moody', 'square': Python has no exception 'OSErorr'"
            ' (did you mean "OSError"?); one of a module is written "module.OSErorr"',
        ),
        (
            '[gates]\nquiet = ["22:00-07:00", "09:00-09:00"]',
            '[gates] quiet: "09:00-09:00" is no time at all; the whole day is "00:00-24:00"',
        ),
    ],
    ids=["limits", "child", "handler", "none", "yield", "model", "exception", "empty"],
)
def test_what_has_no_effect_is_said_by_check_and_by_run(project: Shell, text: str, line: str) -> None:
    """U20, C121: it stays what it is, and nobody goes by it unawares."""
    with_settings(project, text)
    checked, run = project("check"), project("run", "--until-idle")
    assert (checked.code, checked.err) == (0, f"hint: {line}\n")
    assert (run.code, run.err) == (0, f"hint: {line}\n")
    assert project("check", "--json").json["warnings"] == [line]
    assert "square: " not in checked.out, "no world of a child is told of a thread"


def test_a_limit_that_is_lifted_on_purpose_is_no_slip(project: Shell) -> None:
    """K16: [kinds.X] wins over [defaults], with 0 as well."""
    text = "max_running = 3\ncpu_limit = 9\n[kinds.square]\nmax_running = 0\n[kinds.moody]\nmode = "
    with_settings(project, f'{text}"inproc"\ncpu_limit = 0')
    done = project("check")
    assert (done.code, done.err) == (0, "")


def test_check_reports_all_that_is_wrong_at_once(project: Shell) -> None:
    """K16: a tier that nobody has defined hides nothing of sections and limits."""
    with_settings(
        project,
        '[kinds.square]\ntier = "minilm"\n[kinds.sqare]\nnice = 1\n[kinds.moody]\nmemory_limit = "900000GB"\n'
        "[kinds.sleepy]\nmax_running = 0",
    )
    found = project("check", "--json").json
    beginnings = (
        "kind 'square' is of tier 'minilm', which",
        f"{project.folder}/supervisor.toml: [kinds.sqare]",
    )
    beginnings += ("kind 'moody' needs 900,000 GB",)
    assert [any(line.startswith(one) for line in found["complaints"]) for one in beginnings] == [True] * 3
    assert len(found["complaints"]) == 3
    assert (found["warnings"], found["worlds"]) == ([], {}), "they are of what could run"


@pytest.mark.parametrize("text", ["app = [", "app = 5"])
def test_an_application_that_the_settings_may_well_name_is_not_missed(shell: Shell, text: str) -> None:
    """K16: one complaint, about what is to be mended."""
    file = shell.write("supervisor.toml", text)
    assert str(file) in shell.refused("check", code=2)


def test_check_names_what_of_the_users_is_hidden_by_ours(project: Shell) -> None:
    """K13."""
    project.write("worker.py", "")
    done = project("check")
    assert done.code == 0
    assert (
        done.err
        == f"hint: {project.folder}/worker.py is hidden by laneway's own 'worker'; rename it to import it\n"
    )


def test_run_refuses_when_one_of_our_names_leads_elsewhere(project: Shell) -> None:
    """K13, exit code 2."""
    other = project.folder / "other"
    (other / "worker").mkdir(parents=True)
    (other / "worker" / "__init__.py").write_text("")
    line = project.refused("run", code=2, env={"PYTHONPATH": f"{other}:{project.environ['PYTHONPATH']}"})
    assert line.startswith(f"'worker' leads to {other}/worker/__init__.py, not to laneway in")
