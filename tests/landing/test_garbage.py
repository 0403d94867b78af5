"""Garbage in any stored cell degrades its own row: nothing stops, nothing raises (SPEC U32)."""

import shutil
import sqlite3
import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from landing import views
from landing.connect import store_path
from landing.enqueue import Register
from landing.errors import StoreError
from landing.ledger import Report
from landing.snapshot import snapshot
from policies.job import Outcome
from policies.options import Options
from policies.payload import PAYLOAD_LIMIT
from tests.landing.stand import KINDS, START, Stand

NOT_UTF8 = "CAST(x'ff' AS TEXT)"
SURROUNDED = "CAST(x'61ff0062' AS TEXT)"
VALUES = [
    *("'abc'", "''", "x'ff'", "x''", "9e999", "-9e999", "1.5", "9223372036854775807", "-9223372036854775808"),
    *("-5", "0", "1e300", "'{bad'", "'[1]'", "'{}'", "'NaN'", "char(0)", NOT_UTF8, SURROUNDED, "NULL"),
    *('\'{"priority": "x"}\'', "replace(hex(zeroblob(5000)), '00', '[')"),
]
JOB_COLUMNS = [
    "key",
    "kind",
    "tag",
    "state",
    "reason",
    "group_id",
    "priority",
    "tier",
    "num_ctx",
    "payload",
    "options",
    "max_cost",
    "created_at",
    "waiting_since",
    "started_at",
    "finished_at",
    "claims",
    "failures",
    "deferrals",
    "fence",
    "run_id",
    "lease_expires_at",
    "cancel_requested_at",
    "awake",
    "landed_seq",
    "landed_rows",
    "mark",
    "skip",
    "digest",
    "done",
    "total",
    "spent",
    "watch",
    "watch_key",
    "wake_at",
]
CELLS = [
    *(("laneway_jobs", column) for column in JOB_COLUMNS),
    *(("laneway_groups", column) for column in ("kind", "priority", "tier", "num_ctx")),
    *(("laneway_kinds", column) for column in ("app", "options", "registered_at")),
    ("laneway_counts", "jobs"),
]


def put(stand: Stand, table: str, column: str, value: str, where: str) -> bool:
    """Write an SQL expression into a cell, as a stranger would; False where a constraint refuses it."""
    with closing(sqlite3.connect(store_path(stand.home), isolation_level=None)) as db:
        try:
            db.execute(f"UPDATE {table} SET {column} = {value} WHERE {where}")
        except sqlite3.IntegrityError:
            return False
    return True


def spoil(stand: Stand, job: int, column: str, value: str) -> None:
    assert put(stand, "laneway_jobs", column, value, f"id = {job}")


def look_at_everything(stand: Stand, jobs: list[int]) -> None:
    with snapshot(stand.home) as db:
        for job in jobs:
            row = views.job(db, job)
            assert isinstance(row["waiting_since"], int)
            views.attempts(db, job)
            views.events(db, job)
        assert len(views.jobs(db)) >= len(jobs)
        for look in (
            views.counts,
            views.kinds,
            views.in_flight,
            views.waiting,
            views.pending,
            views.last_run,
        ):
            look(db)
        views.ended_since(db, 0)


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("options", "'{bad'"),
        ("options", "'[1]'"),
        ("options", NOT_UTF8),
        ("waiting_since", "'abc'"),
        ("waiting_since", "9223372036854775807"),
        ("waiting_since", "-9e999"),
        ("awake", "x'ff'"),
        ("claims", "'abc'"),
        ("claims", "9223372036854775807"),
        ("priority", "'abc'"),
        ("group_id", "'nowhere'"),
        ("landed_rows", "'abc'"),
        ("reason", NOT_UTF8),
    ],
)
def test_a_cell_that_an_attempt_can_do_without_does_not_stop_it(
    stand: Stand, column: str, value: str
) -> None:
    """U32."""
    job = stand.enqueue()
    spoil(stand, job, column, value)
    claimed = stand.claim()
    assert (claimed.job, claimed.options) == (job, {})
    assert isinstance(claimed.number, int)
    look_at_everything(stand, [job])


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("payload", "'{bad'"),
        ("payload", "x'ff'"),
        ("payload", "replace(hex(zeroblob(5000)), '00', '[')"),
        ("payload", f"'\"' || printf('%.*c', {PAYLOAD_LIMIT}, 'x') || '\"'"),
        ("kind", "x'ff'"),
        ("kind", "'scan'"),
        ("key", "x'ff'"),
        ("failures", "'abc'"),
        ("landed_seq", NOT_UTF8),
        ("landed_seq", "-5"),
        ("landed_seq", "9223372036854775807"),
        ("mark", "x'ff'"),
        ("skip", "'abc'"),
        ("digest", "'abc'"),
    ],
)
def test_a_row_that_no_attempt_can_use_is_failed_and_the_next_is_claimed(
    stand: Stand, column: str, value: str
) -> None:
    """U32, U10: with a receipt that names the cell."""
    bad, good = stand.enqueue(), stand.enqueue()
    spoil(stand, bad, column, value)
    assert stand.claim().job == good
    row = stand.row(bad)
    assert (row["state"], row["reason"], row["fence"]) == ("failed", f"unreadable: {column}", None)
    (attempt,) = stand.attempts(bad)
    assert (attempt["outcome"], attempt["error_code"]) == ("failed", "unreadable")
    look_at_everything(stand, [bad, good])


@pytest.mark.parametrize("value", ["'abc'", "x'ff'", "1e300", "9223372036854775807", NOT_UTF8])
def test_a_wake_that_never_comes_is_due(stand: Stand, value: str) -> None:
    """U32."""
    job, other = stand.enqueue(), stand.enqueue("scan")
    spoil(stand, job, "state", "'pending'")
    spoil(stand, job, "wake_at", value)
    assert stand.claim().job == job
    assert stand.claim().job == other


def test_a_groups_priority_that_is_no_number_counts_as_the_default(stand: Stand) -> None:
    """U32."""
    job = stand.enqueue("scan")
    assert put(stand, "laneway_groups", "priority", "'abc'", "1")
    assert stand.claim().job == job


def in_flight_without_attempt(stand: Stand, *, run: str = "NULL") -> int:
    job = stand.enqueue()
    with closing(sqlite3.connect(store_path(stand.home), isolation_level=None)) as db:
        db.execute(
            "UPDATE laneway_jobs SET state = 'leased', fence = x'ff', lease_expires_at = 'zz',"
            f" landed_seq = 'q', run_id = {run} WHERE id = ?",
            (job,),
        )
    return job


def test_a_row_in_flight_without_its_attempt_is_swept_at_the_next_start(stand: Stand) -> None:
    """U3, U32: no receipt is possible, an event says so."""
    job = in_flight_without_attempt(stand)
    assert stand.open_run().orphans == (job,)
    assert (stand.row(job)["state"], stand.attempts(job)) == ("queued", [])
    assert stand.events(job) == ["attempt_missing"]
    stand.run = 2
    assert stand.claim().job == job


@pytest.mark.parametrize("live", [True, False])
@pytest.mark.parametrize("run", ["NULL", "1", "'zz'"])
def test_a_row_in_flight_without_its_attempt_is_really_cancelled(stand: Stand, live: bool, run: str) -> None:
    """U17, K6: nobody would end it, whether a supervisor lives or not."""
    job = in_flight_without_attempt(stand, run=run)
    assert stand.cancel(job, live=live).state == "cancelled"
    row = stand.row(job)
    assert (row["state"], row["fence"]) == ("cancelled", None)


def test_a_kinds_limits_hold_for_an_orphan_whose_own_are_garbage(stand: Stand) -> None:
    """U32, K9: a kind that must not be retried is not, because a cell of the job is bad."""
    claimed = stand.running("fragile")
    spoil(stand, claimed.job, "options", "'{bad'")
    stand.open_run()
    assert stand.row(claimed.job)["state"] == "failed"


def test_a_kind_whose_options_are_garbage_is_enqueued_at_the_default_priority(stand: Stand) -> None:
    """U32."""
    assert put(stand, "laneway_kinds", "options", "'{bad'", "kind = 'scan'")
    assert stand.row(stand.enqueue("scan"))["priority"] == 50


def test_json_that_is_none_is_shown_as_text_or_left_out(stand: Stand) -> None:
    """U32, C95."""
    job = stand.enqueue()
    spoil(stand, job, "payload", "'{bad'")
    spoil(stand, job, "options", "'[1]'")
    spoil(stand, job, "tag", "x'61ff'")
    spoil(stand, job, "finished_at", "'never'")
    with snapshot(stand.home) as db:
        row = views.job(db, job)
        assert (row["payload"], row["options"], row["tag"]) == ('"{bad"', None, "a\\xff")
        assert row["finished_at"] is None
        assert views.jobs(db)[0]["payload"] == '"{bad"'


@pytest.mark.parametrize("value", VALUES)
def test_a_receipt_whose_json_is_none_is_shown_without_it(stand: Stand, value: str) -> None:
    """U32, C95: and hides nobody who outlived another kill."""
    claimed = stand.leased()
    with closing(sqlite3.connect(store_path(stand.home), isolation_level=None)) as db:
        db.execute(
            "INSERT INTO laneway_receipts"
            " (attempt_id, job_id, outcome, finished_at, error, exit, kill, world, log)"
            f" VALUES (?, ?, 'failed', ?, {value}, {value}, {value}, {value}, '')",
            (claimed.attempt, claimed.job, START),
        )
    other = stand.running("scan")
    stand.finish(other, report=Report(outcome=Outcome.DONE, kill={"survivors": [5]}))
    (attempt,) = stand.attempts(claimed.job)
    for name in ("error", "exit", "kill", "world"):
        assert attempt[name] is None or isinstance(attempt[name], dict)
    with snapshot(stand.home) as db:
        assert [row["id"] for row in views.survivors(db, START)] == [other.job]


ACTS: list[Callable[[Stand, list[int]], Any]] = [
    look_at_everything,
    lambda stand, jobs: [tolerated(stand.cancel, jobs[0]), tolerated(stand.cancel, jobs[1])],
    lambda stand, jobs: tolerated(stand.enqueue),
    lambda stand, jobs: tolerated(stand.enqueue, "scan"),
]


def tolerated(call: Callable[..., Any], *args: Any) -> None:
    """Only this room's own errors may come out."""
    try:
        call(*args)
    except StoreError as error:
        if type(error) is StoreError:
            raise


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    garbage=st.lists(
        st.tuples(st.sampled_from(CELLS), st.sampled_from(VALUES), st.booleans()), min_size=1, max_size=4
    ),
    act=st.sampled_from(ACTS),
)
def test_random_garbage_never_stops_the_queue(
    furnished: Path, garbage: list[tuple[tuple[str, str], str, bool]], act: Any
) -> None:
    """U32: what can be claimed is claimed, what cannot has ended, and the next start works."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        shutil.copytree(furnished, home)
        stand = Stand(home)
        waiting, flying = stand.enqueue(), stand.running("scan").job
        for (table, column), value, second in garbage:
            where = f"id = {flying if second else waiting}" if table == "laneway_jobs" else "1"
            put(stand, table, column, value, where)
        act(stand, [waiting, flying])
        stand.run = stand.open_run().run
        stand.write(Register("another", {"healthy": Options()}))
        healthy = stand.enqueue("healthy")
        kinds = [*KINDS, "healthy"]
        claimed = set()
        while (reply := stand.look(*kinds, loaded=kinds)).claimed is not None:
            claimed.add(reply.claimed.job)
        assert healthy in claimed
        assert reply.next_wake is None or reply.next_wake > START
        look_at_everything(stand, [waiting, flying, healthy])
        assert not stand.query(
            "SELECT id FROM laneway_jobs WHERE state IN ('leased', 'running') AND run_id IS NOT ?", stand.run
        )
