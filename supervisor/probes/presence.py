"""Whether the owner is there: since when nobody has touched keyboard, mouse or terminal (OS facts 6).

    terminals -> logind's sessions -> what shows each of them -> who asks not to be treated as idle
        |               |                      |                           |
        `---------------+---- below the threshold, or inhibited: that is the answer, nobody else is asked

Whoever is logged in at a screen must be answered for; one who is not makes the whole unknown. Nobody
logged in and no terminal is an answer as well: an infinite time.

Where there is no logind, the consoles are looked at as the terminals are, and the answer says so.
"""

from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from typing import Final, Self

from policies.readings import PresenceReading
from supervisor.probes.desktop import desktop_inhibitor, kde_idle, mutter_idle, x11_idle
from supervisor.probes.logind import (
    GRAPHICAL,
    SYSTEM_BUS,
    Bus,
    BusError,
    BusMissing,
    Session,
    idle_inhibitor,
    sessions,
)
from supervisor.probes.terminals import DEVICES, console_idle, device_idle, terminal_idle

Terminals = Callable[[], tuple[float, str] | None]

NOBODY: Final = "nobody is logged in"
NOBODY_SEEN: Final = "nobody is at a terminal"
UNASKED: Final = "; logind was not asked, there is none"
RUNTIME: Final = "/run/user"
X_SOCKETS: Final = "/tmp/.X11-unix"  # noqa: S108 - where every X server has it


@dataclass(frozen=True, slots=True)
class Desk:
    """What this process knows of screens by its environment, and where the rest is to be found.

    Attributes:
        uid: whose the process is.
        display: the X display, "" for none on this machine.
        has_screen: it was started on a screen of this machine.
        shown_by: what that is ("x11", "wayland"), "" where the environment does not say.
        authority: the file with the cookies of X servers, "" for none.
        session_bus: the address of the owner's bus, "" for none.
        system_bus: the address of logind's bus.
        runtime: the folder of the users' own sockets.
        x_sockets: the folder of the sockets of X servers.
        devices: the folder of the terminals.
    """

    uid: int
    display: str = ""
    has_screen: bool = False
    shown_by: str = ""
    authority: str = ""
    session_bus: str = ""
    system_bus: str = SYSTEM_BUS
    runtime: str = RUNTIME
    x_sockets: str = X_SOCKETS
    devices: str = DEVICES

    @classmethod
    def of(cls, environment: Mapping[str, str], uid: int) -> Self:
        """Read what the environment says."""
        display = environment.get("DISPLAY", "")
        here = display if display.startswith((":", "unix:")) else ""  # ssh -X: the screen is elsewhere
        shown_by = environment.get("XDG_SESSION_TYPE", "")
        return cls(
            uid=uid,
            display=here,
            has_screen=bool(here or environment.get("WAYLAND_DISPLAY")),
            shown_by=shown_by if shown_by in GRAPHICAL else "",
            authority=environment.get("XAUTHORITY", "") or f"{environment.get('HOME', '')}/.Xauthority",
            session_bus=environment.get("DBUS_SESSION_BUS_ADDRESS", ""),
            system_bus=environment.get("DBUS_SYSTEM_BUS_ADDRESS", "") or SYSTEM_BUS,
        )

    @property
    def own(self) -> Session:
        """Return the session of this process as its environment tells it."""
        shown_by = (self.shown_by or "of unknown kind") if self.has_screen else ""
        return Session("of this process", self.uid, shown_by, self.display, "", seated=True, locked=False)

    def seen(self, session: Session) -> Session:
        """Return a session with what shows it, by the sockets there are, where nobody has told.

        A compositor or X server that was started by hand leaves its session a terminal's, and the
        terminal idle while it is in use.
        """
        if session.graphical or not session.seated:
            return session
        if any(Path(self.runtime, str(session.uid)).glob("wayland-*")):
            return replace(session, graphical="wayland")
        for socket in sorted(Path(self.x_sockets).glob("X*")):
            return replace(session, graphical="x11", display=self.display or f":{socket.name[1:]}")
        return session


class PresenceProbe:
    """Looks for the owner; call it from one thread at a time.

    Args:
        desk: where to look.
        threshold_s: whoever was active within so many seconds is there, and nobody else is asked.
        terminals: since when nobody has typed at any terminal, and which was the last.
    """

    def __init__(self, desk: Desk, threshold_s: float, terminals: Terminals | None = None) -> None:
        self._desk = desk
        self._threshold = threshold_s
        self._terminals = terminals or (lambda: terminal_idle(desk.devices))
        self._had_logind = False
        self._unasked = ""

    def __call__(self) -> PresenceReading:
        """Return what is found: the first who is there, else the one who left last."""
        found: list[PresenceReading] = []
        self._unasked = ""
        with closing(self._answers()) as answers:
            for one in answers:
                if one.inhibited:
                    return replace(one, idle_s=last_of(found).idle_s)
                if one.idle_s is not None and one.idle_s < self._threshold:
                    return self._sourced(one)
                found.append(one)
        return self._sourced(last_of(found))

    def _sourced(self, one: PresenceReading) -> PresenceReading:
        """Add to an answer whom there was not to ask; a doubt says already what it comes from."""
        return one if one.idle_s is None else replace(one, source=one.source + self._unasked)

    def _answers(self) -> Generator[PresenceReading, None, None]:
        yield from self._typing(self._terminals)
        with ExitStack() as stack:
            try:
                bus = stack.enter_context(Bus(self._desk.system_bus))
                logged_in = list(sessions(bus))
                self._had_logind = True
            except BusError as error:
                yield from self._without_logind(error)
                return
            yield from self._seen(logged_in)
            if logged_in:
                yield from self._inhibited(bus, logged_in)

    def _typing(self, terminals: Terminals) -> Iterator[PresenceReading]:
        try:
            if (last := terminals()) is not None:
                yield PresenceReading(last[0], f"terminal {last[1]}")
        except OSError as error:
            yield PresenceReading(None, f"the terminals cannot be listed: {error.strerror}")

    def _without_logind(self, error: BusError) -> Iterator[PresenceReading]:
        """Go by consoles and environment; a logind that is there, or was, but is silent leaves a doubt."""
        doubt = self._had_logind or not isinstance(error, BusMissing)
        self._unasked = "" if doubt else UNASKED
        yield from self._typing(lambda: console_idle(self._desk.devices))
        if (own := self._desk.seen(self._desk.own)).graphical:
            yield self._screen(own)
        if doubt:
            yield PresenceReading(None, str(error))
        yield PresenceReading(inf, NOBODY_SEEN)

    def _seen(self, logged_in: list[Session]) -> Iterator[PresenceReading]:
        shown = [self._desk.seen(one) for one in logged_in]
        for one in shown:
            if one.graphical:
                yield self._screen(one)
            idle = device_idle(f"{self._desk.devices}/{one.terminal}") if one.terminal else None
            if idle is not None and not one.graphical:
                yield PresenceReading(idle, f"terminal /dev/{one.terminal}")
        own = self._desk.own
        if own.graphical and not any(one.graphical and one.uid == own.uid for one in shown):
            yield self._screen(own)

    def _screen(self, one: Session) -> PresenceReading:
        """Return what counts the input of one session: the first that can tell."""
        display = one.display or (self._desk.display if one.uid == self._desk.uid else "")
        try:
            with Bus(self._session_bus(one.uid)) as bus:
                if (idle := mutter_idle(bus)) is not None:
                    return PresenceReading(idle, f"Mutter, session {one.id}")
                if one.graphical == "x11" and (idle := kde_idle(bus)) is not None:
                    return PresenceReading(idle, f"KDE, session {one.id}")
        except BusError:  # the X server can still tell
            pass
        idle = None
        if one.graphical == "x11":
            idle = x11_idle(display, self._desk.authority, self._desk.x_sockets)
        if idle is not None:
            return PresenceReading(idle, f"X server {display}, session {one.id}")
        if one.locked:
            return PresenceReading(inf, f"session {one.id} is locked")
        return PresenceReading(None, f"nothing counts the input of session {one.id} ({one.graphical})")

    def _inhibited(self, bus: Bus, logged_in: list[Session]) -> Iterator[PresenceReading]:
        try:
            if who := idle_inhibitor(bus):
                yield PresenceReading(None, f"{who} asks not to be treated as idle", inhibited=True)
        except BusError as error:
            yield PresenceReading(None, str(error))
        for uid in sorted({one.uid for one in logged_in if one.graphical}):
            try:
                with Bus(self._session_bus(uid)) as own:
                    if who := desktop_inhibitor(own):
                        yield PresenceReading(None, f"{who} is asked not to be idle", inhibited=True)
            except BusError as error:  # the buses of others need not let us in
                if uid == self._desk.uid and not isinstance(error, BusMissing):
                    yield PresenceReading(None, str(error))

    def _session_bus(self, uid: int) -> str:
        own = self._desk.session_bus if uid == self._desk.uid else ""
        return own or f"unix:path={self._desk.runtime}/{uid}/bus"


def last_of(found: list[PresenceReading]) -> PresenceReading:
    """Return who of those that are not there left last; a doubt about one is a doubt about all. Pure."""
    for one in found:
        if one.idle_s is None:
            return one
    return min(found, key=lambda one: one.idle_s or 0.0, default=PresenceReading(inf, NOBODY))
