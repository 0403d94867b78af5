"""The guardian's end of the socket to its supervisor: orders with descriptors come in, lines go out.

It never waits: a supervisor that does not read, because it was stopped, keeps no guardian from its work.
"""

import os
from _socket import CMSG_SPACE, SCM_RIGHTS, SOL_SOCKET, socket
from array import array

from ipc.guardian.orders import DESCRIPTORS, Order, line, unpack

PIECE = 1 << 16
SPACE = CMSG_SPACE(DESCRIPTORS * array("i").itemsize)


class Lifeline:
    """The way to one supervisor.

    A copy of that, which application code has made by a fork, has the other end open, too: so the
    socket's end is not the only sign that it is dead.

    Args:
        connection: the socket.
        parent: the supervisor's process id.

    Attributes:
        unsaid: what the other end has not taken yet.
    """

    def __init__(self, connection: socket, parent: int) -> None:
        connection.setblocking(False)
        self._connection = connection
        self._parent = parent
        self._heard = bytearray()
        self._fds: list[int] = []
        self.unsaid = bytearray()

    def fileno(self) -> int:
        """Return the descriptor to wait on."""
        return self._connection.fileno()

    def hear(self) -> list[Order] | None:
        """Return the orders that have come; None at the end, when nobody is there any more."""
        if os.getppid() != self._parent:
            return None
        try:
            data, ancillary, _, _ = self._connection.recvmsg(PIECE, SPACE)
        except BlockingIOError:
            return []
        except OSError:  # a peer that died with bytes unread makes a reset of the end
            return None
        for level, kind, value in ancillary:
            if (level, kind) == (SOL_SOCKET, SCM_RIGHTS):
                numbers = array("i")
                numbers.frombytes(value[: len(value) - len(value) % numbers.itemsize])
                for fd in numbers:
                    os.set_inheritable(fd, False)  # they come open for every program that is started
                self._fds += numbers
        if not data:
            return None
        self._heard += data
        return list(unpack(self._heard))

    def take(self) -> list[int]:
        """Hand over the descriptors that have come; some are missing where this process may have no more."""
        taken, self._fds = self._fds, []
        return taken

    def tell(self, word: str, *values: object) -> None:
        """Say a line to the supervisor, or keep it until there is room."""
        self.unsaid += line(word, *values)
        self.flush()

    def flush(self) -> None:
        """Say what there is room for."""
        try:
            del self.unsaid[: self._connection.send(self.unsaid)]
        except BlockingIOError:
            pass
        except OSError:  # the supervisor is gone: the next look says so, too
            self.unsaid.clear()
