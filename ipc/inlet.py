"""What our end of a unix socket reads where the other end may be a job's: bytes, and no descriptors.

    the kernel refuses them (Linux 6.16 and later) | they are taken, and a thread of their own closes them

The last close of a connection may take as long as its owner wished (SO_LINGER), and happens in whoever
reads past it, or closes the socket that it waits in: that is never the loop. Guardians import this file, too:
they do not pay for typing.
"""

import os
import sys
from _socket import CMSG_SPACE, SCM_RIGHTS, SOL_SOCKET, socket
from array import array
from collections.abc import Iterable, Sequence
from contextlib import suppress

from ipc.errors import ProtocolError

SO_PASSRIGHTS = 83
MSG_CMSG_CLOEXEC = 0x40000000 if sys.platform.startswith("linux") else 0
MOST = 253
"""Descriptors that can come with one message."""
SPACE = CMSG_SPACE(MOST * array("i").itemsize)


def refuse_descriptors(sock: socket) -> bool:
    """Have whoever sends descriptors to `sock` fail; False where the kernel cannot do that."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        sock.setsockopt(SOL_SOCKET, SO_PASSRIGHTS, 0)
    except OSError:
        return False
    return True


class Inlet:
    """Reads one unix socket, which does not block, and closes it in the end.

    Args:
        sock: nothing has been sent to it yet.
    """

    def __init__(self, sock: socket) -> None:
        self._sock = sock
        self._refuses = refuse_descriptors(sock)

    def recv(self, size: int) -> bytes:
        """Read once, like `socket.recv`.

        Raises:
            ProtocolError: with code "descriptors" when some came; the bytes beside them are lost.
        """
        if self._refuses:
            return self._sock.recv(size)
        data, ancillary, _, _ = self._sock.recvmsg(size, SPACE, MSG_CMSG_CLOEXEC)
        if fds := list(descriptors(ancillary)):
            close_aside(fds)
            raise ProtocolError("descriptors", f"{len(fds)} came; none may be sent")
        return data

    def close(self) -> None:
        """Close the socket, with what still waits in it."""
        if self._refuses:
            self._sock.close()
        else:
            close_aside([self._sock.detach()])


def descriptors(ancillary: Iterable[tuple[int, int, bytes]]) -> Iterable[int]:
    """Yield the descriptors that came beside the bytes of a message."""
    for level, kind, value in ancillary:
        if (level, kind) == (SOL_SOCKET, SCM_RIGHTS):
            numbers = array("i")
            numbers.frombytes(value[: len(value) - len(value) % numbers.itemsize])
            yield from numbers


def close_aside(fds: Sequence[int]) -> None:
    """Close descriptors without waiting for that; they stay open where there can be no thread."""
    from threading import Thread  # noqa: PLC0415 - no child needs it

    with suppress(RuntimeError):
        Thread(target=close_all, args=(fds,), name="laneway-close", daemon=True).start()


def close_all(fds: Iterable[int]) -> None:
    """Close descriptors, however long that takes."""
    for fd in fds:
        with suppress(OSError):  # what a connection could not deliver
            os.close(fd)
