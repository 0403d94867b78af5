"""`status` of jobs that run: how fast, how long since a batch, how much memory all their processes hold."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ipc.guardian import meter
from landing import views
from landing.snapshot import snapshot
from supervisor.told.memory import sizes, tree
from tests.cli.shell import Shell
from tests.supervisor.serving import wait_for

MB = 1_000_000
LANES = """

EATER = "import sys, time; held = bytearray(60_000_000); print(1, flush=True); time.sleep(300)"
ORPHAN = "import subprocess, sys; subprocess.Popen([sys.executable, '-c', sys.argv[1]], stdout=1)"


@app.lane("eats", batch_rows=2, batch_deadline=60, start_deadline=90, memory_limit=900_000_000, grace=0.2)
def eats(job, ctx):
    import subprocess
    import sys

    held = bytearray(100_000_000)
    child = subprocess.Popen([sys.executable, "-c", EATER], stdout=subprocess.PIPE)
    orphan = subprocess.Popen([sys.executable, "-c", ORPHAN, EATER], stdout=subprocess.PIPE)
    child.stdout.readline(), orphan.stdout.readline(), orphan.wait()
    for n in range(int(ctx.resume or 0), job.payload["count"]):
        yield n, len(held)
    while True:
        ctx.checkpoint(str(job.payload["count"]))
        __import__("time").sleep(0.02)


@app.lane("inside", mode="inproc", memory_limit=900_000_000, grace=0.2)
def inside(job, ctx):
    yield 1, 1
    while True:
        ctx.checkpoint("1")
        __import__("time").sleep(0.02)


eats.lander(land_squares)
inside.lander(land_squares)
"""


@contextmanager
def running(shell: Shell, *words: str) -> Iterator[None]:
    """Have a run of a folder's application while something is looked at."""
    run = shell.start("run", *words)
    try:
        yield
    finally:
        run.send_signal(signal.SIGINT)
        run.send_signal(signal.SIGINT)
        run.communicate(timeout=30)


@pytest.fixture
def busy(project: Shell) -> Shell:
    app = project.folder / "squares.py"
    app.write_text(f"{app.read_text()}{LANES}")
    return project


def job(shell: Shell, kind: str) -> Any:
    """Return what status says of the one job of a kind that runs."""
    found = [one for one in shell("status", "--json").json["running"] if one["kind"] == kind]
    return found[0] if found else {}


def row(home: Path) -> dict[str, Any]:
    with snapshot(home) as db:
        return next(one for one in views.in_flight(db) if one["kind"] == "eats")


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="nobody can tell without /proc")
def test_a_jobs_memory_is_that_of_its_whole_tree_and_of_nobody_else(busy: Shell) -> None:
    """C97, SCREENS status: worker, child and orphan; not the template; a thread has none of its own."""
    busy("enqueue", "eats", '{"count": 4}')
    busy("enqueue", "inside")
    with running(busy):
        eats = wait_for(lambda: (found := job(busy, "eats")) and found["rows"] and found)
        wait_for(lambda: job(busy, "inside"))
        assert 220 < eats["memory_mb"] < 450
        assert (eats["memory_limit_mb"], eats["batch_limit"], eats["batch_limit_s"]) == (
            *(900, "batch_deadline", 60.0),
        )
        assert eats["batch_s"] < 60
        supervisor = busy("status", "--json").json["supervisor"]["pid"]
        pid = row(busy.home)["pid"]
        assert len(tree(pid, supervisor)) == 3
        guardian = next(one for one in meter.children(supervisor) if pid in meter.children(one))
        assert set(tree(pid, supervisor)) < set(meter.descendants(guardian)), "the template is beside it"
        assert tree(pid, supervisor + 1) == [], "the number of a process that is not of this run"
        inside = job(busy, "inside")
        assert (inside["memory_mb"], inside["memory_limit_mb"]) == (None, 0)
        line = next(one for one in busy("status").out.splitlines() if "   eats   " in one)
        assert " of 60 s   " in line
        assert " MB of 900 MB   " in line
    world = busy("show", "2", "--json").json["attempts"][0]["world"]
    assert (world["spawn"], world["limits"]) == ("inproc", {}), "nothing holds a thread to a limit"


def test_a_number_that_is_no_worker_of_the_run_tells_nothing() -> None:
    """U31: pids are reissued, and a store may be looked at from elsewhere."""
    assert sizes([0, 1, 2**30], 1) == {}
    assert sizes([], 1) == {}


def test_the_rate_of_a_resumed_attempt_is_its_own(busy: Shell) -> None:
    """LESSONS 31: what earlier attempts have landed is not of its time."""
    busy("enqueue", "eats", '{"count": 1000}')
    with running(busy):
        wait_for(lambda: job(busy, "eats").get("rows") == 1000)
    with running(busy):
        again = wait_for(lambda: (found := job(busy, "eats")) and found["rate"] is not None and found)
    assert (again["attempt"], again["rows"], again["rate"]) == (2, 1000, 0.0)
