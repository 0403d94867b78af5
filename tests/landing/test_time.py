"""Time is given to this room, and a lease's end is not a death certificate."""

import ast
from pathlib import Path

import landing
import policies
from landing.batches import Landed
from landing.finish import Finished
from tests.landing.stand import Stand, finish

CLOCKS = {"time", "datetime", "monotonic", "time_ns", "now", "utcnow", "sleep"}


def calls_in(room: object) -> set[str]:
    """Return `module.function` for each call on the clock modules in a room's files."""
    found = set()
    for file in Path(str(room.__file__)).parent.glob("*.py"):  # type: ignore[attr-defined]
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                found |= {f"{file.name}: import {one.name}" for one in node.names if one.name in CLOCKS}
            if isinstance(node, ast.ImportFrom) and node.module in {"time", "datetime"}:
                found.add(f"{file.name}: from {node.module}")
    return found


def test_neither_landing_nor_policies_reads_a_clock() -> None:
    """A6, U11: there is no hidden clock."""
    assert calls_in(landing) == set()
    assert calls_in(policies) == set()


def test_every_stored_time_is_the_one_that_was_given(stand: Stand) -> None:
    """A6, U11: whole microseconds UTC."""
    job = stand.enqueue()
    created = stand.now
    stand.tick(1.5)
    claimed = stand.claim()
    claimed_at = stand.now
    stand.tick(0.000001)
    stand.start(claimed)
    started = stand.now
    stand.tick(3600)
    stand.write(finish(claimed))
    row = stand.row(job)
    assert (row["created_at"], row["waiting_since"]) == (created, created)
    assert (row["started_at"], row["finished_at"]) == (started, stand.now)
    assert started == claimed_at + 1


def test_under_the_lock_an_expired_lease_still_lands_and_finishes_by_its_fence(stand: Stand) -> None:
    """A25, U9, K2: expiry refuses only claims made without the lock; here the fence decides."""
    claimed = stand.running()
    stand.tick(100_000)
    assert stand.row(claimed.job)["lease_expires_at"] < stand.now
    assert stand.land(claimed, 1, (claimed.job, 1, "late")) is Landed.LANDED
    assert stand.row(claimed.job)["lease_expires_at"] > stand.now
    stand.tick(100_000)
    assert stand.write(finish(claimed, last_seq=1)) is Finished.HELD
