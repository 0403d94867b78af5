"""A supervisor adopts orphans: those of its guardians are its business, an application's own are not."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from ipc.appspec import load_app
from ipc.subreaper import adopting_orphans, ask, asked
from supervisor import sensors
from supervisor.run.daemon import Served
from supervisor.run.serve import serve
from tests.supervisor.families import groups_left, stat
from tests.supervisor.serving import House

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has subreapers")

LANDER = """
import os, signal, subprocess, time
from pathlib import Path
from supervisor import App

app = App("orphans")
app.migration(1, "CREATE TABLE items (job INT, n INT, text TEXT)")
HERE = Path(__file__).parent
STARTED = {}

@app.lane("kills_its_guardian", backoff=0)
def kills_its_guardian(job, ctx):
    yield job.attempt, "row"
    ctx.checkpoint(str(job.attempt))
    if job.attempt == 1:
        while not (HERE / "started").exists():
            time.sleep(0.005)
        os.kill(os.getppid(), signal.SIGKILL)
        time.sleep(100)

@kills_its_guardian.lander
def land(db, job, rows):
    if not STARTED:
        for name, line in (("ends", "exit 7"), ("lives", "exec sleep 100")):
            STARTED[name] = subprocess.Popen(["sh", "-c", line])
        left = subprocess.run(["sh", "-c", "sleep 100 >/dev/null & echo $!"], stdout=subprocess.PIPE)
        STARTED["orphan"] = int(left.stdout)
        os.waitid(os.P_PID, STARTED["ends"].pid, os.WEXITED | os.WNOWAIT)
        (HERE / "started").touch()
    else:
        text = f"{STARTED['ends'].wait()} {STARTED['lives'].poll()}"
        db.execute("INSERT INTO items VALUES (?, ?, ?)", (job.id, job.attempt, text))
"""


@pytest.fixture
def started(tmp_path: Path) -> Iterator[dict[str, Any]]:
    """What the lander has started, here in this process; ended at the end."""
    source = tmp_path / f"orphans_{sensors.fence()}.py"
    source.write_text(LANDER)
    found: dict[str, Any] = load_app(f"{source}:STARTED")
    yield found
    for pid in (found["orphan"], found["lives"].pid):
        os.kill(pid, signal.SIGKILL)
    os.waitpid(found["orphan"], 0)
    found["lives"].wait()


def test_children_of_landers_are_neither_signalled_nor_reaped_though_a_guardian_was_killed_beside_them(
    tmp_path: Path, started: dict[str, Any]
) -> None:
    """K11: one that has ended, one that lives, and an orphan that one has left."""
    (source,) = tmp_path.glob("orphans_*.py")
    house = House(tmp_path, app=str(source))
    job = house.enqueue("kills_its_guardian")
    assert house.serve() == Served("idle")
    assert [one["error_code"] for one in house.attempts(job)] == ["guardian_died", None]
    assert house.items(job) == [(2, "7 None")], "how the first ended was there to be asked for"
    for pid in (started["orphan"], started["lives"].pid):
        assert stat(pid)[0] == "S"
    assert groups_left(marker for (marker,) in house.query("SELECT marker FROM laneway_runs")) == []


@pytest.mark.parametrize("before", [0, 1])
def test_a_run_leaves_a_process_as_it_was_to_orphans(house: House, before: int) -> None:
    """K11: `serve()` is called in the process of somebody who may have children of their own."""
    seen = []
    was = asked()
    ask(before)
    try:
        house.enqueue("quick")
        serve(house.application, house.settings, until_idle=True, report=lambda _: seen.append(asked()))
        assert asked() == before
    finally:
        ask(was)
    assert set(seen) == {1}


def test_of_several_runs_in_a_process_the_last_that_ends_puts_it_back() -> None:
    was = asked()
    try:
        ask(0)
        with ExitStack() as first:
            first.enter_context(adopting_orphans())
            with ExitStack() as second:
                second.enter_context(adopting_orphans())
                first.close()
                assert asked() == 1
        assert asked() == 0
    finally:
        ask(was)


def test_an_orphan_that_comes_before_a_run_or_after_it_goes_where_it_went_before(house: House) -> None:
    """K11."""
    house.serve()
    left = subprocess.run(["sh", "-c", "sleep 100 >/dev/null & echo $!"], stdout=subprocess.PIPE, check=True)
    orphan = int(left.stdout)
    try:
        assert int(stat(orphan)[1]) != os.getpid()
    finally:
        os.kill(orphan, signal.SIGKILL)
