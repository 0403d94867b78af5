"""What gates are asked, and what they answer."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from policies.job import InFlight
from policies.readings import Readings


class Gate(StrEnum):
    """The names of the reasons, as settings, status and programs know them."""

    HELD = "held"
    PRESENCE = "presence"
    POWER = "power"
    POWER_FLOOR = "power_floor"
    MEMORY = "memory"
    QUIET = "quiet"
    MODEL = "model"
    MAX_RUNNING = "max_running"


CHOSEN: Final = (Gate.PRESENCE, Gate.POWER, Gate.MEMORY, Gate.QUIET)
"""Those that a kind may list; the others hold for every kind."""


@dataclass(frozen=True, slots=True)
class Blocked:
    """Why a kind must wait, with the figures, and when or by what that ends ("" where nobody can say)."""

    gate: Gate
    text: str
    until: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What one kind asks of the gates.

    Attributes:
        kind: its name.
        gates: those of `CHOSEN` that apply to it.
        tier: its tier's name, "" for none.
        model: the model that its tier needs, None for none.
        pinned: the model stays loaded always, and is in nobody's way.
        memory: bytes that must be free before a job of it starts.
        max_running: jobs of it that may be in flight at once, 0 for any number.
        yields: a job in flight gives its slot back when a gate closes.
    """

    kind: str
    gates: frozenset[Gate] = frozenset()
    tier: str = ""
    model: str | None = None
    pinned: bool = False
    memory: int = 0
    max_running: int = 0
    yields: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Where the gates close; the `[gates]` section of the settings.

    Attributes:
        presence: seconds without a touch after which the owner is away; 0 where nobody sits at the machine.
        unknown_is_present: what nobody can tell counts as somebody there (SPEC C61).
        power: False where power is no matter, as for a machine whose battery is a spare.
        power_floor: percent below which nothing starts, 0 for none.
        memory_reserve: bytes that are never given to jobs; None: the larger of 2 GiB and a tenth.
        quiet: spans of the local day in minutes from midnight, [start, end), in which heavy work waits.
    """

    presence: float = 300.0
    unknown_is_present: bool = True
    power: bool = True
    power_floor: float = 20.0
    memory_reserve: int | None = None
    quiet: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """What is so at the moment of a claim.

    Attributes:
        readings: what the sensors said last.
        limits: where the gates close.
        in_flight: the leased and running jobs.
        held: the kinds that were told to wait, each with the reason that was given.
        promised: bytes that running jobs were granted and do not hold yet.
        minute: minutes since midnight, local time.
        models: by tier in flight, the model that it needs.
        pinned: the tiers whose model stays loaded always.
    """

    readings: Readings = field(default_factory=Readings)
    limits: Limits = field(default_factory=Limits)
    in_flight: tuple[InFlight, ...] = ()
    held: Mapping[str, str] = field(default_factory=dict)
    promised: int = 0
    minute: int = 0
    models: Mapping[str, str] = field(default_factory=dict)
    pinned: frozenset[str] = frozenset()
