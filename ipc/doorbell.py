"""The doorbell: a datagram that says "look again", after COMMIT, never before.

It is a hint. Nobody there, a stale socket or a full queue are all harmless, because the
loop also looks once a second. The folder is reached through a descriptor, so its
path may be longer than a socket address can be.
"""

import os
import socket
from pathlib import Path
from typing import Final

from ipc.errors import ProtocolError
from ipc.inlet import Inlet

DOORBELL: Final = "doorbell.sock"


def address(folder: int, home: Path) -> str:
    """Return a socket address short enough for any home; `folder` is its open descriptor."""
    through = f"/proc/self/fd/{folder}/{DOORBELL}"
    return through if os.path.isdir(f"/proc/self/fd/{folder}") else str(home / DOORBELL)


class Doorbell:
    """The listening end; only the lock holder may make one, because it replaces a stale socket.

    Attributes:
        deaf: why nobody can ring, or None; the look once a second still finds what is new.
    """

    def __init__(self, home: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        self._inlet = Inlet(self._socket)
        self.deaf: str | None = None
        try:
            self._listen(home)
        except OSError as error:
            self.deaf = f"no doorbell at {home / DOORBELL}: {error.strerror}"

    def _listen(self, home: Path) -> None:
        (home / DOORBELL).unlink(missing_ok=True)
        folder = os.open(home, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            self._socket.bind(address(folder, home))
            os.chmod(home / DOORBELL, 0o600)
        finally:
            os.close(folder)

    def fileno(self) -> int:
        """Return the descriptor to wait on."""
        return self._socket.fileno()

    def drain(self) -> bool:
        """Take all rings; tell whether there was one."""
        rang = False
        while True:
            try:
                self._inlet.recv(64)
            except BlockingIOError:
                return rang
            except ProtocolError:  # whoever rings may be anybody
                pass
            rang = True

    def close(self) -> None:
        """Stop listening; the socket file stays, as a stale bell is harmless."""
        self._inlet.close()


def ring(home: Path) -> None:
    """Ring the bell of the supervisor of `home`, if one listens."""
    try:
        folder = os.open(home, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as bell:
            bell.setblocking(False)
            bell.sendto(b"1", address(folder, home))
    except OSError:
        pass
    finally:
        os.close(folder)
