"""What a guardian that was killed leaves behind becomes the supervisor's own, and ends here (CONTRACTS K11).

    guardian killed -> its children are ours: marked, or of its sessions -> SIGKILL, reaped, and again

The supervisor has children of other kinds, too: its guardians, and whatever a lander starts. Those
are neither signalled nor waited for.
"""

import os
from collections.abc import Set

from ipc.guardian import birth, meter, sweep
from ipc.leftovers import environ_of, marker_entry

PR_SET_CHILD_SUBREAPER = 36
PR_GET_CHILD_SUBREAPER = 37
SESSION = 3
"""The field of /proc/PID/stat, counted after the name, that holds the session."""


def adopt_orphans() -> bool:
    """Have orphans below this process become its children; tell whether the system does so."""
    return birth.prctl(PR_SET_CHILD_SUBREAPER, 1)


def leave_orphans() -> None:
    """Have them go to whom they went before."""
    birth.prctl(PR_SET_CHILD_SUBREAPER, 0)


class Orphanage:
    """What a lost guardian kept. Args: `sessions` are the process ids that led sessions under it."""

    def __init__(self, marker: str, sessions: Set[int]) -> None:
        self._entry = marker_entry(marker)
        self._sessions = sessions
        self.ended = 0

    def pass_once(self, guardians: Set[int]) -> list[int]:
        """Kill and reap what is there; return who is left, but for the live guardians.

        Raises:
            OSError: there is no descriptor or no memory for a look.
        """
        left = []
        for pid in meter.children(os.getpid()):
            if pid not in guardians and self._is_ours(pid):
                gone = sweep.end(pid)
                self.ended += gone
                left += [] if gone else [pid]
        return left

    def _is_ours(self, pid: int) -> bool:
        return self._entry in environ_of(pid) or session_of(pid) in self._sessions


def session_of(pid: int) -> int:
    """Return the session that a process belongs to, also a dead one that is not reaped; 0 for none."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[SESSION])
    except (OSError, IndexError, ValueError):
        return 0
