"""Which readings are alarming, and which of them became so just now (SPEC C114, C115).

reading --flags--> what is low now --rising--> what deserves a job of its own

A flag that has risen stays up until there is a tenth more than its threshold: a reading that hovers
about the threshold, or is missing for a while, makes one job and not one a second.
"""

from dataclasses import dataclass
from typing import Final

from policies.readings import MemoryReading

KIND: Final = "watchdog"
"""The kind of the job that a flag becomes; it is pinned, so reactive (SPEC C111, C112)."""

MEMORY: Final = "memory_available"
LEAST_MEMORY: Final = 2_000_000_000
"""Bytes; with less available there is a flag."""


@dataclass(frozen=True, slots=True)
class Flag:
    """A reading beyond its threshold: `metric` in the unit of `value` and `threshold`, `note` for people."""

    metric: str
    value: int
    threshold: int
    note: str

    @property
    def payload(self) -> dict[str, str | int]:
        """What its job is told: no value, which would keep an equal job that waits from taking it in."""
        return {"metric": self.metric, "threshold": self.threshold}


@dataclass(frozen=True, slots=True)
class Watch:
    """Where the watchdog stands after a reading: the metrics that are up, and the flags that rose with it."""

    up: frozenset[str] = frozenset()
    risen: tuple[Flag, ...] = ()


def flags(memory: MemoryReading, threshold: int = LEAST_MEMORY) -> tuple[Flag, ...]:
    """Return a flag where less than `threshold` bytes are available; no reading, no flag."""
    if memory.available is None or memory.available >= threshold:
        return ()
    note = f"less than {threshold / 1e9:g} GB of memory is available ({memory.source})"
    return (Flag(MEMORY, memory.available, threshold, note),)


def rising(before: Watch, memory: MemoryReading, threshold: int = LEAST_MEMORY) -> Watch:
    """Return where the watchdog stands after the next reading; each of `risen` is worth one job."""
    found = flags(memory, threshold)
    kept = before.up if not has_cleared(memory, threshold) else before.up - {MEMORY}
    risen = tuple(flag for flag in found if flag.metric not in before.up)
    return Watch(kept | {flag.metric for flag in found}, risen)


def has_cleared(memory: MemoryReading, threshold: int = LEAST_MEMORY) -> bool:
    """Tell whether there is so much again that the next flag is a new one; no reading clears nothing."""
    return memory.available is not None and memory.available * 10 >= threshold * 11
