"""Letting writers from outside in while the lander commits group after group (CONTRACTS K7).

SQLite's write lock is not fair: a busy lander takes it again before a sleeper has
woken. A waiting writer therefore holds a second lock, the turnstile, while it waits
for BEGIN IMMEDIATE; the lander tries it before each group and steps aside. Writers that
follow each other closely all get in meanwhile: that it is still held does not mean that
stepping aside was in vain, only that nobody has committed does.
"""

import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Final

from landing.connect import TURNSTILE
from landing.flock import Flock
from landing.views import data_version

STEP_ASIDE: Final = 0.05
IGNORE_AFTER_VAIN: Final = 1.0
TRY_MILLISECONDS: Final = 8
TRIES: Final = 3750
TRIES_AT_TURNSTILE: Final = 625


class Turnstile:
    """The lander's side. `db` is its connection, `monotonic` is in seconds, `pause(seconds)` sleeps."""

    def __init__(
        self,
        home: Path,
        db: sqlite3.Connection,
        monotonic: Callable[[], float],
        pause: Callable[[float], object],
    ) -> None:
        self._lock = open_lock(home)
        self._db = db
        self._monotonic = monotonic
        self._pause = pause
        self._ignore_until = 0.0

    def step_aside(self) -> None:
        """Wait until no writer is at the turnstile, for 50 ms at most."""
        start = self._monotonic()
        if start < self._ignore_until or self._free():
            return
        before = self._commits()
        while self._monotonic() - start < STEP_ASIDE:
            self._pause(0.001)
            if self._free():
                return
        if self._commits() == before:
            self._ignore_until = self._monotonic() + IGNORE_AFTER_VAIN

    def _commits(self) -> int | None:
        """Return a number that changes when somebody else commits; None where the store cannot say."""
        with suppress(sqlite3.Error):  # the next BEGIN will meet it, too, and be heard
            return data_version(self._db)
        return None

    def _free(self) -> bool:
        with suppress(OSError):  # somebody in this process has closed it: nobody is waited for
            if not self._lock.take():
                return False
            self._lock.release()
        return True

    def close(self) -> None:
        """Let go of the lock file."""
        self._lock.close()


def begin_in_turn(db: sqlite3.Connection, home: Path) -> None:
    """BEGIN IMMEDIATE, standing at the turnstile while others write: 5 s at a time, 30 s in all.

    SQLite's own busy timeout is the clock. Each try is so short that it never sleeps through the
    50 ms for which the lander steps aside, and that the next in line is at the turnstile
    before the lander looks again.

    Raises:
        sqlite3.OperationalError: SQLITE_BUSY for 30 s, or any other error.
    """
    db.execute(f"PRAGMA busy_timeout = {TRY_MILLISECONDS}")
    with closing(open_lock(home)) as lock:
        turn = 1
        stand(lock, aside=False)
        while not begun(db, last=turn == TRIES):
            turn += 1
            stand(lock, aside=turn % TRIES_AT_TURNSTILE == 0)


def stand(lock: Flock, *, aside: bool) -> None:
    """Take the turnstile if it is free and keep it, or let the next in line have it."""
    if aside:
        lock.release()
    else:
        lock.take()


def begun(db: sqlite3.Connection, *, last: bool) -> bool:
    """Try once to begin; busy is no error before the last try."""
    try:
        db.execute("BEGIN IMMEDIATE")
    except sqlite3.OperationalError as error:
        if last or error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
            raise
        return False
    return True


def open_lock(home: Path) -> Flock:
    """Open the lock file, making it 0600 where it is missing; it is never unlinked."""
    return Flock(home / TURNSTILE)
