"""Telling that somebody set the clock: the wall clock moved, and one that nobody can set did not."""

from dataclasses import dataclass
from typing import Final

from policies.job import MICROS

JUMP: Final = 2 * MICROS
"""A clock that is corrected bit by bit never moves so much in a second."""


@dataclass(frozen=True, slots=True)
class Clocks:
    """Both clocks at one moment: `wall` in microseconds UTC, `steady` in seconds that also count in sleep."""

    wall: int
    steady: float


def jump(before: Clocks, now: Clocks) -> int:
    """Return by how many microseconds the wall clock was set between two looks, back being negative; or 0."""
    moved = now.wall - before.wall - elapsed(before, now)
    return moved if abs(moved) > JUMP else 0


def set_since(before: Clocks, now: Clocks) -> int:
    """Return since when, as the wall clock reads now, it may have read so.

    The loop looks at least once a second: a longer gap is a sleep or a stop, in which nothing began to
    wait. To reach back over all of it would take what had begun before for new.
    """
    return now.wall - min(elapsed(before, now), MICROS)


def elapsed(before: Clocks, now: Clocks) -> int:
    """Return the microseconds that really went by, asleep or awake."""
    return int((now.steady - before.steady) * MICROS)
