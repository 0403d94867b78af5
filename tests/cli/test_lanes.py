"""`lanes`, and the mode that a run is told on its command line."""

import pytest

from policies.gates.vocabulary import CHOSEN
from tests.cli.shell import Shell

SETTINGS = """
[kinds.square]
mode = "inproc"
memory_limit = "2GB"
max_running = 2
unique = "waiting"
exclusive_by = "path"
gates = ["power", "quiet"]
on_gate = "yield"

[kinds.sleepy]
tier = "synthesis"
"""
HANDLER = """

@app.handler("greet", job_deadline=2)
def greet(job, ctx):
    return "hello"
"""


@pytest.fixture
def lanes(project: Shell) -> Shell:
    settings, app = project.folder / "supervisor.toml", project.folder / "squares.py"
    settings.write_text(f"{settings.read_text()}{SETTINGS}")
    app.write_text(f"{app.read_text()}{HANDLER}")
    return project


def test_lanes_says_where_each_kind_runs_who_said_so_and_what_limits_it(lanes: Shell) -> None:
    """U20, C121: also that nothing holds a thread to a memory limit."""
    done = lanes("lanes", "--mode", "moody=inproc")
    assert (done.code, done.err) == (0, "")
    rows = {line.split()[0]: " ".join(line.split()[1:]) for line in done.out.splitlines()}
    assert rows["kind"] == "mode why limits queue tier gates"
    assert rows["square"] == (
        "inproc settings memory_limit 2 GB (not on a thread)"
        " max_running 2, unique waiting, exclusive_by path - power, quiet, on_gate yield"
    )
    assert rows["moody"] == "inproc command line - - - -"
    assert rows["greet"] == "inproc handler job_deadline 2 s - - -"
    assert rows["runaway"] == "subprocess default batch_deadline 0.3 s - - -"
    assert rows["sleepy"] == "subprocess default - - synthesis presence, power, memory, quiet"
    assert set(rows) == {"kind", "square", "moody", "greet", "runaway", "sleepy", "vault_sync"}


def test_lanes_in_json(lanes: Shell) -> None:
    """U20."""
    kinds = {one["kind"]: one for one in lanes("lanes", "--json").json["kinds"]}
    assert kinds["square"] == {
        "kind": "square",
        "mode": "inproc",
        "why": "settings",
        "limits": {"memory_limit": 2_000_000_000},
        "without_effect": ["memory_limit"],
        "max_running": 2,
        "unique": "waiting",
        "exclusive_by": "path",
        "tier": "",
        "gates": ["power", "quiet"],
        "gates_by": "kind",
        "on_gate": "yield",
    }
    assert (kinds["sleepy"]["mode"], kinds["sleepy"]["without_effect"]) == ("subprocess", [])
    assert (kinds["sleepy"]["gates_by"], kinds["sleepy"]["gates"]) == ("tier", list(CHOSEN))
    assert (kinds["moody"]["gates"], kinds["moody"]["unique"], kinds["moody"]["max_running"]) == ([], None, 0)


def test_a_run_takes_modes_from_its_command_line(lanes: Shell) -> None:
    """U20: reversible at any time."""
    worlds = []
    for number, mode in enumerate(("subprocess", "inproc"), 1):
        assert lanes("enqueue", "square", '{"count": 10}').code == 0
        done = lanes("run", "--until-idle", "--mode", f"square={mode}")
        assert done.code == 0, done
        story = lanes("show", str(number), "--json").json
        assert (story["state"], story["landed"]["rows"]) == ("done", 10)
        worlds.append(
            (story["attempts"][0]["world"]["spawn"].split()[0], story["attempts"][0]["world"]["kill"])
        )
    assert worlds[0][0] in {"template", "cold"}
    assert worlds[1] == ("inproc", "thread")


@pytest.mark.parametrize(
    ("word", "line"),
    [
        ("sqare=inproc", "--mode sqare=inproc: unknown kind 'sqare' (did you mean \"square\"?)"),
        ("square=thread", "--mode must be KIND=inproc or KIND=subprocess, not 'square=thread'"),
        ("square", "--mode must be KIND=inproc or KIND=subprocess, not 'square'"),
        ("greet=subprocess", "--mode greet=subprocess: 'greet' is a handler, which always runs inproc"),
    ],
)
def test_a_mode_that_cannot_be_is_refused_in_one_line(lanes: Shell, word: str, line: str) -> None:
    """U20."""
    assert lanes.refused("run", "--until-idle", "--mode", word, code=2) == line


def test_a_default_mode_that_is_none_is_refused(lanes: Shell) -> None:
    """U20."""
    settings = lanes.folder / "supervisor.toml"
    settings.write_text(f'default_mode = "ray"\n{settings.read_text()}')
    line = lanes.refused("lanes", code=2)
    assert line.endswith("default_mode must be subprocess or inproc, not 'ray'")


def test_a_thread_that_was_left_behind_is_told_as_that(lanes: Shell) -> None:
    """C125: nothing of it is called a kill, and the run ends although it hangs."""
    app = lanes.folder / "squares.py"
    hangs = '\n@app.handler("hangs", job_deadline=0.2, grace=0.1)\ndef hangs(job, ctx):\n    import time\n\n'
    app.write_text(f"{app.read_text()}{hangs}    time.sleep(300)\n")
    lanes("enqueue", "hangs")
    done = lanes("run", "--until-idle")
    assert done.code == 0, done
    assert "its thread does not leave and was left behind" in done.out
    shown = lanes("show", "1").out
    assert "timed out, its thread left behind: not done for 0.2 s" in shown
    assert "on a thread of the supervisor, which nothing can end" in shown
    assert "given up" in shown
    assert "stuck in squares.py:" in shown
    assert "SIGKILL" not in shown
