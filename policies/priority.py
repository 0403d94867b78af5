"""Which job goes first (SPEC C79-C82, C144, U15, U16)."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from policies.job import MICROS, Head


@dataclass(frozen=True, slots=True)
class Aging:
    """How waiting makes a job more urgent: by `step` for each full `step_seconds`, never past `floor`."""

    step_seconds: float = 900.0
    step: int = 10
    floor: int = 10


AGING: Final = Aging()


def effective_priority(priority: int, waiting_since: int, now: int, aging: Aging = AGING) -> int:
    """Age a priority: 10 more urgent per full 900 s waited, never past the floor 10.

    A job at or above the floor's urgency keeps its priority, and a clock that was
    set back ages nothing. Times are microseconds.
    """
    if priority <= aging.floor or not aging.step_seconds:
        return priority
    steps = max(0, now - waiting_since) // max(1, int(aging.step_seconds * MICROS))
    return max(aging.floor, priority - aging.step * steps)


def in_claim_order(
    heads: Iterable[Head], now: int, loaded: tuple[str, int] | None = None, aging: Aging = AGING
) -> list[Head]:
    """Order heads by effective priority, then what is `loaded`, then who waits longest, then id."""
    return sorted(
        heads,
        key=lambda head: (
            effective_priority(head.priority, head.waiting_since, now, aging),
            head.load_key != loaded,
            head.waiting_since,
            head.job,
        ),
    )
