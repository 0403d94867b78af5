"""Memory: a job that says what it needs starts only where that is free.

Free is what is available, less what running jobs were promised and do not hold yet, less a reserve.
"""

from typing import Final

from policies.gates.vocabulary import Blocked, Gate, Limits, Rule, World
from policies.readings import NO_PROBE, MemoryReading

LEAST_RESERVE: Final = 2 << 30
PART: Final = 10
PRESSURE: Final = 10.0
"""Percent of the last 10 s in which somebody waited for memory: from here on nothing that is large starts."""


def memory(rule: Rule, world: World) -> Blocked | None:
    """Block a kind whose need does not fit; one that names no need, or a machine that cannot tell, passes."""
    reading = world.readings.memory
    if Gate.MEMORY not in rule.gates or not rule.memory:
        return None
    if reading.available is None:
        return Blocked(Gate.MEMORY, NO_PROBE, "somebody has") if reading.source == NO_PROBE else None
    if reading.pressure is not None and reading.pressure > PRESSURE:
        return Blocked(Gate.MEMORY, f"memory is short (pressure {reading.pressure:g} %)", "pressure falls")
    kept = reserve(reading, world.limits)
    free = reading.available - world.promised - kept
    if free >= rule.memory:
        return None
    text = f"needs {gb(rule.memory)} GB, {gb(max(0, free))} GB free beside a reserve of {gb(kept)} GB"
    return Blocked(Gate.MEMORY, text, "memory is free")


def reserve(reading: MemoryReading, limits: Limits) -> int:
    """Return the bytes that jobs never get."""
    if limits.memory_reserve is not None:
        return limits.memory_reserve
    return max(LEAST_RESERVE, (reading.total or 0) // PART)


def gb(size: int) -> str:
    """Write bytes as GB."""
    return f"{size / 1e9:.1f}"
