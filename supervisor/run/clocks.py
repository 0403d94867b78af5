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


def elapsed(before: Clocks, now: Clocks) -> int:
    """Return the microseconds that really went by, asleep or awake."""
    return int((now.steady - before.steady) * MICROS)
