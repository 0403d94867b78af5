"""What the next attempt of a job does with what has landed, told from its row (CONTRACTS K4).

mark, skip, rows landed; is a discard due, can the lane do it, does it restart  ->  one sentence

Only the row knows: what one retry asked for, another one may have changed since.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from policies.job import Resume
from supervisor.told.units import count

MARK: Final = 60
"""Characters of a mark in a sentence."""
RESUME_MISMATCH: Final = "resume_mismatch"
"""The code of an attempt whose world had changed: it goes on differing, only a fresh start helps."""


class Plan(NamedTuple):
    """What comes next: whether it starts over, and the sentence."""

    starts_over: bool
    text: str

    def fails_again(self, code: str | None) -> bool:
        """Tell whether it meets again what ended the last attempt, which had this error code."""
        return code == RESUME_MISMATCH and not self.starts_over


def plan(row: Mapping[str, Any], discard: Mapping[str, bool], resume: str | None) -> Plan:
    """Say where the next attempt begins, and what becomes of the rows that are there.

    Args:
        row: the job's, with `kind`, `mark`, `skip` and `landed_rows`.
        discard: whether one is `due`, and `possible` (`landing.views.discard`).
        resume: how its lane resumes; None where nobody has declared it.
    """
    restarts = resume == Resume.RESTART
    begin = beginning(None if restarts else row["mark"], 0 if restarts else row["skip"])
    if not row["landed_rows"]:
        return Plan(not begin, begin or "starts from the beginning")
    if begin and not discard["due"]:
        return Plan(False, begin)
    fate = fate_of_rows(row["kind"], row["landed_rows"], discard, restarts=restarts)
    return Plan(not begin, f"{begin or 'starts over'}; {fate}")


def beginning(mark: str | None, skip: int) -> str:
    """Say where an attempt goes on; "" for one that starts over."""
    if mark is not None:
        first, _, more = mark.partition("\n")
        return f"goes on after mark {first[:MARK] + ('…' if more or first[MARK:] else '')!r}"
    return f"goes on after {count(skip, 'row')}" if skip else ""


def fate_of_rows(kind: str, number: int, discard: Mapping[str, bool], *, restarts: bool) -> str:
    """Say what becomes of rows that are not built on."""
    them = f"the {count(number, 'row')} that it has landed"
    are, stay, it = ("is", "stays", "it") if number == 1 else ("are", "stay", "them")
    if discard["possible"] and (restarts or discard["due"]):
        return f"{them} {are} discarded with its first new rows"
    if restarts:
        return f"lane {kind} has no discard: {them} {stay}, unless its lander replaces {it}"
    if discard["due"]:
        return f"lane {kind} has no discard any more, which must remove {them} first: it will fail"
    return f"{them} {stay}"
