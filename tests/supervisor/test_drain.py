"""Stops while something is under way: a landing, a store that is locked, a hung child (K9, C195)."""

import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from landing.connect import open_writer, store_path
from landing.lease import Renew
from supervisor import events
from supervisor.events import BatchLanded, RunStarted, Stopping, Warned
from supervisor.run.daemon import Served
from supervisor.run.serve import serve
from tests.supervisor.families import Family
from tests.supervisor.serving import House, kill_session, wait_for

HOLDER = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=30)
db.execute("BEGIN IMMEDIATE")
print("held", flush=True)
sys.stdin.read()
"""


@contextmanager
def store_locked(home: Path) -> Iterator[None]:
    """Have another process hold the write lock."""
    command = [sys.executable, "-c", HOLDER, str(store_path(home))]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield
    finally:
        process.communicate()


def is_locked(home: Path) -> bool:
    """Tell whether somebody writes right now."""
    with closing(sqlite3.connect(store_path(home), isolation_level=None, timeout=0)) as db:
        try:
            db.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return True
        db.execute("ROLLBACK")
    return False


def status(house: House) -> int:
    command = [sys.executable, "-m", "supervisor", "status", "--json", "--home", str(house.home)]
    return subprocess.run(command, capture_output=True, timeout=10, check=False).returncode


def serve_here(house: House, seen: list[events.Event], until_idle: bool = False) -> Served:
    return serve(house.application, house.settings, until_idle=until_idle, report=seen.append)


@contextmanager
def sent_when(fact: Any, number: int) -> Iterator[None]:
    """Send this process a signal as soon as something is so; the loop of a run here is on this thread."""

    def send() -> None:
        wait_for(fact)
        os.kill(os.getpid(), number)

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield
    finally:
        thread.join()


def test_a_stop_lets_the_landing_in_progress_finish(house: House) -> None:
    """C195: within grace and one landing."""
    job = house.enqueue("slow_lander")
    process = house.start()
    try:
        wait_for(lambda: house.job(job)["claims"])
        wait_for(lambda: all(is_locked(house.home) for _ in range(50)))
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=20)
    finally:
        kill_session(process)
    assert process.returncode == 0
    assert house.items(job) == [(-1, "slow")]
    assert house.job(job)["landed_seq"] == 1
    assert house.query("SELECT clean FROM laneway_runs") == [(1,)]


def test_status_answers_while_a_run_drains_and_while_the_store_is_locked(house: House) -> None:
    """U31, C195: reading needs nobody's leave."""
    house.enqueue("wedged_in_c", batch_deadline=3600, grace=2)
    process = house.start()
    try:
        wait_for(lambda: house.query("SELECT 1 FROM laneway_jobs WHERE landed_rows = 1"))
        with store_locked(house.home):
            assert status(house) == 0
            process.send_signal(signal.SIGTERM)
            assert status(house) == 0
            assert process.poll() is None, "its receipt waits for the store"
        process.communicate(timeout=20)
    finally:
        kill_session(process)
    assert process.returncode == 0
    assert house.query("SELECT clean FROM laneway_runs") == [(1,)]


def test_a_stop_of_a_store_that_stays_locked_ends_all_the_same(
    house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C195, K11: after grace and the patience of a writer; the next start settles what is left."""
    monkeypatch.setattr("supervisor.run.daemon.LANDING_SECONDS", 0.5)
    job = house.enqueue("stoppable", {"rows": 100_000, "ready": str(tmp_path / "ready")}, grace=0.2)
    seen: list[events.Event] = []
    lock = store_locked(house.home)

    def begun_and_locked() -> bool:
        wait_for(lambda: house.job(job)["landed_rows"] > 3)
        lock.__enter__()
        return True

    with sent_when(begun_and_locked, signal.SIGTERM):
        assert serve_here(house, seen) == Served("stopped", "SIGTERM", stuck=True)
    lock.__exit__(None, None, None)
    assert "not_closed" in {event.code for event in seen if isinstance(event, Warned)}
    assert house.query("SELECT clean FROM laneway_runs") == [(0,)]
    again: list[events.Event] = []
    with sent_when(lambda: any(isinstance(event, BatchLanded) for event in again), signal.SIGTERM):
        assert serve_here(house, again) == Served("stopped", "SIGTERM")
    (started,) = [event for event in again if isinstance(event, RunStarted)]
    assert (started.died, started.recovered, started.failed) == ((1,), (job,), ())
    assert [n for n, _ in house.items(job)] == list(range(house.job(job)["landed_rows"]))
    assert house.job(job)["failures"] == 0


def test_a_second_signal_ends_a_run_within_a_second_and_loses_nothing(house: House, tmp_path: Path) -> None:
    """C195, FIELD H3: the first drains, the second does not wait for it."""
    hung = house.enqueue("wedged_in_c", batch_deadline=3600, grace=600)
    job = house.enqueue("stoppable", {"rows": 100_000, "ready": str(tmp_path / "ready")})
    seen: list[tuple[float, events.Event]] = []

    def both_run() -> bool:
        return bool(house.job(hung)["landed_rows"]) and house.job(job)["landed_rows"] > 3

    def report(event: events.Event) -> None:
        seen.append((time.monotonic(), event))
        if isinstance(event, Stopping) and not event.now:
            os.kill(os.getpid(), signal.SIGINT)

    with sent_when(both_run, signal.SIGINT):
        served = serve(house.application, house.settings, until_idle=False, report=report)
    (asked,) = [at for at, event in seen if isinstance(event, Stopping) and event.now]
    assert served == Served("interrupted", "SIGINT")
    assert time.monotonic() - asked < 1.0 + 1.0, "a second, and one for a busy machine"
    assert house.query("PRAGMA integrity_check") == [("ok",)]
    assert {house.job(one)["state"] for one in (hung, job)} == {"queued"}
    assert {house.job(one)["failures"] for one in (hung, job)} == {0}
    assert [n for n, _ in house.items(job)] == list(range(house.job(job)["landed_rows"]))
    assert house.query("SELECT clean FROM laneway_runs") == [(1,)]


AT_A_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""


@contextmanager
def at_a_terminal(house: House) -> Iterator[tuple["subprocess.Popen[bytes]", int]]:
    """Start a supervisor in the foreground of a terminal; give the terminal's other end, too."""
    ours, theirs = os.openpty()
    command = ["-m", "supervisor", "run", "--home", str(house.home), "--app", house.app]
    process = subprocess.Popen(
        [sys.executable, "-c", AT_A_TERMINAL, *command],
        cwd=house.settings.folder,
        stdin=theirs,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield process, ours
    finally:
        process.kill()
        process.wait()
        os.close(ours)
        os.close(theirs)


def test_ctrl_c_at_a_terminal_drains_and_again_ends_all_within_a_second(house: House) -> None:
    """FIELD H3, H1, C195: the first is no signal to the children; after the second no guardian is left."""
    job = house.enqueue("wedged_in_c", batch_deadline=3600, grace=600)
    with at_a_terminal(house) as (process, terminal):
        wait_for(lambda: house.job(job)["landed_rows"] == 1)
        os.write(terminal, b"\x03")
        wait_for(lambda: house.query("SELECT 1 FROM laneway_events WHERE name = 'stopping'"))
        assert house.job(job)["state"] == "running"
        family = Family.of(process.pid)
        assert len(family.alive()) == len(family.guardians) + len(family.kept) >= 2
        os.write(terminal, b"\x03")
        asked = time.monotonic()
        process.wait(20)
        assert time.monotonic() - asked < 1.0 + 1.0, "a second, and one for a busy machine"
        assert family.left() == []
    assert process.returncode == 130
    assert (house.job(job)["state"], house.job(job)["failures"]) == ("queued", 0)
    assert house.query("SELECT clean FROM laneway_runs") == [(1,)]


def test_renewals_that_fail_cost_no_child_its_life(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """FIELD C7, U3: the lease is no proof of death; what runs is run once."""
    failed: list[int] = []

    def refuse(self: Renew, tx: Any) -> int:
        failed.append(self.run)
        tx.run("UPDATE laneway_jobs SET lease_expires_at = 1 WHERE fence IS NOT NULL")
        raise sqlite3.OperationalError("no renewal today")

    monkeypatch.setattr(Renew, "apply", refuse)
    monkeypatch.setattr("supervisor.run.lookout.RENEW_SECONDS", 0.0)
    monkeypatch.setattr("supervisor.run.lookout.LOOK_SECONDS", 0.1)
    job = house.enqueue("sleepy", {"seconds": 1.0})
    assert house.serve() == Served("idle")
    assert len(failed) >= 3
    assert [one["outcome"] for one in house.attempts(job)] == ["done"]
    assert len(house.items(job)) == 2


def test_a_supervisor_that_was_stopped_for_long_goes_on_and_runs_nothing_twice(house: House) -> None:
    """K5, K10, FIELD F1: its lease has lapsed, and the time it stood still does not count for a deadline."""
    job = house.enqueue("sleepy", {"seconds": 3.5}, batch_deadline=2.8)
    process = house.start("--until-idle")
    try:
        wait_for(lambda: house.job(job)["landed_rows"] == 1)
        os.kill(process.pid, signal.SIGSTOP)
        with closing(open_writer(store_path(house.home))) as db:
            db.execute("UPDATE laneway_jobs SET lease_expires_at = 1 WHERE id = ?", (job,))
        resume_at = time.monotonic() + 2.5
        wait_for(lambda: time.monotonic() >= resume_at)
        os.kill(process.pid, signal.SIGCONT)
        process.communicate(timeout=20)
    finally:
        kill_session(process)
    assert process.returncode == 0
    assert [one["outcome"] for one in house.attempts(job)] == ["done"]
    assert [n for n, _ in house.items(job)] == [0, 1]
