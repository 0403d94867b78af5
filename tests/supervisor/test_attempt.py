"""What one attempt accepts from its child, and when it may end (CONTRACTS K2, K3, K5)."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest
from msgspec import Raw

from ipc.errors import ProtocolError
from ipc.keeper import Crossed
from ipc.messages import UNIT_ROWS, WINDOW_BATCHES, Batch, Failed, ResumePoint
from ipc.oom import Look
from ipc.rows import array_head
from landing.batches import Discard
from landing.claim import Claimed
from landing.ledger import Report
from policies import deadlines
from policies.deadlines import Clock, Overdue
from policies.job import Disposition, Outcome
from policies.options import Options
from policies.transitions import Move
from policies.verdict import Verdict
from supervisor.api import Lane
from supervisor.attempt.death import over_limit
from supervisor.attempt.ending import Ending, raised, refused, timed_out
from supervisor.attempt.receipt import named
from supervisor.attempt.state import Attempt, with_own_limits
from supervisor.attempt.view import JobView, discard_for, point_for

CLAIMED = Claimed(
    job=1, attempt=1, number=1, fence="f", kind="k", payload="{}", key=None, failures=0, landed_seq=5,
    landed_rows=9, discards=False, mark=None, skip=0, digest=b"", awake=0.0, options={},
)  # fmt: skip


class Gone:
    def __init__(self, gone: bool = False) -> None:
        self.gone = gone


def attempt(gone: bool = False, **options: Any) -> Attempt:
    made = Attempt(
        CLAIMED,
        None,  # type: ignore[arg-type]
        Options(**options),
        Gone(gone),  # type: ignore[arg-type]
        deadlines.began(0.0),
        JobView(1, "k", {}, None, 1),
        Look(),
    )
    made.started = True
    return made


def batch(seq: int, count: int = 1, size: int = 10) -> Batch:
    rows = Raw(array_head(count) + b"x" * (size - 1))
    return Batch(seq, count, 1, [], None, ResumePoint(), None, None, 0, rows)


def test_batches_are_taken_in_order_from_the_landed_one_on() -> None:
    """K2: landed_seq is per job and never reset by a claim."""
    one = attempt()
    one.take(batch(6), 1.0)
    one.take(batch(7), 2.0)
    assert one.received_seq == 7
    for wrong in (7, 9):
        with pytest.raises(ProtocolError, match="order"):
            one.take(batch(wrong), 3.0)


def test_a_batch_before_started_is_refused() -> None:
    one = attempt()
    one.started = False
    with pytest.raises(ProtocolError, match="order"):
        one.take(batch(6), 1.0)


def test_more_rows_than_allowed_are_refused_before_they_are_decoded() -> None:
    """K3."""
    with pytest.raises(ProtocolError, match="rows"):
        attempt(batch_rows=4).take(batch(6, count=5), 1.0)
    attempt(batch_rows=4, resume="checkpoint").take(batch(6, count=5), 1.0)
    with pytest.raises(ProtocolError, match=f"{UNIT_ROWS} are allowed"):
        attempt(batch_rows=4, resume="checkpoint").take(batch(6, count=UNIT_ROWS + 1), 1.0)


def test_a_header_that_names_other_rows_than_there_are_is_refused() -> None:
    """K3: none of them would land, and nobody would hear of it."""
    one = attempt()
    wrong = msgspec.structs.replace(batch(6), count=0)
    with pytest.raises(ProtocolError, match="rows"):
        one.take(wrong, 1.0)


def test_more_batches_or_bytes_than_credit_are_refused() -> None:
    """K3: a larger batch may travel alone."""
    one = attempt()
    for seq in range(6, 6 + WINDOW_BATCHES):
        one.take(batch(seq), 1.0)
    with pytest.raises(ProtocolError, match="credit"):
        one.take(batch(6 + WINDOW_BATCHES), 1.0)
    two = attempt()
    two.take(batch(6, size=8 << 20), 1.0)
    with pytest.raises(ProtocolError, match="credit"):
        two.take(batch(7), 1.0)


def test_the_batch_clock_stands_still_without_credit_or_with_a_read_unanswered() -> None:
    """K5."""
    one = attempt(batch_deadline=5.0)
    for seq in range(6, 6 + WINDOW_BATCHES):
        one.take(batch(seq), 1.0)
    assert deadlines.first_due(one.clocks, one.options) is None
    one.answered(6, 50.0)
    due = deadlines.first_due(one.clocks, one.options)
    assert due is not None
    assert due.at == 55.0
    one.reads = 1
    one.tick_credit(51.0)
    assert deadlines.first_due(one.clocks, one.options) is None


def test_the_first_ending_wins_but_a_refused_batch_overrides_done() -> None:
    one = attempt()
    one.end(Ending(outcome=Outcome.DONE, by_word=True))
    one.end(Ending(outcome=Outcome.DIED))
    assert one.ending is not None
    assert one.ending.outcome is Outcome.DONE
    one.override(refused("row_type", "bad"))
    assert one.ending.outcome is Outcome.FAILED
    one.override(Ending(outcome=Outcome.CANCELLED))
    one.override(refused("row_type", "late"))
    assert one.ending.outcome is Outcome.CANCELLED


def test_done_may_be_written_at_once_and_everything_else_waits_for_its_landings() -> None:
    """K2: Failed and end-of-file finish on the last whole batch received."""
    done, failed, died = attempt(), attempt(), attempt(gone=True)
    for one in (done, failed, died):
        one.take(batch(6), 1.0)
        assert not one.may_finish()
    done.end(Ending(outcome=Outcome.DONE, by_word=True))
    failed.end(Ending(outcome=Outcome.FAILED, by_word=True))
    died.end(Ending(outcome=Outcome.DIED))
    assert [one.may_finish() for one in (done, failed, died)] == [True, False, False]
    for one in (failed, died):
        one.answered(6, 2.0)
        assert one.may_finish()
    died.worker.gone = False  # type: ignore[misc]
    assert not died.may_finish()


def test_an_attempt_finishes_once() -> None:
    one = attempt()
    one.end(Ending(outcome=Outcome.DONE, by_word=True))
    one.finish_sent = one.ending
    assert not one.may_finish()
    one.override(refused("row_type", "bad"))
    assert not one.may_finish(), "the answer to the first receipt is still out"
    one.finish_sent, one.settled = None, True
    assert not one.may_finish()


def test_what_an_exception_said_becomes_the_ending() -> None:
    """U6, K15: Skip is done with a skipped attempt."""
    failed = Failed(6, "unstated", "", "ValueError", "no", bases=["ValueError", "Exception"])
    assert raised(failed).outcome is Outcome.FAILED
    assert raised(failed).code == "raised"
    assert raised(failed).bases == ("ValueError", "Exception")
    skipped = raised(replace_message(failed, disposition="skip"))
    assert skipped.outcome is Outcome.SKIPPED
    again = raised(replace_message(failed, disposition="retry"))
    assert again.disposition is Disposition.RETRY


def replace_message(message: Failed, **changes: Any) -> Failed:
    import msgspec

    return msgspec.structs.replace(message, **changes)


def test_a_failure_that_was_declared_optional_is_told_in_its_own_words() -> None:
    """A31, U6."""
    ending = raised(Failed(6, "optional", "", "Fail", "no such page"))
    assert (ending.outcome, ending.disposition) == (Outcome.FAILED, Disposition.OPTIONAL)
    verdict = named(
        Verdict(Move.FAIL_OPTIONAL, "failed_optional"), Report(outcome=Outcome.FAILED, error=ending.error)
    )
    assert verdict == Verdict(Move.FAIL_OPTIONAL, "Fail: no such page")


def test_what_was_judged_is_not_listened_to_any_more() -> None:
    """K2, U9: by its own word or not; a batch that is read after it changes nothing."""
    for ending in (timed_out(Overdue(Clock.JOB, 1.0, 0.0)), Ending(outcome=Outcome.DONE, by_word=True)):
        one = attempt()
        assert one.listening
        one.end(ending)
        assert not one.listening


def forget(db: Any, job: Any) -> None:
    """A lane's discard."""


@pytest.mark.parametrize(
    ("resume", "asked", "landed", "has", "runs"),
    [
        ("replay", False, 9, True, False),
        ("replay", True, 9, True, True),
        ("checkpoint", True, 9, True, True),
        ("restart", False, 9, True, True),
        ("restart", False, 0, True, False),
        ("restart", True, 9, True, True),
        ("restart", False, 9, False, False),
        ("restart", True, 9, False, False),
    ],
)
def test_what_earlier_attempts_landed_goes_when_an_attempt_starts_over(
    resume: str, asked: bool, landed: int, has: bool, runs: bool
) -> None:
    """K4: at every attempt of a `restart` lane, or when a retry asked for it."""
    lane: Lane[Any, Any] = Lane("k", lambda *_: None, {}, forget=forget if has else None)
    claimed, view = replace(CLAIMED, discards=asked, landed_rows=landed), JobView(1, "k", {}, None, 1)
    assert discard_for(claimed, resume, lane, view) == (Discard(forget, view) if runs else None)


def test_rows_that_must_go_never_stay_because_the_lane_lost_its_discard() -> None:
    """K4."""
    lane: Lane[Any, Any] = Lane("k", lambda *_: None, {})
    view = JobView(1, "k", {}, None, 1)
    discard = discard_for(replace(CLAIMED, discards=True), "replay", lane, view)
    assert discard is not None
    with pytest.raises(LookupError, match="lane 'k' has no discard any more"):
        discard.fn(None, view)


def test_a_clock_that_ran_out_says_for_how_long_nothing_came() -> None:
    ending = timed_out(Overdue(Clock.BATCH, 120.0, 0.0))
    assert ending.error is not None
    assert ending.error["message"] == "no batch for 120 s"


def test_a_tree_of_too_many_is_told_so_whatever_the_rough_figure_of_its_memory_is() -> None:
    """FIELD J5: shared pages are counted for each process in it."""
    both = Options(memory_limit=500_000_000, process_limit=64)
    many, large = Crossed(600_000_000, 65), Crossed(512_000_000, 64)
    ending = over_limit(many, both)
    assert (ending.outcome, ending.code) == (Outcome.DIED, "process_limit")
    ending = over_limit(large, both)
    assert (ending.outcome, ending.code) == (Outcome.MEMORY, "memory_limit")
    assert ending.error is not None
    assert ending.error["message"] == "memory limit 500 MB crossed at 512 MB in 64 processes"


def test_a_jobs_own_limits_win_over_its_kinds() -> None:
    options = Options(batch_deadline=5.0, grace=1.0)
    assert with_own_limits(options, {}) is options
    assert with_own_limits(options, {"batch_deadline": 9.0}) == replace(options, batch_deadline=9.0)
    assert with_own_limits(options, {"batch_deadline": "soon", "nonsense": 1}) is options
    later = {"batch_deadline": 9.0, "nonsense": 1}
    assert with_own_limits(options, later) == replace(options, batch_deadline=9.0)


def test_a_restart_lane_gets_no_resume_point() -> None:
    """K4."""
    assert point_for("restart", ("m", 3, b"d")) == (None, 0, b"")
    assert point_for("replay", ("m", 3, b"d")) == ("m", 3, b"d")
