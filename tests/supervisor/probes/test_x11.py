"""What an X server counts, asked of a made-up one over a real socket that hangs, lies and complains."""

import os
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from supervisor.probes.desktop import x11_idle
from tests.supervisor.probes.conftest import Room

QUERY_EXTENSION = 98
SAVER = 130
COOKIE = b"0123456789abcdef"
METHOD = b"MIT-MAGIC-COOKIE-1"
HANG = object()
EVENT = bytes([22]) + bytes(31)


def setup() -> bytes:
    """What a server says first: one screen of one depth with one visual."""
    visual = struct.pack("<IBBHIIIxxxx", 0x21, 4, 8, 256, 0xFF0000, 0xFF00, 0xFF)
    depth = struct.pack("<BxHxxxx", 24, 1) + visual
    screen = struct.pack("<IIIII", 0x50, 0x20, 0xFFFFFF, 0, 0)
    screen += struct.pack("<HHHHHHIBBBB", 640, 480, 160, 120, 1, 1, 0x21, 0, 0, 24, 1) + depth
    pixels = struct.pack("<BBBxxxxx", 24, 32, 32)
    rest = struct.pack("<IIIIHHBBBBBBBBxxxx", 1, 0x200000, 0x1FFFFF, 0, 7, 0xFFFF, 1, 1, 0, 0, 32, 32, 8, 255)
    rest += b"made up\0" + pixels + screen
    return struct.pack("<BxHHH", 1, 11, 0, len(rest) // 4) + rest


def refusal() -> bytes:
    reason = b"no cookie here. "
    return struct.pack("<BBHHH", 0, len(reason), 11, 0, len(reason) // 4) + reason


class XServer:
    """Display 7 of a folder.

    Attributes:
        idle: what it answers to the question for idle time; None: it hangs up.
        greeting: what it says first.
        cookie: whom it lets in, None for everybody.
        has_saver: whether it counts.
    """

    def __init__(self, folder: Path, idle: Callable[[int], Any]) -> None:
        self.idle = idle
        self.greeting: Any = setup()
        self.cookie: bytes | None = None
        self.has_saver = True
        folder.mkdir(exist_ok=True)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(folder / "X7"))
        self._listener.listen()
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(10)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection, connection.makefile("rb") as requests:
                self._serve(connection, requests)

    def _serve(self, connection: socket.socket, requests: Any) -> None:
        name, data = struct.unpack("<HH", requests.read(12)[6:10])
        requests.read(name + -name % 4)
        told = requests.read(data + -data % 4)
        if self.greeting is not HANG:
            connection.sendall(refusal() if self.cookie not in (None, told) else self.greeting)
        sequence = 0
        while len(head := requests.read(4)) == 4:
            sequence += 1
            code, minor, length = struct.unpack("<BBH", head)
            answer = self._answer(code, minor, requests.read(4 * length - 4), sequence)
            if answer is None:
                return
            if answer is not HANG:
                connection.sendall(answer)

    def _answer(self, code: int, minor: int, body: bytes, sequence: int) -> Any:
        if code == QUERY_EXTENSION:
            assert body == struct.pack("<Hxx", 16) + b"MIT-SCREEN-SAVER"
            present = self.has_saver
            return struct.pack("<BxHIBBBB20x", 1, sequence, 0, present, SAVER if present else 0, 0, 0)
        assert (code, minor, body) == (SAVER, 1, struct.pack("<I", 0x50))
        return self.idle(sequence)


def counts(milliseconds: int) -> Callable[[int], bytes]:
    return lambda sequence: struct.pack("<BBHIIIIIB7x", 1, 0, sequence, 0, 0x51, 60_000, milliseconds, 0, 1)


def complains(sequence: int) -> bytes:
    """A window that is none of its own."""
    return struct.pack("<BBHIHB21x", 0, 9, sequence, 0x50, 1, SAVER)


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("x")


@pytest.fixture
def server(folder: Path) -> Iterator[XServer]:
    server = XServer(folder, counts(412_500))
    yield server
    server.close()


def entry(family: int, host: bytes, number: bytes, method: bytes, secret: bytes) -> bytes:
    texts = (host, number, method, secret)
    return struct.pack(">H", family) + b"".join(struct.pack(">H", len(one)) + one for one in texts)


@pytest.mark.parametrize("display", [":7", ":7.0", "unix:7"])
def test_the_x_server_counts_milliseconds(server: XServer, folder: Path, display: str) -> None:
    """C60."""
    assert x11_idle(display, "", str(folder)) == 412.5


def test_events_before_the_answer_are_passed_over(server: XServer, folder: Path) -> None:
    server.idle = lambda sequence: EVENT * 3 + counts(9000)(sequence)
    assert x11_idle(":7", "", str(folder)) == 9.0


def test_the_cookie_of_the_display_lets_us_in(server: XServer, folder: Path) -> None:
    """Of all in the file, those of this machine's name first."""
    server.cookie = COOKIE
    host = os.fsencode(os.uname().nodename)
    file = folder / "authority"
    file.write_bytes(
        entry(256, host, b"8", METHOD, b"of another server")
        + entry(256, b"an older name", b"7", METHOD, b"of an older name")
        + entry(256, host, b"7", b"XDM-AUTHORIZATION-1", b"of another method")
        + entry(0, b"\x7f\0\0\1", b"7", METHOD, b"of the network")
        + entry(65535, b"", b"", METHOD, COOKIE)
    )
    assert x11_idle(":7", str(file), str(folder)) == 412.5
    file.write_bytes(entry(256, host, b"8", METHOD, COOKIE))
    assert x11_idle(":7", str(file), str(folder)) is None


@pytest.mark.parametrize("damage", [b"\1", b"\1\0\0\7abc", b"\1\0" + b"\0\0" * 3])
def test_a_damaged_file_of_cookies_holds_none(server: XServer, folder: Path, damage: bytes) -> None:
    """C62."""
    file = folder / "authority"
    file.write_bytes(damage)
    assert x11_idle(":7", str(file), str(folder)) == 412.5


@pytest.mark.parametrize("display", ["", ":8", "localhost:7", ":seven", ":7; :8"])
def test_a_display_that_is_none_of_this_machine_tells_nothing(
    server: XServer, folder: Path, display: str
) -> None:
    """C61, U28."""
    assert x11_idle(display, "", str(folder)) is None


def test_a_server_that_does_not_count_tells_nothing(server: XServer, folder: Path) -> None:
    """C61, U28."""
    server.has_saver = False
    assert x11_idle(":7", "", str(folder)) is None


@pytest.mark.parametrize(
    "answer",
    [
        complains,
        lambda _sequence: None,
        lambda _sequence: HANG,
        lambda _sequence: EVENT,
        lambda _sequence: b"\1",
        lambda _sequence: b"\1" + b"\xff" * 31,
    ],
    ids=["complains", "hangs up", "hangs", "says other things", "stops in the middle", "lies"],
)
def test_a_server_that_gives_no_answer_tells_nothing(
    server: XServer, folder: Path, answer: Callable[[int], Any]
) -> None:
    """C61, C62, U28: and ends nobody's process."""
    server.idle = answer
    assert x11_idle(":7", "", str(folder), 0.5) is None


@pytest.mark.parametrize(
    "greeting",
    [
        HANG,
        b"\1",
        b"\1" + bytes(7),
        b"\2" + bytes(7),
        b"\1" + bytes(5) + b"\x09\0" + b"\xff" * 36,
        b"HTTP/1.1 400",
    ],
    ids=["hangs", "stops", "no screen", "wants more", "a screen out of reach", "no X server"],
)
def test_a_server_that_greets_as_none_does_tells_nothing(
    server: XServer, folder: Path, greeting: Any
) -> None:
    """C61, C62, U28."""
    server.greeting = greeting
    assert x11_idle(":7", "", str(folder), 0.5) is None


def test_an_x_server_started_on_a_console_answers_for_it(room: Room) -> None:
    """C60."""
    server = XServer(room.folder / "X11", counts(700_000))
    room.logind.login("3", room.uid, "tty")
    found = room.look()
    server.close()
    assert (found.idle_s, found.source) == (700.0, "X server :7, session 3")


def test_an_x_server_is_not_asked_under_wayland_where_it_misses_what_is_typed(room: Room) -> None:
    """C61, U28."""
    server = XServer(room.folder / "X11", counts(700_000))
    room.desk = replace(room.desk, display=":7", has_screen=True)
    room.logind.login("3", room.uid, "wayland", Display=("s", ":7"))
    found = room.look()
    server.close()
    assert found.idle_s is None
