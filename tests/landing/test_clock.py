"""A clock that was set: waits keep their length, leases stay good, and no view breaks (CONTRACTS K10)."""

import json

import pytest

from landing.clock import ShiftWaits
from landing.jobs import LEASE_SECONDS
from policies.job import MICROS, Outcome
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


def test_an_attempt_that_ended_before_it_began_is_read_like_any_other(stand: Stand) -> None:
    claimed = stand.running()
    stand.tick(-HOURS)
    stand.finish(claimed)
    (attempt,) = stand.attempts(claimed.job)
    assert attempt["outcome"] == Outcome.DONE
    assert attempt["finished_at"] == attempt["started_at"] - HOURS_MICROS
