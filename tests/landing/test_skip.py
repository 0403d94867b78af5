"""Skipping what has not begun."""

import pytest

from landing.errors import InvalidTransition, JobNotFound
from landing.skip import Skip, Skipped
from policies.transitions import Move
from policies.verdict import Verdict
from tests.landing.stand import Stand


@pytest.mark.parametrize("move", [None, Move.BACK_OFF, Move.DEFER, Move.RELEASE])
def test_a_job_that_waits_is_skipped_for_good(stand: Stand, move: Move | None) -> None:
    """A34, U1, U24."""
    if move is None:
        job = stand.enqueue()
    else:
        claimed = stand.running()
        job = claimed.job
        stand.finish(claimed, Verdict(move, "why", wake_at=stand.now + 1))
    stand.tick(1)
    assert stand.write(Skip(job)) == Skipped(job, "skipped")
    row = stand.row(job)
    assert (row["state"], row["reason"], row["finished_at"]) == ("skipped", "skipped", stand.now)
    assert (row["wake_at"], row["watch"]) == (None, None)
    assert stand.look().claimed is None
    assert stand.events(job) == ["skipped"]


def test_skipping_again_is_no_error(stand: Stand) -> None:
    """A34."""
    job = stand.enqueue()
    stand.write(Skip(job))
    before = stand.row(job)
    stand.tick(1)
    assert stand.write(Skip(job)).state == "skipped"
    assert stand.row(job) == before
    assert stand.events(job) == ["skipped"]


@pytest.mark.parametrize("state", ["leased", "running", "done", "failed", "failed_optional", "cancelled"])
def test_what_has_begun_or_ended_cannot_be_skipped(stand: Stand, state: str) -> None:
    """A34, U1."""
    moves = {
        "done": Move.COMPLETE,
        "failed": Move.FAIL,
        "failed_optional": Move.FAIL_OPTIONAL,
        "cancelled": Move.CANCEL,
    }
    claimed = stand.leased() if state == "leased" else stand.running()
    if state in moves:
        stand.finish(claimed, Verdict(moves[state], "why"))
    before = stand.row(claimed.job)
    remedy = "cancel it" if state in {"leased", "running"} else "it does not wait any more"
    with pytest.raises(
        InvalidTransition, match=f"^job #{claimed.job} is {state} and cannot be skipped: {remedy}$"
    ):
        stand.write(Skip(claimed.job))
    assert stand.row(claimed.job) == before


@pytest.mark.parametrize("job", [99, 0, 2**63])
def test_a_job_that_nobody_knows_is_not_found(stand: Stand, job: int) -> None:
    """A5."""
    with pytest.raises(JobNotFound, match=f"^no job #{job}$"):
        stand.write(Skip(job))
