"""What a guardian that was killed leaves behind becomes the supervisor's own, and ends here (CONTRACTS K11).

    guardian killed -> its children are ours: marked, or of its sessions -> SIGKILL, reaped, and again
                    -> what is in its control group -> SIGKILL, by the kernel

The supervisor has children of other kinds, too: its guardians, and whatever a lander starts. Those
are neither signalled nor waited for. An environment can be emptied, a session left, and neither is to
be seen of the dead; what cannot be undone is the place in the queue of the out-of-memory killer, which
every descendant of a guardian has from its birth.

SIGKILL waits where a guardian is frozen, or hangs in the kernel, and what it keeps would run on: that is
ended without it, found by its ancestors and killed through a handle that can mean no other.
"""

import os
import signal
from collections.abc import Set

from ipc.guardian import birth, cgroup, meter, sweep
from ipc.leftovers import environ_of, is_alive, marker_entry

PARENT, SESSION = 1, 3
"""The fields of /proc/PID/stat, counted after the name."""
LOOKS = 20
"""Looks in which there may be somebody new below a guardian, who was forked meanwhile."""


class Orphanage:
    """What a lost guardian kept.

    Args:
        marker: what the environment of all children carries.
        sessions: the process ids that led sessions under it.
        group: the control group of its children, "" for none.

    Attributes:
        ended: how many were alive until SIGKILL ended them.
    """

    def __init__(self, marker: str, sessions: Set[int], group: str = "") -> None:
        self._entry = marker_entry(marker)
        self._sessions = sessions
        self._group = group
        own = oom_score_of(os.getpid())
        self._score = birth.OOM_SCORE if own != birth.OOM_SCORE else None
        self.ended = 0

    def pass_once(self, guardians: Set[int]) -> list[int]:
        """Kill and reap what is there; return who is left, but for the live guardians.

        Whoever was reaped may have left children here since we looked: then we look again.

        Raises:
            OSError: there is no descriptor or no memory for a look.
        """
        if self._group:
            cgroup.kill(self._group)
        while found := [one for one in meter.children(os.getpid()) if self._is_ours(one, guardians)]:
            ends = {pid: sweep.end(pid) for pid in found}
            self.ended += sum(map(sweep.was_killed, ends.values()))
            if left := [pid for pid, ended in ends.items() if ended is None]:
                return left
        if self._group:
            cgroup.remove(self._group)
        return []

    def _is_ours(self, pid: int, guardians: Set[int]) -> bool:
        if pid in guardians:
            return False
        marked = self._entry in environ_of(pid) or session_of(pid) in self._sessions
        return marked or oom_score_of(pid) == self._score


def oom_score_of(pid: int) -> bytes:
    """Return what is added to the badness of a process, also of a dead one that is not reaped."""
    return meter.read(f"/proc/{pid}/oom_score_adj").strip()


def session_of(pid: int) -> int:
    """Return the session that a process belongs to, also a dead one that is not reaped; 0 for none."""
    return field_of(pid, SESSION)


# --- below a guardian that does not end


def end_below(guardian: int, group: str) -> set[int]:
    """SIGKILL every process below a guardian, and in the control group `group` ("" for none).

    Returns:
        The process ids of those that were alive: they may take a while to end.

    Raises:
        OSError: there is no descriptor or no memory for a look.
    """
    killed = set(alive_below(guardian))
    if group:
        cgroup.kill(group)
    new = killed
    for _ in range(LOOKS):
        for pid in new:
            kill_if_below(pid, guardian)
        if not (new := set(alive_below(guardian)) - killed):
            break
        killed |= new
    return killed


def alive_below(guardian: int) -> list[int]:
    """Return the processes below a guardian that have not ended; a zombie waits there for it.

    Raises:
        OSError: as `end_below`.
    """
    return [pid for pid in meter.descendants(guardian) if is_alive(pid)]


def kill_if_below(pid: int, guardian: int) -> None:
    """SIGKILL a process through a handle, opened before the look that counts: it can mean no other."""
    try:
        handle = os.pidfd_open(pid)
    except OSError:
        return
    try:
        if is_below(pid, guardian):
            signal.pidfd_send_signal(handle, signal.SIGKILL)
    except OSError:  # it has gone, or it has another user's rights: then it will be said to survive
        pass
    finally:
        os.close(handle)


def is_below(pid: int, guardian: int) -> bool:
    """Tell whether a process descends from a guardian, as the parents stand now."""
    seen = {pid}
    while (pid := parent_of(pid)) not in seen:
        if pid == guardian:
            return True
        seen.add(pid)
    return False


def parent_of(pid: int) -> int:
    """Return the parent of a process, 0 where there is none to be seen."""
    return field_of(pid, PARENT)


def field_of(pid: int, field: int) -> int:
    """Return a number of /proc/PID/stat, 0 of a process that is gone."""
    fields = meter.read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    return int(fields[field]) if len(fields) > field else 0
