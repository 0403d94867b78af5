"""`deskcheck`: one job both ways, and what landed compared."""

import tempfile
from pathlib import Path
from socket import create_server

import pytest

from tests.cli.shell import Shell

DIFFERS = """

@app.lane("pids")
def pids(job, ctx):
    import os

    print("noise that belongs in no report")
    for n in range(7):
        yield n, os.getpid()


@app.lane("results")
def results(job, ctx):
    import os

    yield 1, 1
    return {"pid": os.getpid()}


@app.lane("fails")
def fails(job, ctx):
    yield 1, 1
    raise ValueError("a bad note")


@app.lane("heavy", tier="synthesis", gates=("presence",))
def heavy(job, ctx):
    yield 3, 9


for lane in (pids, results, fails, heavy):
    lane.lander(land_squares)


@app.handler("greet")
def greet(job, ctx):
    return "hello"
"""


@pytest.fixture
def desk(project: Shell) -> Shell:
    app = project.folder / "squares.py"
    app.write_text(f"{app.read_text()}{DIFFERS}")
    return project


def test_a_good_lane_lands_the_same_rows_both_ways(desk: Shell) -> None:
    """C143: in scratch stores, of which nothing stays."""
    before = set(Path(tempfile.gettempdir()).glob("laneway-deskcheck-*"))
    done = desk("deskcheck", "square", '{"count": 3000}')
    assert (done.code, done.out) == (0, "identical: 3,000 rows in 1 table\n"), done
    assert not desk.home.exists(), "the project's own store is not touched"
    assert set(Path(tempfile.gettempdir()).glob("laneway-deskcheck-*")) <= before


def test_a_lane_that_was_made_to_differ_is_shown(desk: Shell) -> None:
    """C143."""
    done = desk("deskcheck", "pids")
    first, *lines = done.out.splitlines()
    assert (done.code, first) == (1, "table squares differs: 7 only in subprocess, 7 only in inproc")
    assert [line.split()[0] for line in lines] == ["subprocess"] * 6 + ["inproc"] * 6
    assert lines[0].split()[1] == "(0,"
    assert lines[5].split()[1:] == ["and", "2", "more"]


def test_a_result_that_differs_is_shown_in_json(desk: Shell) -> None:
    """C143, U21: what the job prints does not end up in it."""
    done = desk("deskcheck", "results", "--json")
    assert done.code == 1
    assert (done.json["identical"], done.json["rows"], done.json["tables"]) == (False, 1, 1)
    [difference] = done.json["differences"]
    assert difference["of"] == "result"
    assert difference["first"]["subprocess"] != difference["first"]["inproc"]


def test_a_job_that_fails_both_ways_is_no_success(desk: Shell) -> None:
    """C125: it is not tried again, and what it says is told for both."""
    done = desk("deskcheck", "fails")
    assert (done.code, done.err) == (1, "")
    assert done.out.splitlines() == [
        "subprocess: the job failed: ValueError: a bad note",
        "inproc: the job failed: ValueError: a bad note",
    ]


def test_nothing_is_waited_for(desk: Shell) -> None:
    """C143: no gate, no tier."""
    assert desk("deskcheck", "heavy").out == "identical: 1 row in 1 table\n"


def test_no_model_is_loaded_not_even_the_one_that_stays_warm(desk: Shell) -> None:
    """C143: a check leaves the machine as it is."""
    with create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        address = "http://{}:{}".format(*server.getsockname())
        warm = '[tiers.warm]\nmodel = "warm"\nmemory = "1GB"\npinned = true\nloader = "ollama"\n'
        settings = (desk.folder / "supervisor.toml").read_text("utf-8")
        desk.write("supervisor.toml", f'{settings}\n[gates]\nollama = "{address}"\n{warm}')
        assert desk("deskcheck", "square", '{"count": 1}').out == "identical: 1 row in 1 table\n"
        with pytest.raises(BlockingIOError):
            server.accept()
    assert "no gate is asked" in desk("deskcheck", "--help").out


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["greet"], "'greet' is a handler, which always runs inproc; there is nothing to compare"),
        (["sqare"], 'unknown kind "sqare" (did you mean "square"?); kinds here: '),
        (["square", "{"], "the payload is not JSON"),
        (["vault_sync"], "kind 'vault_sync' has network = false, which only a process can have"),
    ],
)
def test_what_cannot_run_both_ways_is_refused_in_one_line(desk: Shell, words: list[str], line: str) -> None:
    """C143."""
    assert line in desk.refused("deskcheck", *words, code=2)
