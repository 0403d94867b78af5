"""Letting writers from outside in while the lander commits group after group (CONTRACTS K7).

SQLite's write lock is not fair: a busy lander takes it again before a sleeper has
woken. A waiting writer therefore holds a second lock, the turnstile, while it waits
for BEGIN IMMEDIATE; the lander tries it before each group and steps aside.
"""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

TURNSTILE: Final = "turnstile"
STEP_ASIDE: Final = 0.05
IGNORE_AFTER_VAIN: Final = 1.0


class Turnstile:
    """The lander's side. `monotonic` is in seconds, `pause(seconds)` sleeps."""

    def __init__(self, home: Path, monotonic: Callable[[], float], pause: Callable[[float], object]) -> None:
        self._fd = open_lock(home)
        self._monotonic = monotonic
        self._pause = pause
        self._ignore_until = 0.0

    def step_aside(self) -> None:
        """Wait until no writer is at the turnstile, for 50 ms at most."""
        start = self._monotonic()
        if start < self._ignore_until:
            return
        while not self._free():
            if self._monotonic() - start >= STEP_ASIDE:
                self._ignore_until = self._monotonic() + IGNORE_AFTER_VAIN
                return
            self._pause(0.001)

    def _free(self) -> bool:
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        fcntl.flock(self._fd, fcntl.LOCK_UN)
        return True

    def close(self) -> None:
        """Let go of the lock file."""
        os.close(self._fd)


@contextmanager
def at_turnstile(home: Path) -> Iterator[None]:
    """Stand at the turnstile if nobody else does; the second in line just waits for the write lock."""
    fd = open_lock(home)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pass
        yield
    finally:
        os.close(fd)


def open_lock(home: Path) -> int:
    """Open the lock file, making it 0600 where it is missing; it is never unlinked."""
    return os.open(home / TURNSTILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
