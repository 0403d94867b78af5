"""The right to claim, sweep and land: a kernel lock beside the store (CONTRACTS K6, K9; SPEC C190).

flock, never inherited, not by a fork either, never unlinked; the kernel frees it whatever kills the holder.
Its mtime is the supervisor's sign of life (CONTRACTS K10).
"""

import fcntl
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from landing.flock import Flock

LOCK: Final = "supervisor.lock"
RETRY_SECONDS: Final = 0.2


class LockHeld(Exception):
    """Another supervisor holds the store."""


class SupervisorLock:
    """The held lock. Args: `home` is the store's folder, `wait(seconds)` sleeps.

    Raises:
        LockHeld: still held after 200 ms (a status command holds it for an instant).
    """

    def __init__(self, home: Path, monotonic: Callable[[], float], wait: Callable[[float], object]) -> None:
        self._file = Flock(home / LOCK)
        until = monotonic() + RETRY_SECONDS
        while not self._file.take():
            if monotonic() >= until:
                self._file.close()
                raise LockHeld(f"another supervisor holds {home}")
            wait(0.01)
        self.touch()

    def fileno(self) -> int:
        """Return its descriptor."""
        return self._file.fileno()

    def touch(self) -> None:
        """Show life: the loop calls this, from one place."""
        os.utime(self._file.fileno())

    def release(self) -> None:
        """Let go; the file stays."""
        self._file.close()


def is_live(home: Path) -> bool:
    """Ask the kernel whether a supervisor runs here, holding the lock shared for an instant."""
    try:
        fd = os.open(home / LOCK, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        fcntl.flock(fd, fcntl.LOCK_UN)  # closing does not let go while a forked copy has it open
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def last_sign_of_life(home: Path) -> float | None:
    """Return when the loop last touched the lock (seconds since the epoch), or None."""
    try:
        return (home / LOCK).stat().st_mtime
    except OSError:
        return None
