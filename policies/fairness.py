"""Whose turn it is: a long job gives its slot back at its next resume point where better work waits (K12)."""

from collections.abc import Iterable
from typing import NamedTuple

from policies.job import Head
from policies.priority import AGING, Aging, effective_priority


class Running(NamedTuple):
    """A job in a slot: its priority, and for how many seconds it has had the slot."""

    job: int
    priority: int
    seconds: float


def whom_to_ask(
    running: Iterable[Running], best: Head, now: int, quantum: float, aging: Aging = AGING
) -> int | None:
    """Return the job that should yield to the best one that waits, None where nobody should.

    A job past its quantum goes to the end of its own band when it yields, so whatever waits at its
    priority or a better one goes before it. Of several the least urgent is asked, then the longest.

    Args:
        running: the jobs in slots, none of which is free.
        best: the first in line that may start.
        now: microseconds UTC.
        quantum: seconds that a job may keep its slot, 0 for any.
        aging: how waiting makes a job more urgent.
    """
    waits = effective_priority(best.priority, best.waiting_since, now, aging)
    over = [one for one in running if quantum and one.seconds >= quantum and waits <= one.priority]
    asked = max(over, key=lambda one: (one.priority, one.seconds, -one.job), default=None)
    return None if asked is None else asked.job
