"""A job that failed or was cancelled goes on where it was, or starts over."""

import pytest

from landing.claim import Claimed
from landing.enqueue import Register
from landing.errors import InvalidTransition, JobNotFound, StoreError
from landing.ledger import Report
from landing.retry import DiscardMissing, KeepRowsRefused, Retried, Retry
from landing.skip import Skip
from policies.job import MICROS, Outcome
from policies.options import Options
from policies.transitions import Move
from policies.verdict import Verdict
from tests.landing.stand import KINDS, START, Stand

POINT = {"mark": "half", "skip": 3, "digest": b"\x01"}
ENDS = [Move.FAIL, Move.FAIL_OPTIONAL, Move.CANCEL]
EVENTS = "SELECT name, detail FROM laneway_events WHERE job_id = ?"
WAITS = "it waits already (--from-start has it start over)"
REMEDIES = {
    **dict.fromkeys(("queued", "pending", "deferred"), WAITS),
    **dict.fromkeys(("leased", "running"), "cancel it first"),
    **dict.fromkeys(("done", "skipped"), "it is over, enqueue it anew"),
}
OVER = {"from_start": True, "keep_rows": False}


def retry(stand: Stand, job: int, **how: bool) -> Retried:
    retried: Retried = stand.write(Retry(job, **how))
    return retried


def ended(stand: Stand, move: Move = Move.FAIL, kind: str = "embed", rows: int = 2) -> Claimed:
    """A job that has landed some rows, half-way to its end, and then ended."""
    claimed = stand.running(kind)
    stand.land(claimed, 1, *[(claimed.job, n, "x") for n in range(rows)], point=POINT, done=2, total=9)
    verdict = Verdict(move, "why", counts=True)
    stand.finish(claimed, verdict, 1, report=Report(outcome=Outcome.FAILED), awake=7.5)
    return claimed


def with_discard(stand: Stand, *kinds: str, **options: str) -> None:
    """Let these kinds of the stand have a discard."""
    declared = KINDS | {kind: Options(**options) for kind in kinds}  # type: ignore[arg-type]
    stand.write(Register("app", declared, frozenset(kinds)))


@pytest.mark.parametrize("move", ENDS)
def test_a_job_that_did_not_get_done_goes_on_where_it_was(stand: Stand, move: Move) -> None:
    """A33, U1, U5, U16, K4, K5."""
    claimed = ended(stand, move)
    stand.tick(60)
    assert retry(stand, claimed.job) == Retried(claimed.job, "queued")
    row = stand.row(claimed.job)
    assert (row["state"], row["reason"], row["finished_at"]) == ("queued", None, None)
    assert (row["failures"], row["claims"], row["awake"], row["waiting_since"]) == (0, 1, 0, START)
    assert (row["wake_at"], row["watch"], row["watch_key"], row["discards"]) == (None, None, None, 0)
    again = stand.claim()
    assert (again.job, again.number, again.failures, again.awake) == (claimed.job, 2, 0, 0.0)
    assert (again.landed_seq, again.mark, again.skip, again.digest) == (1, "half", 3, b"\x01")
    assert stand.query("SELECT name, detail FROM laneway_events WHERE job_id = ?", claimed.job) == [
        ("retried", '{"from_start": false, "keep_rows": false}')
    ]


def test_a_retry_has_as_many_attempts_as_a_new_job(stand: Stand) -> None:
    """A28, A33, U5: the cap is the attempts so far and max_attempts more."""
    claimed = stand.running()
    for _ in range(3):
        stand.fail(claimed)
        stand.tick(3600)
        if (reply := stand.look()).claimed is not None:
            claimed = reply.claimed
            stand.start(claimed)
    assert stand.row(claimed.job)["state"] == "failed"
    retry(stand, claimed.job)
    for number in (4, 5, 6):
        again = stand.claim()
        assert again.number == number
        stand.start(again)
        stand.fail(again)
        stand.tick(3600)
    assert (stand.row(claimed.job)["state"], stand.row(claimed.job)["failures"]) == ("failed", 3)
    assert stand.look().claimed is None


def test_a_result_that_was_there_is_forgotten(stand: Stand) -> None:
    """A33."""
    claimed = ended(stand)

    class Keep:
        def apply(self, tx: object) -> None:
            tx.run("INSERT INTO laneway_results VALUES (?, '1')", (claimed.job,))  # type: ignore[attr-defined]

    stand.write(Keep())
    retry(stand, claimed.job)
    assert stand.query("SELECT * FROM laneway_results") == []


@pytest.mark.parametrize("state", ["queued", "leased", "running", "pending", "deferred", "done", "skipped"])
def test_only_what_failed_or_was_cancelled_can_be_retried(stand: Stand, state: str) -> None:
    """A33, U1."""
    moves = {"pending": Move.BACK_OFF, "deferred": Move.DEFER, "done": Move.COMPLETE}
    if state == "queued":
        job = stand.enqueue()
    elif state == "leased":
        job = stand.leased().job
    else:
        job = (claimed := stand.running()).job
        if state in moves:
            stand.finish(claimed, Verdict(moves[state], "why", wake_at=stand.now + MICROS))
    if state == "skipped":
        job = stand.enqueue()
        stand.write(Skip(job))
    before = stand.row(job)
    with pytest.raises(InvalidTransition) as refused:
        retry(stand, job)
    assert str(refused.value) == f"job #{job} is {state} and cannot be retried: {REMEDIES[state]}"
    assert refused.value.code == "invalid_transition"
    assert stand.row(job) == before


@pytest.mark.parametrize("state", ["leased", "running"])
def test_an_attempt_under_way_does_not_start_over_and_a_dead_supervisors_is_told_as_that(
    stand: Stand, state: str
) -> None:
    """A33, K9: its resume point was given to it already."""
    job = stand.leased().job if state == "leased" else stand.running().job
    before = stand.row(job)
    for live, remedy in ((True, "cancel it first"), (False, "its supervisor died; run first, which gives")):
        with pytest.raises(InvalidTransition, match=f"{state} and cannot be retried: {remedy}"):
            retry(stand, job, from_start=True, live=live)
    assert stand.row(job) == before


@pytest.mark.parametrize("state", ["queued", "pending", "deferred"])
def test_a_job_that_waits_can_be_told_to_start_over(stand: Stand, state: str) -> None:
    """K4: its place, its state and its failures stay, only what the next attempt does changes."""
    with_discard(stand, "embed")
    move = {"queued": Move.RELEASE, "pending": Move.BACK_OFF, "deferred": Move.DEFER}[state]
    claimed = stand.running()
    stand.land(claimed, 1, (claimed.job, 0, "x"), point=POINT)
    stand.finish(claimed, Verdict(move, "why", wake_at=stand.now + MICROS, counts=True), 1, awake=7.5)
    before = stand.row(claimed.job)
    assert retry(stand, claimed.job, from_start=True) == Retried(claimed.job, state, waited=True)
    changed = {"mark": None, "skip": 0, "digest": b"", "done": None, "total": None, "discards": 1}
    assert stand.row(claimed.job) == {**before, **changed, "awake": 0}
    assert [name for name, _ in stand.query(EVENTS, claimed.job)] == ["started_over"]
    stand.tick(2)
    again = stand.claim()
    assert (again.job, again.discards, again.mark, again.skip) == (claimed.job, True, None, 0)


def test_a_job_that_waits_is_not_made_to_land_rows_twice(stand: Stand) -> None:
    """K4: the same rules as for one that has ended."""
    claimed = stand.running()
    stand.land(claimed, 1, (claimed.job, 0, "x"), point=POINT)
    stand.finish(claimed, Verdict(Move.RELEASE, "why"), 1)
    before = stand.row(claimed.job)
    with pytest.raises(DiscardMissing):
        retry(stand, claimed.job, from_start=True)
    assert stand.row(claimed.job) == before


@pytest.mark.parametrize("job", [99, 0, -1, 2**63])
def test_a_job_that_nobody_knows_is_not_found(stand: Stand, job: int) -> None:
    """A5."""
    with pytest.raises(JobNotFound, match=f"^no job #{job}$"):
        retry(stand, job)


def test_from_the_start_all_that_a_resume_needs_is_gone_but_the_sequence(stand: Stand) -> None:
    """K2, K4: the rows stay until the next attempt lands."""
    with_discard(stand, "embed")
    claimed = ended(stand)
    retry(stand, claimed.job, from_start=True)
    row = stand.row(claimed.job)
    assert (row["mark"], row["skip"], row["digest"], row["done"], row["total"]) == (None, 0, b"", None, None)
    assert (row["landed_seq"], row["landed_rows"], row["discards"]) == (1, 2, 1)
    assert len(stand.notes()) == 2
    assert stand.claim().discards
    assert stand.query("SELECT name, detail FROM laneway_events WHERE job_id = ?", claimed.job) == [
        ("retried", '{"from_start": true, "keep_rows": false, "discards": true}')
    ]


def test_rows_that_nobody_can_remove_are_not_landed_twice(stand: Stand) -> None:
    """K4: `--from-start` needs a discard or `--keep-rows`."""
    claimed = ended(stand)
    before = stand.row(claimed.job)
    with pytest.raises(
        DiscardMissing, match=r"has rows that landed \(2\), and lane 'embed' has no discard"
    ) as refused:
        retry(stand, claimed.job, from_start=True)
    assert refused.value.code == "discard_missing"
    assert "then start laneway run once (an idle one will do), or pass --app; or keep" in str(refused.value)
    assert "\n" not in str(refused.value)
    assert stand.row(claimed.job) == before
    assert stand.events(claimed.job) == []
    retry(stand, claimed.job, from_start=True, keep_rows=True)
    row = stand.row(claimed.job)
    assert (row["state"], row["mark"], row["discards"], row["landed_rows"]) == ("queued", None, 0, 2)


def test_what_landed_nothing_starts_over_as_it_likes(stand: Stand) -> None:
    """K4."""
    claimed = ended(stand, rows=0)
    retry(stand, claimed.job, from_start=True)
    assert (stand.row(claimed.job)["mark"], stand.row(claimed.job)["discards"]) == (None, 0)


def test_a_restart_lane_needs_no_discard(stand: Stand) -> None:
    """K4: without one its lander may land a row again."""
    stand.write(Register("app", KINDS | {"embed": Options(resume="restart")}))
    claimed = ended(stand)
    retry(stand, claimed.job, from_start=True)
    assert stand.row(claimed.job)["discards"] == 0


def test_rows_that_are_to_be_kept_after_all_are_kept(stand: Stand) -> None:
    """K4: the last retry says."""
    with_discard(stand, "embed")
    claimed = ended(stand)
    retry(stand, claimed.job, from_start=True)
    stand.cancel(claimed.job)
    retry(stand, claimed.job)
    assert stand.row(claimed.job)["discards"] == 1, "it still starts over"
    stand.cancel(claimed.job)
    retry(stand, claimed.job, from_start=True, keep_rows=True)
    assert stand.row(claimed.job)["discards"] == 0


def test_keeping_rows_means_something_only_where_they_would_go(stand: Stand) -> None:
    """K4."""
    claimed = ended(stand)
    with pytest.raises(KeepRowsRefused, match="only from the start") as refused:
        retry(stand, claimed.job, keep_rows=True)
    assert isinstance(refused.value, StoreError)
    assert isinstance(refused.value, ValueError)
    assert refused.value.code == "keep_rows"
    with_discard(stand, "embed", resume="restart")
    with pytest.raises(KeepRowsRefused, match="lane 'embed' replaces what those before it landed"):
        retry(stand, claimed.job, from_start=True, keep_rows=True)
    assert stand.row(claimed.job)["state"] == "failed"


def test_a_kind_that_gained_or_lost_its_discard_is_written_down_anew(stand: Stand) -> None:
    """K4, K7: retry asks the store, without the application."""
    asked = "SELECT discards FROM laneway_kinds WHERE kind = 'embed'"
    with_discard(stand, "embed")
    assert stand.query(asked) == [(1,)]
    stand.write(Register("app", KINDS))
    assert stand.query(asked) == [(0,)]


def test_a_retried_job_keeps_its_history(stand: Stand) -> None:
    """A30, A35, U10."""
    claimed = ended(stand)
    retry(stand, claimed.job)
    again = stand.claim()
    stand.start(again)
    stand.finish(again, last_seq=1)
    assert [(one["number"], one["outcome"]) for one in stand.attempts(claimed.job)] == [
        (1, "failed"),
        (2, "done"),
    ]
