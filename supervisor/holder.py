"""Which process holds the lock of a home, and a handle on it that can mean no other (SPEC C194, FIELD B5).

/proc/locks, the run's row -> a pid -> pidfd -> is it that one, and alive? -> signals through the pidfd

A pid from a row or a table may be a stranger's by the time it is used. A pidfd stays with
its process: what is verified after it was opened holds for whatever is sent through it.
"""

import errno
import os
import select
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from supervisor.lock import LOCK

PROC: Final = Path("/proc")
LOOK_SECONDS: Final = 0.05


class HolderUnreachable(Exception):
    """Somebody holds the lock, but no process that may be signalled from here; the text says what to do."""


class Process:
    """A process by pidfd, verified to hold the lock: the kernel gives its number to no other meanwhile."""

    verified: Final = True

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._fd = os.pidfd_open(pid)

    def ask(self) -> None:
        """Send SIGTERM.

        Raises:
            HolderUnreachable: it belongs to another user.
        """
        with signalling(self.pid):
            signal.pidfd_send_signal(self._fd, signal.SIGTERM)

    def wait_gone(self, seconds: float) -> bool:
        """Wait at most so long for its end; tell whether it is gone."""
        poll = select.poll()
        poll.register(self._fd, select.POLLIN)
        return bool(poll.poll(max(0.0, seconds) * 1000))

    def close(self) -> None:
        """Let go of the handle."""
        os.close(self._fd)


class Number:
    """A process by its number, where no system call gives a handle: only as good as the row that names it."""

    verified: Final = False

    def __init__(self, pid: int, wait: Callable[[float], object]) -> None:
        self.pid = pid
        self._wait = wait

    def ask(self) -> None:
        """See `Process`."""
        with signalling(self.pid):
            os.kill(self.pid, signal.SIGTERM)

    def wait_gone(self, seconds: float) -> bool:
        """See `Process`; it is looked at twenty times a second."""
        while exists(self.pid):
            if seconds <= 0:
                return False
            self._wait(min(LOOK_SECONDS, seconds))
            seconds -= LOOK_SECONDS
        return True

    def close(self) -> None:
        """Nothing is open."""


Holder = Process | Number


@contextmanager
def signalling(pid: int) -> Iterator[None]:
    """Say what a refused signal means; one that is gone needs none."""
    try:
        yield
    except ProcessLookupError:
        return
    except PermissionError:
        raise another_users(pid) from None


def another_users(pid: int) -> HolderUnreachable:
    """Return the error about a holder that only its owner or root may stop."""
    return HolderUnreachable(f"pid {pid} holds it and belongs to another user; they or root may stop it")


def find_holder(home: Path, said: int | None, wait: Callable[[float], object]) -> Holder:
    """Return the process that holds the supervisor's lock of a home.

    Args:
        home: the store's folder.
        said: the pid of the newest run's row, if that run is still open.
        wait: sleeps so many seconds.

    Raises:
        HolderUnreachable: none can be seen from here, or it belongs to another user.
    """
    if not (PROC / "locks").exists():
        if said is not None and exists(said):
            return Number(said, wait)
        raise HolderUnreachable(f"a supervisor holds {home}, but its run names no process that is there")
    lock = (home / LOCK).stat()
    named = list(pids_at(lock))
    for pid in dict.fromkeys([*named, *([] if said is None else [said])]):
        try:
            process = verified(pid, lock)
        except PermissionError:
            if pid in named:
                raise another_users(pid) from None
            continue
        if process is not None:
            return process
    raise HolderUnreachable(
        f"a supervisor holds {home}, but no process that can be seen from here does:"
        " it runs in another container or pid namespace; stop it there"
    )


def verified(pid: int, lock: os.stat_result) -> Process | None:
    """Return a handle on process `pid` if it holds a lock on that very file, None if it does not.

    The handle is opened first. Its process is still alive at the end, so that what
    /proc says meanwhile of the number is said of it.
    """
    try:
        process = Process(pid)
    except (ProcessLookupError, ValueError):
        return None
    except OSError as error:
        if error.errno == errno.EINVAL:  # 0, a process of another pid namespace; or the number of a thread
            return None
        raise
    try:
        mine = holds(pid, lock) and not process.wait_gone(0)
    except BaseException:
        process.close()
        raise
    if mine:
        return process
    process.close()
    return None


def pids_at(lock: os.stat_result) -> Iterator[int]:
    """Yield the pids that /proc/locks names for an inode; another device's file may have the same."""
    for line in (PROC / "locks").read_text().splitlines():
        words = line.split()  # 1: FLOCK ADVISORY WRITE 13792 fe:00:2302002 0 EOF
        if words[1:2] + words[3:4] == ["FLOCK", "WRITE"] and words[5].endswith(f":{lock.st_ino}"):
            yield int(words[4])


def holds(pid: int, lock: os.stat_result) -> bool:
    """Tell whether one of a process's descriptors is that file, under an exclusive flock of its own."""
    folder = PROC / str(pid)
    with suppress(FileNotFoundError, ProcessLookupError):
        numbers = [one.name for one in (folder / "fd").iterdir()]
        return any(is_same(folder / "fd" / one, lock) and is_locked(pid, one) for one in numbers)
    return False


def is_same(path: Path, lock: os.stat_result) -> bool:
    """Tell whether a path leads to that file."""
    try:
        return os.path.samestat(path.stat(), lock)
    except OSError:
        return False


def is_locked(pid: int, fd: str) -> bool:
    """Tell whether the kernel lists an exclusive flock of this process at one of its descriptors."""
    lines = (PROC / str(pid) / "fdinfo" / fd).read_text().splitlines()
    locks = [line.split() for line in lines if line.startswith("lock:")]
    return any(words[2:3] + words[4:6] == ["FLOCK", "WRITE", str(pid)] for words in locks)


def exists(pid: int) -> bool:
    """Tell whether there is such a process; that it may not be signalled means that there is."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def is_stopped(pid: int) -> bool:
    """Tell whether a process is stopped (SIGSTOP), as far as the system says."""
    with suppress(OSError):
        return (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] in {"T", "t"}
    return False
