"""A made-up D-Bus: a real socket, and behind it services that answer, refuse, hang or lie as a test wants."""

import socket
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from jeepney import HeaderFields, MessageFlag, Parser, new_error, new_method_return

if TYPE_CHECKING:
    from collections.abc import Callable

LOGIND = "org.freedesktop.login1"
MUTTER = "org.gnome.Mutter.IdleMonitor"
KDE = "org.freedesktop.ScreenSaver"

HANG = object()
UNKNOWN_OBJECT = "org.freedesktop.DBus.Error.UnknownObject"


def hang_up(_message: Any) -> NoReturn:
    raise ConnectionError


Answer = tuple[str, tuple[Any, ...]] | str | bytes | object
"""A signature with values; the name of an error; bytes that are sent as they are; or HANG."""


class Peer:
    """Answers calls by (service, method); whatever it has no answer for is a service that nobody has.

    Attributes:
        answers: what is answered, or what makes the answer of a message.
        asked: the (service, method) of each call, in order.
        started: the calls that would have started a service.
        greets: False: connections are taken, and nothing is said on them.
    """

    def __init__(self, path: Path, *, greets: bool = True) -> None:
        self.answers: dict[tuple[str, str], Answer | Callable[[Any], Answer]] = {
            ("org.freedesktop.DBus", "Hello"): ("s", (":1.7",))
        }
        self.asked: list[tuple[str, str]] = []
        self.started: list[tuple[str, str]] = []
        self.greets = greets
        self.address = f"unix:path={path}"
        path.parent.mkdir(parents=True, exist_ok=True)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        self._open: list[socket.socket] = [self._listener]
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def close(self) -> None:
        for one in self._open:
            with suppress(OSError):  # of the other side, or closed already
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        for thread in self._threads:
            thread.join(10)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._open.append(connection)
            self._threads.append(threading.Thread(target=self._serve, args=(connection,), daemon=True))
            self._threads[-1].start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            while not self.greets and connection.recv(4096):
                pass
            until(connection, b"\r\n")
            connection.sendall(b"OK 0123456789abcdef0123456789abcdef\r\n")
            parser = Parser()
            parser.add_data(until(connection, b"BEGIN\r\n"))
            while True:
                while (message := parser.get_next_message()) is None:
                    if not (data := connection.recv(4096)):
                        return
                    parser.add_data(data)
                self._reply(connection, message)
        except OSError:
            return
        finally:
            connection.close()

    def _reply(self, connection: socket.socket, message: Any) -> None:
        fields = message.header.fields
        call = fields[HeaderFields.destination], fields[HeaderFields.member]
        self.asked.append(call)
        if not message.header.flags & MessageFlag.no_auto_start:
            self.started.append(call)
        answer = self.answers.get(call, "org.freedesktop.DBus.Error.ServiceUnknown")
        if callable(answer):
            answer = answer(message)
        match answer:
            case str():
                connection.sendall(new_error(message, answer).serialise(serial=1))
            case bytes():
                connection.sendall(answer)
            case (str(signature), tuple(values)):
                connection.sendall(new_method_return(message, signature, values).serialise(serial=1))


def until(connection: socket.socket, end: bytes) -> bytes:
    """Read up to `end`, and return what came after it."""
    data = b""
    while end not in data:
        if not (more := connection.recv(4096)):
            raise ConnectionError
        data += more
    return data.partition(end)[2]


class Logind(Peer):
    """A bus with logind on it, and people that log in."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._sessions: dict[str, dict[str, tuple[str, Any]] | Answer] = {}
        self.answers[LOGIND, "ListSessions"] = self._list
        self.answers[LOGIND, "GetAll"] = self._get_all
        self.inhibited()

    def login(self, name: str, uid: int, shown_by: str, **properties: tuple[str, Any]) -> None:
        """Log somebody in; properties replace those of an ordinary person at the screen."""
        self._sessions[name] = {
            "User": ("(uo)", (uid, f"/org/freedesktop/login1/user/_{uid}")),
            "Class": ("s", "user"),
            "State": ("s", "active"),
            "Type": ("s", shown_by),
            "Seat": ("(so)", ("seat0", "/org/freedesktop/login1/seat/seat0")),
            "Display": ("s", ""),
            "TTY": ("s", ""),
            "LockedHint": ("b", False),
            "IdleHint": ("b", True),
            **properties,
        }

    def tell(self, name: str, answer: Answer) -> None:
        """List a session of which this is said."""
        self._sessions[name] = answer

    def inhibited(self, *inhibitors: tuple[str, str, str]) -> None:
        """Have these, (what, who, mode), ask for something."""
        listed = [(what, who, "a film", mode, 1000, 4242) for what, who, mode in inhibitors]
        self.answers[LOGIND, "ListInhibitors"] = ("a(ssssuu)", (listed,))

    def _list(self, _message: Any) -> Answer:
        place = "/org/freedesktop/login1/session/"
        return "a(susso)", ([(name, 1000, "ada", "seat0", place + name) for name in self._sessions],)

    def _get_all(self, message: Any) -> Answer:
        told = self._sessions[message.header.fields[HeaderFields.path].rpartition("/")[2]]
        return ("a{sv}", (told,)) if isinstance(told, dict) else told
