"""A D-Bus, and what logind says on it: who is logged in where, and who asks not to be treated as idle.

A bus may be missing, hang or lie: every wait has an end, every answer a limit, and what
cannot be understood is an error, never an answer. Nothing is started by being asked.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from types import TracebackType
from typing import Any, Final, Self

from jeepney import (  # type: ignore[import-untyped]
    DBusAddress,
    HeaderFields,
    MessageFlag,
    MessageType,
    Parser,
    new_method_call,
)
from jeepney.bus import get_connectable_addresses  # type: ignore[import-untyped]
from jeepney.io.blocking import prep_socket  # type: ignore[import-untyped]

from landing.text import error_text
from supervisor.sensors import monotonic

SYSTEM_BUS: Final = "unix:path=/run/dbus/system_bus_socket"
CALL_SECONDS: Final = 1.0
ANSWER_BYTES: Final = 1 << 20
DAEMON: Final = ("org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus")
LOGIND: Final = "org.freedesktop.login1"
MANAGER: Final = (LOGIND, "/org/freedesktop/login1", f"{LOGIND}.Manager")
NOT_THERE: Final = ("ServiceUnknown", "NameHasNoOwner", "Spawn.ServiceNotFound")
PERSONS: Final = ("user", "user-early", "user-light", "user-early-light", "user-incomplete")
"""The classes of sessions that are people's. Greeters, lock screens and background work have others."""
GRAPHICAL: Final = ("x11", "wayland", "mir")


class BusError(Exception):
    """A bus, or who was asked on it, gave no answer that can be used."""


class BusMissing(BusError):
    """There is no such bus, or nobody on it has the name that was asked."""


class BusRefused(BusError):
    """Who was asked says that it cannot answer."""


class Bus:
    """One connection to a bus.

    Args:
        address: as the environment names it, such as unix:path=/run/dbus/system_bus_socket.
        seconds: how long any one answer may take.

    Raises:
        BusMissing: there is none.
        BusError: it does not answer, or not as a bus does.
    """

    def __init__(self, address: str, seconds: float = CALL_SECONDS) -> None:
        self._seconds = seconds
        self._serials = count(1)
        self._parser = Parser()
        try:
            place = next(get_connectable_addresses(address))
            self._socket = prep_socket(place, timeout=seconds)
        except (FileNotFoundError, ConnectionRefusedError) as error:
            raise BusMissing(f"there is no bus at {address}") from error
        except (OSError, ValueError, RuntimeError) as error:
            raise BusError(f"the bus at {address}: {error_text(error)}") from error
        try:
            self.call(DAEMON, "Hello")
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Leave the bus."""
        self._socket.close()

    def call(
        self, who: tuple[str, str, str], method: str, signature: str = "", body: tuple[Any, ...] = ()
    ) -> Any:
        """Call a method and return its answer: its one value, or a tuple of them.

        Args:
            who: bus name, object, interface.
            method: its name.
            signature: the D-Bus types of its arguments.
            body: its arguments.

        Raises:
            BusMissing: nobody has that name.
            BusRefused: an error came back.
            BusError: nothing that can be understood came in time.
        """
        name, place, interface = who
        try:
            message = new_method_call(DBusAddress(place, name, interface), method, signature or None, body)
            message.header.flags |= MessageFlag.no_auto_start
            reply = self._reply(message)
        except TimeoutError as error:
            raise BusError(f"{name} did not answer in {self._seconds:g} s") from error
        except Exception as error:  # whatever a parser of foreign bytes may raise
            raise BusError(f"{name}: {error_text(error)}") from error
        values = reply.body
        if reply.header.message_type is MessageType.error:
            raise refusal(name, str(reply.header.fields.get(HeaderFields.error_name, "an error")))
        return values[0] if len(values) == 1 else values

    def _reply(self, message: Any) -> Any:
        serial = next(self._serials)
        until = monotonic() + self._seconds
        self._socket.settimeout(self._seconds)
        self._socket.sendall(message.serialise(serial=serial))
        heard = 0
        while True:
            while (found := self._parser.get_next_message()) is None:
                if (left := until - monotonic()) <= 0:
                    raise TimeoutError
                self._socket.settimeout(left)
                data = self._socket.recv(4096)
                heard += len(data)
                if not data or heard > ANSWER_BYTES:
                    raise ConnectionError("the answer is too long" if data else "the bus hung up")
                self._parser.add_data(data)
            if found.header.fields.get(HeaderFields.reply_serial) == serial:
                return found
            if monotonic() > until:  # it talks, but not to us
                raise TimeoutError


def refusal(name: str, error: str) -> BusError:
    """Return what an error that came back means."""
    kind = BusMissing if error.endswith(NOT_THERE) else BusRefused
    return kind(f"{name} answers {error.rpartition('.')[2]}")


@dataclass(frozen=True, slots=True)
class Session:
    """Somebody who is logged in.

    Attributes:
        id: logind's name for it.
        uid: whose it is.
        graphical: what it is shown by ("x11", "wayland"), "" for a terminal.
        display: the X display, "" for none.
        terminal: the device under /dev, "" for none.
        seated: keyboard and screen of this machine are its own.
        locked: its screen says that it is locked.
    """

    id: str
    uid: int
    graphical: str
    display: str
    terminal: str
    seated: bool
    locked: bool


def sessions(bus: Bus) -> Iterator[Session]:
    """Yield the sessions of people that are not about to end.

    Raises:
        BusError: logind does not say; `BusMissing` where there is none.
    """
    for listed in entries(bus.call(MANAGER, "ListSessions"), "sessions"):
        try:
            name, place = str(listed[0]), str(listed[4])
            who = (LOGIND, place, "org.freedesktop.DBus.Properties")
            told = values(bus.call(who, "GetAll", "s", (f"{LOGIND}.Session",)))
            if text(told, "Class") in PERSONS and text(told, "State") != "closing":
                yield session(name, told)
        except BusRefused:  # it has ended meanwhile
            continue
        except (LookupError, TypeError, ValueError) as error:
            raise BusError(f"logind is not understood: {error_text(error)}") from error


def session(name: str, told: Mapping[str, Any]) -> Session:
    """Return a session by its properties. Raises: LookupError, TypeError, ValueError: they are not such."""
    return Session(
        id=name,
        uid=int(told["User"][0]),
        graphical=shown_by if (shown_by := text(told, "Type")) in GRAPHICAL else "",
        display=str(told.get("Display", "")),
        terminal=str(told.get("TTY", "")),
        seated=bool(told.get("Seat", ("",))[0]),
        locked=told.get("LockedHint") is True,
    )


def idle_inhibitor(bus: Bus) -> str:
    """Return who asks logind that this machine is not treated as idle, "" for nobody.

    Raises:
        BusError: logind does not say.
    """
    for listed in entries(bus.call(MANAGER, "ListInhibitors"), "inhibitors"):
        with suppress(LookupError, TypeError, AttributeError):
            what, who, _why, mode = listed[:4]
            if "idle" in what.split(":") and mode == "block":
                return str(who)
    return ""


def entries(answer: Any, what: str) -> Iterable[Any]:
    """Return a list as it was told. Raises: BusError: it is none."""
    if not isinstance(answer, list):
        raise BusError(f"logind is not understood: its {what} are no list")
    return answer


def text(told: Mapping[str, Any], name: str) -> str:
    """Return a property that is a text. Raises: KeyError, TypeError: it is not there, or none."""
    if not isinstance(found := told[name], str):
        raise TypeError(f"{name} is no text")
    return found


def values(answer: Any) -> dict[str, Any]:
    """Return properties without their types. Raises: TypeError, ValueError: they are none."""
    if not isinstance(answer, dict):
        raise TypeError("properties are no dictionary")
    return {str(name): value for name, (_type, value) in answer.items()}
