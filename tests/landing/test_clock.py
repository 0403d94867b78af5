"""A clock that was set: waits keep their length, leases stay good, and no view breaks (CONTRACTS K10)."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from landing.claim import Claimed
from landing.clock import ShiftWaits
from landing.hold import Hold, Unhold
from landing.importing import bring_in
from landing.lease import LEASE_SECONDS
from landing.ledger import Report
from landing.oldqueue import opened
from landing.transaction import Transaction
from policies.job import MICROS, Outcome, State
from policies.transitions import Move
from policies.verdict import Verdict
from tests.landing.stand import START, Stand

HOURS = 2 * 3600
HOURS_MICROS = HOURS * MICROS


def backing_off(stand: Stand) -> int:
    claimed = stand.running()
    stand.fail(claimed)
    return claimed.job


@pytest.mark.parametrize("by", [-HOURS, HOURS], ids=["back", "forward"])
def test_a_wait_ends_as_long_after_as_it_would_have(stand: Stand, by: int) -> None:
    job = backing_off(stand)
    wait = stand.row(job)["wake_at"] - stand.now
    stand.tick(by)
    assert stand.write(ShiftWaits(stand.run, by * MICROS, stand.now)) == 1
    assert stand.row(job)["wake_at"] - stand.now == wait
    assert stand.look().claimed is None
    stand.tick(wait / MICROS)
    assert stand.look().claimed is not None


def test_a_wait_that_began_after_the_clock_was_set_is_right_already(stand: Stand) -> None:
    earlier = backing_off(stand)
    stand.tick(-HOURS)
    since = stand.now
    stand.tick(0.5)
    later = backing_off(stand)
    wake = stand.row(later)["wake_at"]
    assert stand.write(ShiftWaits(stand.run, -HOURS_MICROS, since)) == 1
    assert stand.row(later)["wake_at"] == wake
    assert stand.row(earlier)["wake_at"] < START + 3600 * MICROS


def test_leases_are_good_from_now_on_and_rows_that_do_not_back_off_are_left_alone(stand: Stand) -> None:
    claimed, queued = stand.running(), stand.enqueue("scan")
    before = stand.row(queued)
    stand.tick(HOURS)
    assert stand.write(ShiftWaits(stand.run, HOURS_MICROS, stand.now)) == 0
    assert stand.row(claimed.job)["lease_expires_at"] == stand.now + LEASE_SECONDS * MICROS
    assert stand.row(queued) == before


def test_a_wait_is_never_moved_before_time_itself(stand: Stand) -> None:
    job = backing_off(stand)
    stand.write(ShiftWaits(stand.run, -2 * START, START * 2))
    assert stand.row(job)["wake_at"] == 0


def test_an_event_keeps_by_how_much_and_how_many(stand: Stand) -> None:
    backing_off(stand)
    stand.tick(-HOURS)
    stand.write(ShiftWaits(stand.run, -HOURS_MICROS, stand.now))
    ((detail,),) = stand.query("SELECT detail FROM laneway_events WHERE name = 'clock_set'")
    assert json.loads(detail) == {"by_s": -HOURS, "waits": 1}


# --- set back while no supervisor runs


def clock_set(stand: Stand) -> list[dict[str, object]]:
    found = stand.query("SELECT detail FROM laneway_events WHERE name = 'clock_set' ORDER BY id")
    return [json.loads(detail) for (detail,) in found]


def wait_of(stand: Stand, job: int) -> float:
    return float(stand.row(job)["wake_at"] - stand.now) / MICROS


def test_a_start_on_a_clock_that_was_set_back_stretches_no_wait(stand: Stand) -> None:
    """K10: the machine's clock was ahead by hours when the job failed."""
    first = backing_off(stand)
    stand.tick(2)
    second = backing_off(stand)
    length = wait_of(stand, second)
    stand.tick(-HOURS)
    opened = stand.open_run()
    assert opened.clamped == 2
    assert (wait_of(stand, first), wait_of(stand, second)) == (length, length)
    assert clock_set(stand) == [{"by_s": None, "waits": 2}]
    stand.tick(-HOURS)
    assert stand.open_run().clamped == 2, "once more, from when it was counted last"
    assert wait_of(stand, first) == length


def test_a_start_leaves_waits_alone_that_are_counted_from_the_past(stand: Stand) -> None:
    job = backing_off(stand)
    wake = stand.row(job)["wake_at"]
    stand.tick(1)
    assert stand.open_run().clamped == 0
    stand.tick(-1)
    assert stand.open_run().clamped == 0
    assert (stand.row(job)["wake_at"], clock_set(stand)) == (wake, [])


def test_a_start_leaves_waits_alone_that_were_moved_when_the_clock_was_set(stand: Stand) -> None:
    """K10: the run saw it; the receipt lies in the future still."""
    job = backing_off(stand)
    stand.tick(-HOURS)
    stand.write(ShiftWaits(stand.run, -HOURS_MICROS, stand.now))
    wake = stand.row(job)["wake_at"]
    stand.tick(1)
    assert stand.open_run().clamped == 0
    assert stand.row(job)["wake_at"] == wake


def test_a_wait_moved_forward_by_a_run_comes_back_with_the_clock(stand: Stand) -> None:
    """K10: its receipt lies in the past, before the clock was ahead."""
    job = backing_off(stand)
    length = wait_of(stand, job)
    stand.tick(HOURS)
    stand.write(ShiftWaits(stand.run, HOURS_MICROS, stand.now))
    stand.tick(-HOURS)
    assert stand.open_run().clamped == 1
    assert wait_of(stand, job) == length


def test_the_next_wait_is_counted_from_its_own_receipt(stand: Stand) -> None:
    job = backing_off(stand)
    stand.tick(-HOURS)
    stand.open_run()
    stand.tick(wait_of(stand, job))
    again = stand.look(run=stand.run).claimed
    assert again is not None
    stand.start(again)
    stand.tick(HOURS)
    stand.fail(again)
    length = wait_of(stand, job)
    stand.tick(-HOURS)
    assert stand.open_run().clamped == 1
    assert wait_of(stand, job) == length


def test_a_wait_with_garbage_for_its_beginning_is_left_alone(stand: Stand) -> None:
    """A start must not fail over it."""
    job = backing_off(stand)
    wake = stand.row(job)["wake_at"]

    class Spoil:
        def apply(self, tx: Transaction) -> None:
            tx.run("UPDATE laneway_jobs SET watch_key = 'soon'")

    stand.write(Spoil())
    stand.tick(-HOURS)
    assert stand.open_run().clamped == 0
    assert stand.row(job)["wake_at"] == wake


def test_an_attempt_that_ended_before_it_began_is_read_like_any_other(stand: Stand) -> None:
    claimed = stand.running()
    stand.tick(-HOURS)
    stand.finish(claimed)
    (attempt,) = stand.attempts(claimed.job)
    assert attempt["outcome"] == Outcome.DONE
    assert attempt["finished_at"] == attempt["started_at"] - HOURS_MICROS


# --- rows that wait for room in memory, and rows that are held


def deferred(stand: Stand, seconds: float = 60) -> int:
    claimed = stand.leased()
    stand.finish(claimed, Verdict(Move.DEFER, "ceiling: full", stand.now + int(seconds * MICROS)))
    return claimed.job


@pytest.mark.parametrize("by", [-HOURS, HOURS], ids=["back", "forward"])
def test_a_run_that_sees_the_clock_being_set_looks_for_room_no_later_than_it_would_have(
    stand: Stand, by: int
) -> None:
    """U29, K10."""
    job = deferred(stand)
    stand.tick(20)
    stand.tick(by)
    assert stand.write(ShiftWaits(stand.run, by * MICROS, stand.now)) == 1
    assert wait_of(stand, job) == 40
    stand.tick(40)
    assert stand.claim().job == job


@pytest.mark.parametrize("by", [-HOURS, -20, 0])
def test_a_run_that_begins_looks_for_room_at_once_whatever_the_clock_reads(stand: Stand, by: int) -> None:
    """U29: nobody has looked what is in memory since; that says nothing of the clock."""
    job = deferred(stand)
    stand.tick(by)
    opened = stand.open_run()
    assert (opened.clamped, clock_set(stand)) == (0, [])
    claimed = stand.look(run=opened.run).claimed
    assert claimed is not None
    assert claimed.job == job
    assert stand.row(job)["deferrals"] == 1


def test_what_was_imported_as_deferred_waits_for_no_clock(stand: Stand, tmp_path: Path) -> None:
    """C87, C96: it has no receipt that could tell since when it waits."""
    old = tmp_path / "queue.db"
    with closing(sqlite3.connect(old)) as db, db:
        db.execute("CREATE TABLE jobs (id INTEGER PRIMARY KEY, kind TEXT, state TEXT, payload TEXT)")
        db.execute("INSERT INTO jobs VALUES (1, 'embed', 'deferred', '{}')")
    stand.tick(HOURS)
    since = stand.now
    with opened(old) as queue:
        bring_in(queue, stand.write, lambda: None)
    stand.write(ShiftWaits(stand.run, HOURS_MICROS, since))
    assert wait_of(stand, 1) == 0, "it came in after the clock had been set"
    stand.tick(-HOURS)
    stand.open_run()
    assert stand.look(run=2).claimed is not None


def test_a_start_stretches_no_wait_of_a_job_that_is_held(stand: Stand) -> None:
    """K10, U8: once it is let go it waits as long as it would have, and no longer."""
    job = backing_off(stand)
    length = wait_of(stand, job)
    stand.write(Hold(job))
    assert stand.open_run().clamped == 0, "the clock reads what it should"
    stand.tick(-HOURS)
    assert stand.open_run().clamped == 1
    stand.write(Unhold(job))
    assert wait_of(stand, job) == length


WHAT = st.sampled_from(["fail", "defer", "tick", "set", "set", "start", "start"])
STEPS = st.lists(st.tuples(WHAT, st.sampled_from([-7200, -61, -30, -4, 4, 30, 61, 7200])), max_size=12)


def claimed_of(stand: Stand) -> Claimed:
    """A running job of a kind of its own, whatever waits."""
    stand.enqueue("fragile", priority=-1)
    claimed = stand.look("fragile", run=stand.run).claimed
    assert claimed is not None
    assert stand.start(claimed)
    return claimed


@given(STEPS)
@settings(max_examples=60)
def test_whenever_a_clock_is_set_nothing_waits_longer_than_it_was_told_and_nothing_for_ever(
    steps: list[tuple[str, int]],
) -> None:
    """K10, U29: a run sees it (set), or nobody does and another one begins (start)."""
    with TemporaryDirectory() as folder:
        stand = Stand(Path(folder) / "home").furnish()
        lengths: dict[int, float] = {}
        for what, seconds in steps:
            match what:
                case "fail" | "defer":
                    length = abs(seconds) + 1.0
                    move = Move.BACK_OFF if what == "fail" else Move.DEFER
                    claimed = claimed_of(stand)
                    wait = Verdict(move, "backoff", stand.now + int(length * MICROS))
                    stand.finish(claimed, wait, report=Report(outcome=Outcome.INTERRUPTED))
                    lengths[claimed.job] = length
                case "tick":
                    stand.tick(abs(seconds))
                case "set":
                    stand.tick(seconds)
                    stand.write(ShiftWaits(stand.run, seconds * MICROS, stand.now))
                case "start":
                    stand.tick(seconds)
                    stand.run = stand.open_run().run
            rows = {job: stand.row(job) for job in lengths}
            waits = {
                job: row["wake_at"] - stand.now for job, row in rows.items() if row["wake_at"] is not None
            }
            assert {job for job, wait in waits.items() if wait > lengths[job] * MICROS} == set()
        stand.tick(7202)
        while stand.look("fragile", run=stand.run).claimed is not None:
            pass
        assert {stand.row(job)["state"] for job in lengths} <= {State.LEASED}
