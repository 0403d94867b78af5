"""Fault points: named moments of the lander at which a test may break it. In a real run nothing is armed.

    begin -> claim.begin, claim.applied, land.begin, land.applied ... -> commit -> claim.committed ...

A point is reached before or after something that must hold wherever the process dies, so a test
that kills, raises or fills the disk there has tried every way of dying between two steps.
"""

import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from landing.batches import Land
from landing.claim import Claim
from landing.finish import Finish
from landing.lease import Renew, Start
from landing.runs import CloseRun, OpenRun

Reach = Callable[[str], object]
"""Called with a point's name when it is reached; what it raises is raised there."""


def unarmed(_point: str) -> None:
    """Do nothing, as in every real run."""


@dataclass(frozen=True, slots=True)
class Step:
    """The points of one kind of operation: before it, after it, and after COMMIT but before its answer."""

    begin: str
    applied: str
    committed: str


def step_named(name: str) -> Step:
    """Return the points of a step."""
    return Step(f"{name}.begin", f"{name}.applied", f"{name}.committed")


STEPS: Final[Mapping[type, Step]] = {
    OpenRun: step_named("recover"),
    Claim: step_named("claim"),
    Start: step_named("start"),
    Land: step_named("land"),
    Renew: step_named("renew"),
    Finish: step_named("finish"),
    CloseRun: step_named("close"),
}
OTHER: Final = step_named("other")

BEGIN: Final = "begin"
COMMIT: Final = "commit"
CHECKPOINT: Final = "checkpoint"
POINTS: Final = (
    *(BEGIN, COMMIT, CHECKPOINT),
    *(point for step in (*STEPS.values(), OTHER) for point in (step.begin, step.applied, step.committed)),
)
"""All points of the lander: before BEGIN IMMEDIATE, COMMIT and a checkpoint, and around each operation."""


def step_of(operation: Any) -> Step:
    """Return the points of an operation."""
    return STEPS.get(type(operation), OTHER)


TROUBLES: Final = {
    "full": (sqlite3.SQLITE_FULL, "database or disk is full"),
    "ioerr": (sqlite3.SQLITE_IOERR, "disk I/O error"),
    "readonly": (sqlite3.SQLITE_READONLY, "attempt to write a readonly database"),
}


def trouble(name: str) -> sqlite3.Error:
    """Return the error that SQLite raises when it meets one of the TROUBLES."""
    code, text = TROUBLES[name]
    error = sqlite3.OperationalError(text)
    error.sqlite_errorcode = code
    return error
