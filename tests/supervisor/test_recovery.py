"""What a start finds of the runs before it: processes that live on, and jobs in flight (CONTRACTS K9)."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from ipc.leftovers import MARKER, Leftovers, can_look
from landing.claim import Claim
from landing.connect import open_writer, store_path
from landing.lease import Start
from landing.migrate import INIT_LOCK, init_lock
from landing.runs import OpenRun
from landing.snapshot import store_identity
from policies.priority import in_claim_order
from policies.retry import judge
from supervisor import sensors
from supervisor.events import RunStarted, Warned
from supervisor.lock import LockHeld, SupervisorLock
from supervisor.run import opening
from supervisor.run.daemon import Served
from supervisor.run.opening import tied
from supervisor.run.serve import take_lock
from tests.supervisor.families import children
from tests.supervisor.serving import House, kill_session, wait_for

LEAVER = """
import os, subprocess, sys, time
from pathlib import Path
from supervisor import App

app = App("leaver")
app.migration(1, "CREATE TABLE items (job INT, n INT, text TEXT, attempt INT)")
DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"

def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False

@app.lane("leaves")
def leaves(job, ctx):
    left = Path(job.payload["pid"])
    if left.exists():
        yield 0, "alive" if alive(int(left.read_text())) else "gone"
        return
    away = subprocess.Popen([sys.executable, "-c", DEAF], start_new_session=True)
    left.with_suffix(".new").write_text(str(away.pid))
    left.with_suffix(".new").rename(left)
    time.sleep(600)

@leaves.lander
def land(db, job, rows):
    db.executemany(f"INSERT INTO items VALUES ({job.id}, ?, ?, {job.attempt})", rows)
"""
needs_proc = pytest.mark.skipif(not can_look(), reason="this system shows no environments")


@pytest.fixture
def leaver(tmp_path: Path) -> House:
    source = tmp_path / f"leaver_{sensors.fence()}.py"  # a module's name is taken once in a process
    source.write_text(LEAVER)
    return House(tmp_path, app=str(source))


@pytest.fixture
def stranger() -> Iterator[Callable[..., int]]:
    """Start processes that are nobody's business; tell their ids, and end them at the end."""
    started = []

    def start(**env: str) -> int:
        process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, env=env)
        started.append(process)
        wait_for(
            lambda: Path(f"/proc/{process.pid}/cmdline").read_bytes().startswith(sys.executable.encode())
        )
        return process.pid

    yield start
    for process in started:
        process.kill()
        process.communicate()


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def durable(house: House, name: str) -> list[dict[str, Any]]:
    """Return what the events of one name keep."""
    found = house.query("SELECT detail FROM laneway_events WHERE name = ? ORDER BY id", name)
    return [json.loads(detail) for (detail,) in found]


def told(house: House, code: str) -> list[str]:
    return [event.text for event in house.of(Warned) if event.code == code]


def die_together(process: "subprocess.Popen[str]") -> None:
    """Kill a supervisor and its guardians so that none of them can act on another's end."""
    os.kill(process.pid, signal.SIGSTOP)
    guardians = [one.pid for one in children(process.pid)]
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for pid in (*guardians, process.pid):
            os.kill(pid, number)


# --- processes of dead runs


@needs_proc
def test_what_left_its_tree_is_ended_before_its_job_is_claimed_again(leaver: House, tmp_path: Path) -> None:
    """K9, U41, FIELD B3: in a session of its own, deaf to SIGTERM; its parent and its guardian are dead."""
    job = leaver.enqueue("leaves", {"pid": str(tmp_path / "left")})
    process = leaver.start()
    try:
        wait_for((tmp_path / "left").exists)
        die_together(process)
    finally:
        kill_session(process)
    left = int((tmp_path / "left").read_text())
    assert is_alive(left)
    assert leaver.serve() == Served("idle")
    assert leaver.items(job) == [(0, "gone")]
    assert not is_alive(left)
    (found,) = durable(leaver, "leftovers")  # perhaps with children that were about to die by themselves
    assert left in found["ended"]
    assert found["survivors"] == []
    (line,) = told(leaver, "leftovers")
    assert (
        line == f"ended what a dead run had left running: {', '.join(f'pid {pid}' for pid in found['ended'])}"
    )


def dead_run(house: House, pid: int, marker: str, jobs: int = 1) -> list[int]:
    """Leave behind what a supervisor leaves that died while jobs ran; return their ids."""
    ids = [house.enqueue("quick") for _ in range(jobs)]
    run = house.store.write(OpenRun(pid=pid, boot="b", version="0", marker=marker, judge=judge)).run
    kinds = frozenset({"quick"})
    for job in ids:
        fence = f"fence of {job}"
        claim = Claim(run=run, pid=pid, fence=fence, ready=kinds, loaded=kinds, order=in_claim_order)
        assert house.store.write(claim).claimed.job == job
        assert house.store.write(Start(job, fence))
    return ids


def own_marker(house: House) -> str:
    return tied(sensors.fence()[:16], store_identity(house.home))


@needs_proc
def test_a_stranger_that_has_the_number_of_the_dead_run_by_now_is_left_alone(
    house: House, stranger: Callable[..., int]
) -> None:
    """FIELD B5, K11."""
    pid = stranger(**{MARKER: sensors.fence()})
    (job,) = dead_run(house, pid, own_marker(house))
    assert house.serve() == Served("idle")
    assert house.job(job)["state"] == "done"
    assert is_alive(pid)
    assert durable(house, "leftovers") == []


@needs_proc
def test_a_copy_of_a_store_never_touches_the_children_of_the_original(
    house: House, stranger: Callable[..., int]
) -> None:
    """K11: its rows name runs of the original, which may be alive; here with the garbage a cell may hold."""
    original = tied(sensors.fence()[:16], (1, 2))
    pids = [stranger(**{MARKER: marker}) for marker in (original, "m", "")]
    for marker in (original, "m", ""):
        dead_run(house, 1, marker, jobs=0)
    assert house.serve() == Served("idle")
    assert all(map(is_alive, pids))


@needs_proc
def test_runs_that_ended_as_they_should_leave_nothing_to_look_for(
    house: House, stranger: Callable[..., int]
) -> None:
    """U42: a process that a job of theirs started on purpose may live on."""
    house.serve()
    ((marker,),) = house.query("SELECT marker FROM laneway_runs WHERE clean = 1")
    assert marker == tied(marker[:16], store_identity(house.home))
    pid = stranger(**{MARKER: marker})
    house.serve()
    assert is_alive(pid)


def test_what_does_not_end_is_named_and_holds_up_nobody(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K9, U3: its fence is dead, and a store that waited for state D would wait for the next boot."""
    (job,) = dead_run(house, 1, own_marker(house))
    monkeypatch.setattr(opening, "end_leftovers", lambda *_: Leftovers((5,), (6, 7)))
    assert house.serve() == Served("idle")
    assert house.job(job)["state"] == "done"
    assert told(house, "leftovers") == [
        "ended what a dead run had left running: pid 5;"
        " SIGKILL does not end what a dead run had left running: pid 6, pid 7"
    ]
    assert durable(house, "leftovers") == [{"ended": [5], "survivors": [6, 7]}]


# --- told once


def test_a_recovery_is_told_by_the_start_that_makes_it_and_by_no_other(house: House) -> None:
    """K9, C192, U42."""
    house.serve()
    again, failed = dead_run(house, 1, own_marker(house), jobs=2)
    with closing(open_writer(store_path(house.home))) as db:
        db.execute("UPDATE laneway_jobs SET options = '{\"max_attempts\": 1}' WHERE id = ?", (failed,))
    assert house.serve() == Served("idle")
    assert house.serve() == Served("idle")
    first, second, third = house.of(RunStarted)
    assert (first.died, first.recovered) == ((), ())
    assert (second.died, second.recovered, second.failed) == ((2,), (again, failed), (failed,))
    assert (third.died, third.recovered) == ((), ())
    assert durable(house, "recovered") == [{"runs": [2], "queued": [again], "failed": [failed]}]
    assert house.job(again)["state"] == "done"


def test_everything_killed_right_after_a_claim_is_found_and_run(house: House) -> None:
    """FIELD C13, K9."""
    job = house.enqueue("quick", {"rows": 5})
    process = house.start()
    try:
        wait_for(lambda: house.job(job)["claims"])
        die_together(process)
    finally:
        kill_session(process)
    assert house.serve() == Served("idle")
    assert [n for n, _ in house.items(job)] == list(range(5))
    assert house.job(job)["state"] == "done"


# --- set back while nobody watched, and an upgrade under way


def test_a_start_after_the_clock_was_set_back_says_that_waits_began_anew(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K10."""
    (job,) = dead_run(house, 1, own_marker(house))
    with closing(open_writer(store_path(house.home))) as db:
        ahead = sensors.now_micros() + 3_600_000_000
        db.execute(
            "UPDATE laneway_jobs SET state = 'pending', reason = 'backoff', watch = 'backoff', fence = NULL,"
            " lease_expires_at = NULL, wake_at = ? WHERE id = ?",
            (ahead + 300_000, job),
        )
        db.execute(
            "INSERT INTO laneway_receipts (attempt_id, job_id, outcome, finished_at)"
            " SELECT id, job_id, 'failed', ? FROM laneway_attempts",
            (ahead,),
        )
    assert house.serve() == Served("idle")
    assert house.job(job)["state"] == "done"
    assert told(house, "clock_set") == ["the clock was set back while no supervisor ran; 1 wait began anew"]


def test_a_start_waits_for_a_writer_that_upgrades_an_older_store(house: House) -> None:
    """K7: it holds the supervisor's lock for longer than a start tries, and init.lock with it."""
    lock = take_lock(house.home)
    taken: list[SupervisorLock] = []
    start = threading.Thread(target=lambda: taken.append(take_lock(house.home)))
    with init_lock(house.home):
        start.start()
        wait_for(lambda: openings(house.home / INIT_LOCK) == 2)
        assert not taken
    lock.release()
    start.join(20)
    taken[0].release()


def test_a_run_beside_another_is_still_refused(house: House) -> None:
    """C190: nobody upgrades there."""
    lock = take_lock(house.home)
    with pytest.raises(LockHeld):
        take_lock(house.home)
    lock.release()


def openings(path: Path) -> int:
    """Count the descriptors of this process that are this file."""
    return sum(os.path.realpath(f"/proc/self/fd/{fd}") == str(path) for fd in os.listdir("/proc/self/fd"))
