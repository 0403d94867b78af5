"""What the sensors say about the machine: frozen values, three-valued where nobody can be sure.

A reading that is missing is unknown, never a default that looks measured; what a doubt resolves to is
each gate's own decision (SPEC U28).
"""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

NO_PROBE: Final = "nobody has looked yet"


class Power(StrEnum):
    """What the machine runs on."""

    MAINS = "mains"
    BATTERY = "battery"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class PresenceReading:
    """How long the owner has not touched the machine.

    Attributes:
        idle_s: seconds; None where nobody can tell, infinite where nobody is logged in at all.
        source: who said so, for people.
        inhibited: something asks not to be treated as idle, such as a film that plays.
    """

    idle_s: float | None = None
    source: str = NO_PROBE
    inhibited: bool = False


@dataclass(frozen=True, slots=True)
class PowerReading:
    """What the machine runs on, and how full its battery is in percent (None: unknown, or there is none)."""

    state: Power = Power.UNKNOWN
    percent: float | None = None
    source: str = NO_PROBE


@dataclass(frozen=True, slots=True)
class MemoryReading:
    """How much memory there is, in bytes; None where nobody can tell.

    Attributes:
        available: what may still be taken: the machine's, or what control groups leave of it.
        total: what there is at most.
        pressure: the share of the last 10 s in which somebody waited for memory, in percent.
        source: who said so, for people.
    """

    available: int | None = None
    total: int | None = None
    pressure: float | None = None
    source: str = NO_PROBE


@dataclass(frozen=True, slots=True)
class Readings:
    """All that the gates look at; each part unknown until its probe has answered."""

    presence: PresenceReading = field(default_factory=PresenceReading)
    power: PowerReading = field(default_factory=PowerReading)
    memory: MemoryReading = field(default_factory=MemoryReading)
