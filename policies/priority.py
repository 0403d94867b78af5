"""Which job goes first (SPEC C79-C82, U15, U16)."""

from collections.abc import Iterable

from policies.job import MICROS, Head

AGING_STEP_SECONDS = 900
AGING_STEP = 10
AGING_FLOOR = 10


def effective_priority(priority: int, waiting_since: int, now: int) -> int:
    """Age a priority: 10 more urgent per full 900 s waited, never past the floor 10.

    A job at or above the floor's urgency keeps its priority, and a clock that was
    set back ages nothing. Times are microseconds.
    """
    if priority <= AGING_FLOOR:
        return priority
    steps = max(0, now - waiting_since) // (AGING_STEP_SECONDS * MICROS)
    return max(AGING_FLOOR, priority - AGING_STEP * steps)


def in_claim_order(heads: Iterable[Head], now: int) -> list[Head]:
    """Order heads by effective priority, then by who waits longest, then by id."""
    return sorted(
        heads,
        key=lambda head: (
            effective_priority(head.priority, head.waiting_since, now),
            head.waiting_since,
            head.job,
        ),
    )
