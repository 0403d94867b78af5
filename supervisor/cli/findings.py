"""What `doctor` finds of owner, power and memory: what each probe sees, and what the gates make of it.

probes --at most 5 s, side by side--> readings --the gates of heavy work--> may start | waits: why
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from ipc.tool import run
from policies.gates.memory import PRESSURE, reserve
from policies.gates.power import power, power_floor
from policies.gates.presence import presence
from policies.gates.vocabulary import CHOSEN, Blocked, Limits, Rule, World
from policies.readings import MemoryReading, Power, Readings
from supervisor.errors import SettingsRefused
from supervisor.probes.watch import look, native
from supervisor.run.telling import states
from supervisor.settings.place import environment
from supervisor.settings.values import Flags, load_settings
from supervisor.told import gates
from supervisor.told.units import human_size

HEAVY: Final = Rule(kind="", gates=frozenset(CHOSEN))
NOBODY_SITS_HERE: Final = 'where nobody sits at this machine: presence = "dedicated" in [gates]'
POWER_IS_NO_MATTER: Final = "where power is no matter: power = false in [gates]"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line. `level` is ok, warning (works, with a risk) or wrong; `advice` says what to do."""

    name: str
    value: str
    level: str = "ok"
    advice: str = ""


def machine_findings(home: str | None) -> Iterator[Finding]:
    """Ask all probes, and say what the gates of this project's settings would do now."""
    try:
        limits = load_settings(Flags(home=home)).scheduling.limits
    except SettingsRefused:  # `check` says what is wrong with them
        limits = Limits()
    probes = native(environment(), os.getuid(), limits.presence or 1.0, run)
    yield from sensed_findings(look(probes), limits)


def sensed_findings(readings: Readings, limits: Limits) -> Iterator[Finding]:
    """Say what was seen, by whom, and what becomes of heavy work. Pure."""
    world = World(readings=readings, limits=limits)
    said = {one["gate"]: one for one in states(readings, limits, frozenset(CHOSEN), quiet=False)}
    here, floor = presence(HEAVY, world), power_floor(readings.power, limits)
    owner = Finding(
        "owner", f"{gates.presence(said['presence'])} ({readings.presence.source}); {heavy_work(here)}"
    )
    nobody_knows = here is not None and readings.presence.idle_s is None
    yield replace(owner, level="warning", advice=NOBODY_SITS_HERE) if nobody_knows else owner
    what = heavy_work(power(HEAVY, world)) if floor is None else waits("all work", floor)
    current = Finding("power", f"{gates.power(said['power'])} ({readings.power.source}); {what}")
    nobody_knows = limits.power and readings.power.state is Power.UNKNOWN
    yield replace(current, level="warning", advice=POWER_IS_NO_MATTER) if nobody_knows else current
    yield Finding(
        "memory",
        f"{gates.memory(said['memory'])} ({readings.memory.source}); {room(readings.memory, limits)}",
    )


def heavy_work(blocked: Blocked | None) -> str:
    """Say what a gate does with heavy work."""
    return "heavy work may start" if blocked is None else waits("heavy work", blocked)


def waits(work: str, blocked: Blocked) -> str:
    """Say why work waits, and what ends that."""
    return f"{work} waits: {blocked.text}{f', until {blocked.until}' if blocked.until else ''}"


def room(memory: MemoryReading, limits: Limits) -> str:
    """Say what a job may need and still start."""
    if memory.available is None:
        return "nobody can tell what is free: no job waits for memory"
    if memory.pressure is not None and memory.pressure > PRESSURE:
        return f"heavy work waits: memory is short (pressure {memory.pressure:g} %), until pressure falls"
    kept = reserve(memory, limits)
    free = memory.available - kept
    if free <= 0:
        return f"what needs memory waits: {human_size(kept)} are kept back, until memory is free"
    return f"a job that needs up to {human_size(free)} may start ({human_size(kept)} are kept back)"
