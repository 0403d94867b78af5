"""What a guardian that was killed leaves behind becomes the supervisor's own, and ends here (CONTRACTS K11).

    guardian killed -> its children are ours: marked, or of its sessions -> SIGKILL, reaped, and again
                    -> what is in its control group -> SIGKILL, by the kernel

The supervisor has children of other kinds, too: its guardians, and whatever a lander starts. Those
are neither signalled nor waited for. An environment can be emptied, a session left, and neither is to
be seen of the dead; what cannot be undone is the place in the queue of the out-of-memory killer, which
every descendant of a guardian has from its birth.
"""

import os
from collections.abc import Set

from ipc.guardian import birth, cgroup, meter, sweep
from ipc.leftovers import environ_of, marker_entry

SESSION = 3
"""The field of /proc/PID/stat, counted after the name, that holds the session."""


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
    fields = meter.read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    return int(fields[SESSION]) if len(fields) > SESSION else 0
