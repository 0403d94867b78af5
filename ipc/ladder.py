"""The stop ladder, written once: ask, TERM, grace, KILL of the whole tree, a bounded wait, then the truth.

    [ASK --half the grace-->] TERM + CONT  --half of what is left-->  DUMP  --grace-->
        KILL the tree  --2 s-->  its GUARDIAN as well  --patience-->  unkillable

ASK tells a child that still has something to tidy up to leave at its next resume point. TERM
makes it dump every Python stack and die (its handler is C and needs no GIL); CONT wakes a stopped
child so that it can. A child that is still there ignores TERM: DUMP asks once more where it is, by
a signal that only dumps. A guardian that has not ended the tree by then hangs itself, or was
stopped. The ladder races the child's exit: whoever sees the exit stops climbing.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

GUARDIAN_SECONDS: Final = 2.0
PATIENCE: Final = 5.0
PATIENCE_PER_GIB: Final = 0.1
"""Ending a process costs about 70 ms per GiB that it holds; a kill is not late before that."""


class Rung(StrEnum):
    """What to do to the child now."""

    ASK = "ask"
    TERM = "term"
    DUMP = "dump"
    KILL = "kill"
    GUARDIAN = "guardian"
    UNKILLABLE = "unkillable"


BEFORE_KILL: Final = frozenset({Rung.ASK, Rung.TERM, Rung.DUMP})
"""Who goes on one of these has gone within the grace."""


@dataclass(frozen=True, slots=True)
class Climb:
    """A kill under way. Times are monotonic seconds.

    Attributes:
        decided: when it was decided.
        grace: seconds between the decision and KILL; 0 goes straight to KILL.
        rss_gib: memory the child held when it was decided.
        asks: the child may be asked to leave before it is told to.
        last: the rung climbed last.
    """

    decided: float
    grace: float
    rss_gib: float = 0.0
    asks: bool = False
    last: Rung | None = None


def next_rung(climb: Climb) -> tuple[Rung, float] | None:
    """Return the next rung and when it is due, or None at the top."""
    term = climb.decided + (climb.grace / 2 if climb.asks else 0.0)
    killed = climb.decided + climb.grace
    larger = PATIENCE_PER_GIB * climb.rss_gib
    match climb.last:
        case None if climb.grace > 0:
            return (Rung.ASK, climb.decided) if climb.asks else (Rung.TERM, term)
        case Rung.ASK:
            return Rung.TERM, term
        case Rung.TERM:
            return Rung.DUMP, (term + killed) / 2
        case None | Rung.DUMP:
            return Rung.KILL, killed
        case Rung.KILL:
            return Rung.GUARDIAN, killed + GUARDIAN_SECONDS + larger
        case Rung.GUARDIAN:
            return Rung.UNKILLABLE, killed + PATIENCE + larger
        case Rung.UNKILLABLE:
            return None
