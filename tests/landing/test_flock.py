"""Locks of the store's folder, which a copy of the process does not keep (CONTRACTS K7, K9)."""

import os
import signal
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from landing.flock import Flock
from landing.migrate import create, init_lock
from landing.turnstile import TURNSTILE, begin_in_turn
from tests.landing.stand import START, Stand


def forked(act: Callable[[], object] = lambda: None) -> int:
    """Fork without exec, as application code may; the copy does one thing and stays."""
    done, told = os.pipe()
    if (pid := os.fork()) == 0:
        signal.alarm(40)  # outlives no test that was killed
        try:
            act()
            os.write(told, b"1")
        finally:
            os.close(told)
            signal.pause()
            os._exit(0)
    os.close(told)
    said = os.read(done, 1)
    os.close(done)
    if said != b"1":
        end(pid)
    assert said == b"1", "the copy failed"
    return pid


def end(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


@contextmanager
def copied(act: Callable[[], object] = lambda: None) -> Iterator[int]:
    pid = forked(act)
    try:
        yield pid
    finally:
        end(pid)


def files_of(pid: int) -> set[str]:
    return {os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")}


needs_proc = pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="this system lists no descriptors")


@needs_proc
def test_a_forked_copy_has_no_lock_file_open_and_takes_none_away(tmp_path: Path) -> None:
    """K9: whatever was locked stays locked by the process that did it."""
    path = tmp_path / "lock"
    with closing(Flock(path)) as lock, closing(Flock(tmp_path / "other")), closing(Flock(path)) as rival:
        assert lock.take()
        with copied() as pid:
            assert not files_of(pid) & {str(path), str(tmp_path / "other")}
            assert not rival.take()
            lock.release()
            assert rival.take()


def test_a_copy_lets_go_of_a_lock_only_once_and_of_no_file_that_has_its_number_since(tmp_path: Path) -> None:
    """K9: the copy leaves the `with` of what it was born with."""
    lock = Flock(tmp_path / "lock")
    number = lock.fileno()

    def act() -> None:
        assert lock.fileno() == -1
        os.dup2(0, number)
        lock.close()
        os.fstat(number)

    with copied(act):
        pass
    lock.close()
    lock.close()


def test_a_copy_may_lock_on_its_own(tmp_path: Path) -> None:
    def act() -> None:
        assert Flock(tmp_path / "lock").take()

    with closing(Flock(tmp_path / "lock")) as lock:
        with copied(act):
            assert not lock.take()
        assert lock.take()


@needs_proc
def test_a_fork_waits_until_a_file_that_is_being_opened_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K9: one thread opens, another one forks."""
    real, opening, go_on = os.open, threading.Event(), threading.Event()
    monkeypatch.setattr(
        "landing.flock.open_private", lambda path: (real(path, os.O_RDWR | os.O_CREAT), slow())[0]
    )

    def slow() -> None:
        opening.set()
        assert go_on.wait(20)

    locks: list[Flock] = []
    pids: list[int] = []
    opener = threading.Thread(target=lambda: locks.append(Flock(tmp_path / "lock")))
    opener.start()
    assert opening.wait(20)
    forker = threading.Thread(target=lambda: pids.append(forked()))
    forker.start()
    forker.join(0.1)
    assert not pids
    go_on.set()
    opener.join(20)
    forker.join(20)
    try:
        assert str(tmp_path / "lock") not in files_of(pids[0])
    finally:
        end(pids[0])
    locks[0].close()


def test_a_copy_made_while_a_store_is_made_holds_up_nobody_else(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K7: init.lock would be held for as long as the copy lives."""
    monkeypatch.setattr("landing.migrate.INIT_TRIES", 2)
    home.mkdir()
    with init_lock(home):
        pid = forked()
    try:
        create(home, START)
    finally:
        end(pid)


def test_a_copy_made_while_a_writer_waits_does_not_stay_at_the_turnstile(stand: Stand) -> None:
    """K7."""
    with closing(sqlite3.connect(stand.home / "store.db", isolation_level=None)) as db:
        pids: list[int] = []

        class Forks:
            """Stands in for a connection under which another thread forks."""

            def execute(self, statement: str) -> object:
                if statement == "BEGIN IMMEDIATE":
                    pids.append(forked())
                return db.execute(statement)

        begin_in_turn(Forks(), stand.home)  # type: ignore[arg-type]
        try:
            with closing(Flock(stand.home / TURNSTILE)) as lock:
                assert lock.take()
        finally:
            end(pids[0])
