"""Kernel locks on files, which end with the process that took them (CONTRACTS K7, K9).

A flock belongs to the open file. A copy of the process that application code makes by a fork
without exec has the same open files, and would keep their locks when the process is dead: so the
copy closes them before anything else runs in it.
"""

import fcntl
import os
import threading
from contextlib import suppress
from pathlib import Path
from typing import Final

from landing.connect import open_private

CLOSED: Final = -1
FORKING: Final = threading.RLock()
"""Held across a fork, and while a file is opened: none is open in a copy that does not know of it."""


class Flock:
    """A lock file, open and not yet locked; made 0600 where it is missing, and never unlinked.

    Raises:
        OSError: it cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        with FORKING:
            self._fd = open_private(path)
            OPEN.add(self)

    def fileno(self) -> int:
        """Return the descriptor, -1 when it is closed and in a copy of the process."""
        return self._fd

    def take(self) -> bool:
        """Try once to lock it for oneself; tell whether it is."""
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def release(self) -> None:
        """Unlock it, whoever else has the same open file."""
        fcntl.flock(self._fd, fcntl.LOCK_UN)

    def close(self) -> None:
        """Unlock and close it; once is enough."""
        if self._fd != CLOSED:
            OPEN.discard(self)
            with suppress(OSError):  # somebody in this process has closed it already
                self.release()
                self.leave()

    def leave(self) -> None:
        """Close it without unlocking what another process may hold through it."""
        os.close(self._fd)
        self._fd = CLOSED


OPEN: Final[set[Flock]] = set()


def leave_all() -> None:
    """Close what a copy of the process was born with; the locks stay with the process itself."""
    for one in OPEN:
        one.leave()
    OPEN.clear()
    FORKING.release()


os.register_at_fork(before=FORKING.acquire, after_in_parent=FORKING.release, after_in_child=leave_all)
