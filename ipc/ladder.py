"""The stop ladder, written once: TERM, grace, KILL of the group, a bounded wait, then the truth.

    TERM + CONT  --half the grace-->  DUMP  --grace-->  KILL the process group  --patience-->  unkillable

TERM makes the child dump every Python stack and die (its handler is C and needs no
GIL); CONT wakes a stopped child so that it can. A child that is still there ignores
TERM: DUMP asks once more where it is, by a signal that only dumps. The ladder races
the child's exit: whoever sees the exit stops climbing.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

PATIENCE: Final = 5.0
PATIENCE_PER_GIB: Final = 0.1
"""Ending a process costs about 70 ms per GiB that it holds; a kill is not late before that."""


class Rung(StrEnum):
    """What to do to the child now."""

    TERM = "term"
    DUMP = "dump"
    KILL = "kill"
    UNKILLABLE = "unkillable"


@dataclass(frozen=True, slots=True)
class Climb:
    """A kill under way. Times are monotonic seconds.

    Attributes:
        decided: when it was decided.
        grace: seconds between TERM and KILL; 0 goes straight to KILL.
        rss_gib: memory the child held when it was decided.
        last: the rung climbed last.
    """

    decided: float
    grace: float
    rss_gib: float = 0.0
    last: Rung | None = None


def next_rung(climb: Climb) -> tuple[Rung, float] | None:
    """Return the next rung and when it is due, or None at the top."""
    killed = climb.decided + climb.grace
    match climb.last:
        case None if climb.grace > 0:
            return Rung.TERM, climb.decided
        case Rung.TERM:
            return Rung.DUMP, climb.decided + climb.grace / 2
        case None | Rung.DUMP:
            return Rung.KILL, killed
        case Rung.KILL:
            return Rung.UNKILLABLE, killed + PATIENCE + PATIENCE_PER_GIB * climb.rss_gib
        case Rung.UNKILLABLE:
            return None
