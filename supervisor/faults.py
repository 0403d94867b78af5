"""Faults on purpose: read from LANEWAY_FAULTS, and only over a store that a test has marked for them.

    LANEWAY_FAULTS = POINT:ACTION[=SECONDS][@N],...       land.applied:kill@3,commit:delay=0.2@5

@N is the N-th time that the point is reached (default: the first); each fault happens once.
"""

import os
import re
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from landing import faults
from landing.faults import Reach, unarmed
from supervisor.errors import Refused
from supervisor.told.spelling import did_you_mean

VARIABLE: Final = "LANEWAY_FAULTS"
MARKER: Final = "faults-allowed"
"""A file of this name in the home marks a test's store: a variable left behind can break no other."""

RECEIVE: Final = "receive"
SEND: Final = "send.begin"
SENT: Final = "send.done"
ACK: Final = "ack.begin"
ACKED: Final = "ack.done"
POINTS: Final = (*faults.POINTS, RECEIVE, SEND, SENT, ACK, ACKED)
"""The lander's points, then the loop's: a child's message has come, a message or an Ack goes to it."""

FORM: Final = re.compile(r"([^:=@]*):([a-z]+)(?:=(\d+(?:\.\d+)?))?(?:@([1-9]\d{0,8}))?")


class FaultsRefused(Refused):
    """LANEWAY_FAULTS is set where it must not be, or cannot be read."""


class Injected(Exception):
    """What the action `raise` raises."""


@dataclass(frozen=True, slots=True)
class Fault:
    """What happens at a point when it is reached for the n-th time; `seconds` is for a delay."""

    point: str
    action: str
    seconds: float = 0.0
    n: int = 1


def kill(_fault: Fault) -> None:
    """Die as by SIGKILL from outside: no handler runs, nothing is closed."""
    os.kill(os.getpid(), signal.SIGKILL)


def delay(fault: Fault) -> None:
    """Hold the thread that came here."""
    threading.Event().wait(fault.seconds)


def raise_injected(fault: Fault) -> None:
    """Raise what nobody expects."""
    raise Injected(f"injected at {fault.point}")


def raise_trouble(fault: Fault) -> None:
    """Raise what SQLite would."""
    raise faults.trouble(fault.action)


ACTIONS: Final[Mapping[str, Callable[[Fault], None]]] = {
    "kill": kill,
    "delay": delay,
    "raise": raise_injected,
    **dict.fromkeys(faults.TROUBLES, raise_trouble),
}


class Armed:
    """A `Reach` that counts, and does what is due. A point belongs to one thread, so its count does."""

    def __init__(self, armed: Iterable[Fault]) -> None:
        self._due = {(fault.point, fault.n): fault for fault in armed}
        self._reached: Counter[str] = Counter()

    def __call__(self, point: str) -> None:
        """Count; then kill, raise, delay, or nothing."""
        self._reached[point] += 1
        if (fault := self._due.get((point, self._reached[point]))) is not None:
            ACTIONS[fault.action](fault)


def reach_for(home: Path, environ: Mapping[str, str]) -> Reach:
    """Return what a run over `home` calls at its fault points.

    Raises:
        FaultsRefused: faults are asked for, but the home holds no marker file or a fault cannot be read.
    """
    if not (text := environ.get(VARIABLE)):
        return unarmed
    if not (home / MARKER).is_file():
        raise FaultsRefused(
            [f"{VARIABLE} is set and {home} holds no file {MARKER}: it is for tests, unset it"]
        )
    return Armed(read_faults(text))


def read_faults(text: str) -> list[Fault]:
    """Read a list of faults.

    Raises:
        FaultsRefused: one line for each that cannot be read.
    """
    read = [read_fault(one.strip()) for one in text.split(",")]
    if complaints := [one for one in read if isinstance(one, str)]:
        raise FaultsRefused(f"{VARIABLE}: {complaint}" for complaint in complaints)
    return [one for one in read if isinstance(one, Fault)]


def read_fault(text: str) -> Fault | str:
    """Return a fault, or what is wrong with its text."""
    if (form := FORM.fullmatch(text)) is None:
        return f"{text!r} is no POINT:ACTION[=SECONDS][@N]"
    point, action, seconds, n = form.groups()
    if point not in POINTS:
        return f"unknown point {point!r} in {text!r}{did_you_mean(point, POINTS)}"
    if action not in ACTIONS:
        return f"unknown action {action!r} in {text!r}; there are {', '.join(ACTIONS)}"
    if (seconds is not None) is not (action == "delay"):
        return f"{text!r}: seconds belong to a delay, which needs them (delay=0.2)"
    return Fault(point, action, float(seconds or 0), int(n or 1))
