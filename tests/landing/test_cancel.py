"""Cancel, with and without somebody to end the child."""

import pytest

from landing.batches import Landed
from landing.cancel import FindCancels
from landing.errors import InvalidTransition, JobNotFound
from landing.finish import Finished
from landing.ledger import Report
from policies.job import Outcome
from policies.transitions import Move
from policies.verdict import Verdict
from tests.landing.stand import Stand


@pytest.mark.parametrize("live", [True, False])
@pytest.mark.parametrize("move", [None, Move.BACK_OFF, Move.DEFER, Move.FAIL, Move.FAIL_OPTIONAL])
def test_a_job_that_is_not_in_flight_is_cancelled_at_once(
    stand: Stand, move: Move | None, live: bool
) -> None:
    """A32, U1."""
    if move is None:
        job = stand.enqueue()
    else:
        claimed = stand.running()
        job = claimed.job
        stand.finish(claimed, Verdict(move, "why", wake_at=stand.now + 1))
    stand.tick(1)
    assert stand.cancel(job, live=live).state == "cancelled"
    row = stand.row(job)
    assert (row["state"], row["reason"], row["finished_at"]) == ("cancelled", "cancelled", stand.now)
    assert (row["wake_at"], row["watch"]) == (None, None)
    assert stand.look().claimed is None


def test_cancelling_again_is_no_error(stand: Stand) -> None:
    """A32."""
    job = stand.enqueue()
    stand.cancel(job)
    before = stand.row(job)
    stand.tick(1)
    assert stand.cancel(job).state == "cancelled"
    assert stand.row(job) == before


def test_what_is_done_stays_done(stand: Stand) -> None:
    """A32."""
    claimed = stand.running()
    stand.finish(claimed)
    with pytest.raises(
        InvalidTransition, match=f"^job #{claimed.job} is done and cannot be cancelled: it has ended$"
    ) as refused:
        stand.cancel(claimed.job)
    assert refused.value.code == "invalid_transition"
    assert stand.row(claimed.job)["state"] == "done"


@pytest.mark.parametrize("job", [99, 0, -1, 2**63, 10**30])
def test_a_job_that_nobody_knows_is_not_found(stand: Stand, job: int) -> None:
    """A5."""
    with pytest.raises(JobNotFound, match=f"^no job #{job}$") as refused:
        stand.cancel(job)
    assert (refused.value.code, refused.value.subject) == ("job_not_found", str(job))


@pytest.mark.parametrize("start", [True, False])
def test_with_a_live_run_the_row_is_marked_and_its_fence_is_dead_at_once(stand: Stand, start: bool) -> None:
    """K6, U17."""
    claimed = stand.running() if start else stand.leased()
    assert stand.cancel(claimed.job, live=True).state == "cancelling"
    row = stand.row(claimed.job)
    assert (row["state"], row["cancel_requested_at"]) == ("running" if start else "leased", stand.now)
    assert row["fence"] != claimed.fence
    assert stand.land(claimed, 1, (claimed.job, 1, "a")) is Landed.STALE
    assert stand.notes() == []
    assert stand.attempts(claimed.job)[0]["outcome"] is None


def test_the_run_finds_what_was_cancelled_under_it(stand: Stand) -> None:
    """K6."""
    first, _ = stand.running(), stand.running()
    assert stand.write(FindCancels(stand.run)) == frozenset()
    stand.cancel(first.job)
    assert stand.write(FindCancels(stand.run)) == {(first.job, 1)}
    assert stand.write(FindCancels(stand.run + 1)) == frozenset()


def test_after_the_reap_the_row_gets_its_state_and_its_one_receipt(stand: Stand) -> None:
    """K6, U17: whatever verdict the reaper brings."""
    claimed = stand.running()
    stand.cancel(claimed.job)
    report = Report(outcome=Outcome.TIMED_OUT, kill={"survivors": [5]}, log="bye")
    assert stand.finish(claimed, Verdict(Move.FAIL, "timed_out"), report=report) is Finished.CANCELLED
    row = stand.row(claimed.job)
    assert (row["state"], row["fence"], row["cancel_requested_at"], row["failures"]) == (
        "cancelled",
        None,
        None,
        0,
    )
    assert row["reason"] == "cancelled, survivors: pid 5", "FIELD A7"
    (attempt,) = stand.attempts(claimed.job)
    assert (attempt["outcome"], attempt["kill"], attempt["log"]) == ("cancelled", {"survivors": [5]}, "bye")
    assert stand.finish(claimed) is Finished.STALE
    assert len(stand.attempts(claimed.job)) == 1


def test_a_late_end_of_an_earlier_attempt_does_not_end_a_cancelled_one(stand: Stand) -> None:
    """K6, U9: the child of the attempt that was cancelled is still there."""
    first = stand.running()
    stand.finish(first, Verdict(Move.RELEASE, "yielded"))
    second = stand.claim()
    stand.cancel(second.job)
    assert stand.finish(first) is Finished.STALE
    assert stand.row(second.job)["state"] == "leased"
    assert stand.finish(second, Verdict(Move.RELEASE, "interrupted")) is Finished.CANCELLED


def test_asking_twice_is_noted_once(stand: Stand) -> None:
    claimed = stand.running()
    stand.cancel(claimed.job)
    asked = stand.row(claimed.job)["cancel_requested_at"]
    stand.tick(1)
    assert stand.cancel(claimed.job).state == "cancelling"
    assert stand.row(claimed.job)["cancel_requested_at"] == asked
    assert stand.events(claimed.job) == ["cancel_requested"]


@pytest.mark.parametrize("start", [True, False])
def test_without_a_live_run_cancel_is_immediate_and_alone(stand: Stand, start: bool) -> None:
    """K6, U17."""
    other = stand.running()
    claimed = stand.running() if start else stand.leased()
    assert stand.cancel(claimed.job, live=False).state == "cancelled"
    row = stand.row(claimed.job)
    assert (row["state"], row["fence"], row["cancel_requested_at"], row["failures"]) == (
        "cancelled",
        None,
        None,
        0,
    )
    (attempt,) = stand.attempts(claimed.job)
    assert (attempt["outcome"], attempt["error_code"]) == ("cancelled", "orphaned")
    assert stand.row(other.job)["state"] == "running"
    assert stand.land(claimed, 1, ("x", "y", "z")) is Landed.STALE
