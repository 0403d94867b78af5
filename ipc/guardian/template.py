"""The guardian's side of a template: a child that has imported the application and makes copies of itself.

    guardian  --- one byte, with 3 descriptors ------------->  template
    guardian  <-- "up", "pid N" | "none NUMBER WHY" | "alone WHY" --  template

A copy is made by two forks, so that it becomes the guardian's own child and is watched, killed and
reaped like any other. It begins only after its number has been told, which is believed if it is a child's.
"""

from _socket import SCM_RIGHTS, SOL_SOCKET, socket
from array import array
from contextlib import suppress

from ipc.guardian import shield
from ipc.guardian.orders import LINE, Start
from ipc.inlet import refuse_descriptors

COPY = b"c"
DIGITS = 10
"""In the longest number that a process may have."""

Places = tuple[tuple[int, int, int], ...]
"""The folders above one that is closed to children, as they stood before a template was shut out of it."""


class Template:
    """A template that was started for `start`, and what it says.

    Attributes:
        up: it has imported the application, and will say without delay what becomes of a copy.
        copies: how many it has made.
        failed: why the copy that was asked for cannot be made, None while it may come.
        alone: why it makes no copies, None while it may; it then does the work itself.
        hung_up: it has closed its end, or it is dead.
    """

    def __init__(self, pid: int, start: Start, seen: Places, control: socket) -> None:
        self.pid = pid
        self.up = False
        self.copies = 0
        self.failed: str | None = None
        self.alone: str | None = None
        self.hung_up = False
        self._start = start
        self._control = control
        self._said = b""
        self._seen = seen
        control.setblocking(False)
        refuse_descriptors(control)

    def fileno(self) -> int:
        """Return the descriptor to wait on."""
        return self._control.fileno()

    def fits(self, start: Start) -> bool:
        """Tell whether a copy of it is as good as a new child.

        Behind the shield a process sees only what was there when the shield was put up: a
        template from before a new file appeared would hide it from its copies.
        """
        return self._start == start and self._seen == places(start)

    def copy(self, fds: tuple[int, int, int]) -> None:
        """Ask for a copy with these descriptors; one that is gone is noticed by its exit."""
        with suppress(OSError):
            self._control.sendmsg([COPY], [(SOL_SOCKET, SCM_RIGHTS, array("i", fds))])

    def listen(self) -> int | None:
        """Read what it says; return the process id of a new copy, or None."""
        try:
            data = self._control.recv(LINE)
        except BlockingIOError:
            return None
        except OSError:
            data = b""
        self.hung_up = not data
        self._said = (self._said + data)[-LINE:]
        *lines, self._said = self._said.split(b"\n")
        pid = None
        for one in lines:
            word, _, value = one.partition(b" ")
            if word == b"pid" and value.isdigit() and len(value) <= DIGITS:
                pid, self.copies = int(value), self.copies + 1
            elif word == b"up":
                self.up = True
            elif word == b"alone":
                self.alone = value.decode("utf-8", "backslashreplace")
            elif word == b"none":
                self.failed = value.decode("utf-8", "backslashreplace")
        return pid

    def close(self) -> None:
        """Let it go: it leaves when it reads the end."""
        self._control.close()


def places(start: Start) -> Places:
    """Return how the folders above the closed one stand, where one is closed."""
    closed = start[5]
    return shield.places(closed) if closed else ()
