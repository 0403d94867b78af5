"""What a desktop says of keyboard and mouse: Mutter, KDE and the X server count seconds since the last input.

Each answers None where it cannot tell. On Wayland the counts of KDE and of the X server miss what is typed:
who asks them there would call a present owner absent.
"""

import os
import re
import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from supervisor.probes.logind import CALL_SECONDS, Bus, BusError, BusMissing, BusRefused
from supervisor.sensors import monotonic

MUTTER: Final = (
    "org.gnome.Mutter.IdleMonitor",
    "/org/gnome/Mutter/IdleMonitor/Core",
    "org.gnome.Mutter.IdleMonitor",
)
KDE: Final = ("org.freedesktop.ScreenSaver", "/ScreenSaver", "org.freedesktop.ScreenSaver")
GNOME_SESSION: Final = (
    "org.gnome.SessionManager",
    "/org/gnome/SessionManager",
    "org.gnome.SessionManager",
)
KDE_POWER: Final = (
    "org.freedesktop.PowerManagement.Inhibit",
    "/org/freedesktop/PowerManagement/Inhibit",
    "org.freedesktop.PowerManagement.Inhibit",
)
GNOME_IDLE: Final = 8
"""GNOME's flag of those who ask not to be treated as idle."""

DISPLAY: Final = re.compile(r"(?:unix)?:(\d{1,5})(?:\.\d+)?$")
SCREEN_SAVER: Final = b"MIT-SCREEN-SAVER"
COOKIE: Final = b"MIT-MAGIC-COOKIE-1"
LOCAL: Final = 256
WILD: Final = 65535


def mutter_idle(bus: Bus) -> float | None:
    """Return what GNOME's compositor counts, in seconds; on X11 and on Wayland."""
    return seconds_of(answer(bus, MUTTER, "GetIdletime"))


def kde_idle(bus: Bus) -> float | None:
    """Return what KDE counts on X11, in seconds.

    Other savers of that name may mean seconds where KDE means milliseconds: they only look less idle.
    """
    return seconds_of(answer(bus, KDE, "GetSessionIdleTime"))


def desktop_inhibitor(bus: Bus) -> str:
    """Return which desktop says that somebody asks not to be treated as idle, "" for none.

    Raises:
        BusError: one that is there does not say.
    """
    if asked(bus, GNOME_SESSION, "IsInhibited", "u", (GNOME_IDLE,)) is True:
        return "GNOME"
    return "KDE" if asked(bus, KDE_POWER, "HasInhibit") is True else ""


def asked(bus: Bus, who: tuple[str, str, str], method: str, signature: str = "", body: Any = ()) -> Any:
    """Return an answer, None where nobody has the name or nobody can tell.

    Raises:
        BusError: who has the name does not answer.
    """
    try:
        return bus.call(who, method, signature, body)
    except (BusMissing, BusRefused):
        return None


def answer(bus: Bus, who: tuple[str, str, str], method: str) -> Any:
    """Return an answer, None where none came."""
    try:
        return bus.call(who, method)
    except BusError:
        return None


def seconds_of(milliseconds: Any) -> float | None:
    """Return milliseconds that a peer told as seconds; None where it told none."""
    if type(milliseconds) is not int or milliseconds < 0:
        return None
    return milliseconds / 1000


# --- the X server

# Its own protocol over its socket, which needs no library: Xlib knows no time limit, and ends the whole
# process when the server goes away between two calls.


class XRefused(Exception):
    """The server does not let us in with this cookie."""


def x11_idle(display: str, authority: str, sockets: str, seconds: float = CALL_SECONDS) -> float | None:
    """Return what an X server of this machine counts, in seconds; None where it does not say.

    Args:
        display: its name, such as ":0".
        authority: the file with the cookies that let us in, "" for none.
        sockets: the folder of the sockets of X servers.
        seconds: how long it may take.
    """
    if (number := DISPLAY.match(display)) is None:
        return None
    for cookie in [*cookies(authority, number[1].encode()), b""]:
        try:
            with socket.socket(socket.AF_UNIX) as server:
                return Asking(server, monotonic() + seconds).idle(f"{sockets}/X{number[1]}", cookie)
        except XRefused:
            continue
        except (OSError, struct.error, IndexError):
            return None
    return None


class Asking:
    """One talk with an X server, until a moment (monotonic).

    Raises:
        XRefused: it does not let us in.
        OSError, struct.error, IndexError: it says nothing that can be understood in time.
    """

    def __init__(self, server: socket.socket, until: float) -> None:
        self._server = server
        self._until = until

    def idle(self, path: str, cookie: bytes) -> float | None:
        """Return what it counts, None where it does not count."""
        self._wait_no_longer()
        self._server.connect(path)
        name = COOKIE if cookie else b""
        hello = struct.pack("<BxHHHHxx", ord("l"), 11, 0, len(name), len(cookie))
        self._server.sendall(hello + padded(name) + padded(cookie))
        status, length = struct.unpack("<B5xH", self._read(8))
        setup = self._read(4 * length)
        if status != 1:
            raise XRefused
        vendor, formats = struct.unpack_from("<H3xB", setup, 16)
        (root,) = struct.unpack_from("<I", setup, 32 + len(padded(bytes(vendor))) + 8 * formats)
        asks = struct.pack("<BxHHxx", 98, 2 + len(SCREEN_SAVER) // 4, len(SCREEN_SAVER)) + SCREEN_SAVER
        found = self._answer(asks)
        if not found[8]:
            return None
        info = self._answer(struct.pack("<BBHI", found[9], 1, 2, root))
        return seconds_of(*struct.unpack_from("<I", info, 16))

    def _answer(self, question: bytes) -> bytes:
        """Return the reply to a question, without the events before it."""
        self._server.sendall(question)
        while (packet := self._read(32))[0] not in (0, 1):
            continue
        if packet[0] == 0 or packet[4:8] != bytes(4):
            raise ConnectionError("an error, or a reply of another question")
        return packet

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            self._wait_no_longer()
            if not (more := self._server.recv(size - len(data))):
                raise ConnectionError("it hung up")
            data += more
        return data

    def _wait_no_longer(self) -> None:
        if (left := self._until - monotonic()) <= 0:
            raise TimeoutError
        self._server.settimeout(left)


def cookies(authority: str, number: bytes) -> list[bytes]:
    """Return the cookies for a display of this machine, those of its present name first."""
    try:
        entries = list(entries_of(Path(authority).read_bytes()))
    except (OSError, struct.error):
        return []
    fitting = [one for one in entries if one[2] in (number, b"") and one[3] == COOKIE]
    host = os.fsencode(os.uname().nodename)
    fitting.sort(key=lambda one: one[1] != host)
    return [one[4] for one in fitting if one[0] in (LOCAL, WILD)]


def entries_of(data: bytes) -> Iterator[tuple[int, bytes, bytes, bytes, bytes]]:
    """Yield family, address, display number, method and secret of each entry of an authority file.

    Raises:
        struct.error: it ends in the middle of one.
    """
    place = 0
    while place < len(data):
        (family,) = struct.unpack_from(">H", data, place)
        place += 2
        texts = []
        for _ in range(4):
            (size,) = struct.unpack_from(">H", data, place)
            texts.append(data[place + 2 : place + 2 + size])
            place += 2 + size
        address, number, method, secret = texts
        yield family, address, number, method, secret


def padded(data: bytes) -> bytes:
    """Return bytes filled up to a multiple of four."""
    return data + bytes(-len(data) % 4)
