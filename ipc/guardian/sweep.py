"""Ending a whole tree: kill every child, reap what is dead, and again, until there is none left.

A subreaper gets every orphan below it, whatever session or group it has put itself in. A fork with
SIGKILL pending fails, so what was killed and reaped has left its children here: each pass ends a
generation, and a chain of forks would have to outrun the passes. Where the system has no
subreaper there is only the child's process group.
"""

import os
import signal
from contextlib import suppress

from ipc.guardian import meter

DRY_PASSES = 20
"""Passes in which nothing died, after which the next ones wait a little longer each."""
LONGEST_PAUSE = 0.05

Ended = tuple[int, int, float]
"""Wait status, peak memory in KiB, CPU seconds."""

EARLY: dict[int, Ended] = {}
"""How children ended that were reaped while only a look at them was wanted, where no look reaps nothing."""


class Sweep:
    """One ending of a tree. `kept` is the one child that stays; `ward` is reaped by whoever asked.

    Attributes:
        ended: how many were alive until SIGKILL ended them.
        reaped: how many have been reaped, those included that had ended by themselves before.
        left: who is still there.
    """

    def __init__(self, kept: int, ward: int) -> None:
        self.kept = kept
        self.ward = ward
        self.ended = self.reaped = 0
        self.left: list[int] = []
        self._dry = 0

    def pass_once(self) -> float | None:
        """Kill and reap what is there; return seconds until the next pass, None when nothing was left.

        Only a ward that was dead before has nothing that could still become ours.
        """
        try:
            found = [pid for pid in meter.children(os.getpid()) if pid not in (self.kept, self.ward)]
        except OSError:  # no descriptor or no memory for a look: that is not an empty tree
            return LONGEST_PAUSE
        ends = {pid: end(pid) for pid in found}
        self.left = [pid for pid, ended in ends.items() if ended is None]
        self.ended += sum(map(was_killed, ends.values()))
        gone = len(found) - len(self.left)
        self.reaped += gone
        if not found:
            return None
        self._dry = 0 if gone else self._dry + 1
        return 0.0 if self._dry < DRY_PASSES else min(LONGEST_PAUSE, self._dry * 1e-4)


def end(pid: int) -> Ended | None:
    """Kill a child of ours; reap it and return how it has ended if it is dead by now, None while it lives."""
    with suppress(OSError):  # it has another user's rights by now: it stays, and is told of
        os.kill(pid, signal.SIGKILL)
    return reap(pid)


def was_killed(ended: Ended | None) -> bool:
    """Tell whether SIGKILL ended a child: a zombie that nobody had waited for has an end of its own."""
    return ended is not None and os.WIFSIGNALED(ended[0]) and os.WTERMSIG(ended[0]) == signal.SIGKILL


def reap(pid: int) -> Ended | None:
    """Return how a dead child of ours has ended, None while it lives.

    A child that has made us its tracer is reported when it stops, whatever is asked for.
    """
    if pid in EARLY:
        return EARLY.pop(pid)
    try:
        found, status, usage = os.wait4(pid, os.WNOHANG)
    except ChildProcessError:  # no child of ours
        return None
    if not found or os.WIFSTOPPED(status):
        return None
    return status, usage.ru_maxrss, usage.ru_utime + usage.ru_stime


def kill_group(pid: int) -> None:
    """SIGKILL a child that is not reaped yet, with all that stayed in its process group."""
    for kill in (os.killpg, os.kill):
        with suppress(OSError):
            kill(pid, signal.SIGKILL)


def is_dead(pid: int) -> bool:
    """Tell whether a child of ours has ended, leaving it unreaped, so that its number stays its own."""
    if not hasattr(os, "waitid"):  # macOS
        if pid not in EARLY and (found := reap(pid)) is not None:
            EARLY[pid] = found
        return pid in EARLY
    try:
        state = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return True
    return state is not None and state.si_code in (os.CLD_EXITED, os.CLD_KILLED, os.CLD_DUMPED)


def is_child(pid: int) -> bool:
    """Tell whether a number is that of a child of ours, alive or not yet reaped (Linux)."""
    try:
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except (OSError, OverflowError):
        return False
    return True


def reap_orphans(keep: tuple[int, ...]) -> None:
    """Reap the adopted children that have ended, so that none stays a zombie while a job runs."""
    with suppress(OSError):  # no descriptor or no memory for a look: the next one finds them
        for pid in meter.children(os.getpid()):
            if pid not in keep:
                reap(pid)
