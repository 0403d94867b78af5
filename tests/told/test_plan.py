"""What the next attempt of a job does with what has landed, in words."""

from typing import Any

import pytest

from supervisor.told.plan import Plan, plan

GOES = "the 3 rows that it has landed are discarded with its first new rows"
BARE = "lane embed has no discard: the 3 rows that it has landed stay, unless its lander replaces them"
LOST = (
    "lane embed has no discard any more, which must remove the 3 rows that it has landed first: it will fail"
)
ON = "goes on after mark 'b'"


def said(resume: str, can: str = "", **cells: Any) -> Plan:
    """Return the plan of a job; `can` names what holds of its discard."""
    row = {"kind": "embed", "mark": None, "skip": 0, "landed_rows": 3, **cells}
    return plan(row, {name: name in can for name in ("due", "possible")}, resume)


@pytest.mark.parametrize(
    ("resume", "can", "cells", "over", "text"),
    [
        ("replay", "", {"landed_rows": 0}, True, "starts from the beginning"),
        ("restart", "possible", {"landed_rows": 0, "mark": "b"}, True, "starts from the beginning"),
        ("replay", "possible", {"mark": "b", "skip": 2}, False, ON),
        ("checkpoint", "", {"mark": "b", "landed_rows": 0}, False, ON),
        ("replay", "", {"skip": 3}, False, "goes on after 3 rows"),
        ("replay", "", {"skip": 1}, False, "goes on after 1 row"),
        ("replay", "due possible", {}, True, f"starts over; {GOES}"),
        ("replay", "due possible", {"mark": "b"}, False, f"{ON}; {GOES}"),
        ("replay", "possible", {}, True, "starts over; the 3 rows that it has landed stay"),
        ("replay", "", {"landed_rows": 1}, True, "starts over; the 1 row that it has landed stays"),
        ("replay", "due", {}, True, f"starts over; {LOST}"),
        ("restart", "possible", {"mark": "b", "skip": 2}, True, f"starts over; {GOES}"),
        ("restart", "", {"mark": "b"}, True, f"starts over; {BARE}"),
        ("restart", "due", {}, True, f"starts over; {BARE}"),
        (None, "", {"mark": "x\ny"}, False, "goes on after mark 'x…'"),
        (None, "", {"mark": "x" * 61}, False, f"goes on after mark '{'x' * 60}…'"),
    ],
)
def test_a_plan_reads_as(resume: str, can: str, cells: dict[str, Any], over: bool, text: str) -> None:
    """K4: the mark, the rows and the discard say what comes, whatever was asked for before."""
    assert said(resume, can, **cells) == Plan(over, text)


def test_one_row_is_told_as_one() -> None:
    assert said("restart", "possible", landed_rows=1).text.endswith(
        "the 1 row that it has landed is discarded with its first new rows"
    )
    assert said("restart", landed_rows=1).text.endswith("stays, unless its lander replaces it")


def test_going_on_fails_again_where_the_world_has_changed() -> None:
    """K4: resume_mismatch is terminal until a fresh start, or until the rows are the same again."""
    assert said("replay", mark="b").fails_again("resume_mismatch")
    assert not said("replay", mark="b").fails_again("raised")
    assert not said("replay", "due possible").fails_again("resume_mismatch")
