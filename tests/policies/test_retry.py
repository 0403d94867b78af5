"""What an ended attempt means for its job."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.job import MICROS, Disposition, Outcome
from policies.options import Options
from policies.retry import LONGEST_WAIT, backoff, judge
from policies.transitions import Move, allows
from policies.verdict import Ended, Verdict

NOW = 1_700_000_000_000_000
LANE = Options()
UNSAFE = Options(retry_safe=False)
LISTED = Options(retry_on=("OSError",))
ATTEMPTS_LEFT, LAST = 0, LANE.max_attempts - 1


def verdict(outcome: str, options: Options = LANE, failures: int = ATTEMPTS_LEFT, **facts: Any) -> Verdict:
    return judge(Ended(outcome=Outcome(outcome), **facts), options, failures, NOW)


def waited(verdict: Verdict) -> float:
    """Seconds from now to when the row may run again."""
    assert verdict.move is Move.BACK_OFF
    assert verdict.wake_at is not None
    return (verdict.wake_at - NOW) / MICROS


@pytest.mark.parametrize("outcome", ["done", "skipped"])
def test_done_and_skip_complete_the_job(outcome: str) -> None:
    """K15, U24."""
    assert verdict(outcome) == Verdict(Move.COMPLETE, outcome)


def test_a_cancelled_attempt_cancels_and_counts_nothing() -> None:
    """U5."""
    assert verdict("cancelled") == Verdict(Move.CANCEL, "cancelled")


def test_a_yield_gives_the_row_back_and_counts_nothing() -> None:
    """U5."""
    assert verdict("yielded", failures=99) == Verdict(Move.RELEASE, "yielded")


@pytest.mark.parametrize("outcome", ["died", "timed_out", "memory"])
def test_a_lost_child_is_retried_within_the_cap(outcome: str) -> None:
    """U6."""
    assert verdict(outcome) == Verdict(Move.BACK_OFF, "backoff", wake_at=NOW + 5 * MICROS, counts=True)
    assert verdict(outcome, failures=LAST) == Verdict(Move.FAIL, "attempts_exhausted", counts=True)


@pytest.mark.parametrize("outcome", ["died", "timed_out", "memory"])
def test_a_lost_child_of_an_unsafe_kind_fails_unless_it_never_started(outcome: str) -> None:
    """U6."""
    assert verdict(outcome, UNSAFE) == Verdict(Move.FAIL, "not_retry_safe", counts=True)
    assert verdict(outcome, UNSAFE, started=False).move is Move.BACK_OFF


def test_an_exception_is_terminal_unless_it_is_listed() -> None:
    """U6."""
    assert verdict("failed", bases=("ValueError",)) == Verdict(Move.FAIL, "failed", counts=True)
    assert verdict("failed", LISTED, bases=("ValueError", "Exception")).move is Move.FAIL
    assert verdict("failed", LISTED, bases=("FileNotFoundError", "OSError")).move is Move.BACK_OFF
    assert verdict("failed", LISTED, LAST, bases=("OSError",)).reason == "attempts_exhausted"


def test_what_the_half_says_wins_over_the_list() -> None:
    """U6."""
    everything = Options(retry_on=("Exception",))
    assert verdict("failed", disposition=Disposition.RETRY, bases=("ValueError",)).move is Move.BACK_OFF
    fail = verdict("failed", everything, disposition=Disposition.FAIL, bases=("Fail", "Exception"))
    assert fail == Verdict(Move.FAIL, "failed", counts=True)


def test_an_optional_failure_ends_as_one_whatever_is_left() -> None:
    """A31, U1, U6."""
    optional = verdict("failed", LISTED, disposition=Disposition.OPTIONAL, bases=("Fail", "OSError"))
    assert optional == Verdict(Move.FAIL_OPTIONAL, "failed_optional", counts=True)


def test_retry_waits_as_long_as_it_asked_for() -> None:
    """U6."""
    ask = {"disposition": Disposition.RETRY}
    assert waited(verdict("failed", retry_after=90.5, **ask)) == 90.5
    assert waited(verdict("failed", retry_after=0.0, **ask)) == 0
    assert waited(verdict("failed", retry_after=None, **ask)) == 5


@given(st.floats())
def test_no_wait_that_a_child_asks_for_breaks_the_row(seconds: float) -> None:
    """U6."""
    wait = waited(verdict("failed", disposition=Disposition.RETRY, retry_after=seconds))
    assert wait == 5 if math.isnan(seconds) else 0 <= wait <= LONGEST_WAIT


def test_a_clean_stop_gives_the_row_back_without_a_failure() -> None:
    """K9, U5."""
    assert verdict("interrupted", failures=LAST) == Verdict(Move.RELEASE, "interrupted")
    assert verdict("interrupted", UNSAFE, started=False) == Verdict(Move.RELEASE, "interrupted")
    assert verdict("interrupted", UNSAFE) == Verdict(Move.FAIL, "not_retry_safe")


@pytest.mark.parametrize(
    ("started", "landed", "counts"),
    [(True, False, True), (True, True, False), (False, False, False)],
)
def test_an_orphan_counts_only_if_it_started_and_landed_nothing(
    started: bool, landed: bool, counts: bool
) -> None:
    """K9, U5."""
    orphan = {"orphaned": True, "started": started, "landed": landed}
    assert verdict("interrupted", **orphan) == Verdict(Move.RELEASE, "orphaned", counts=counts)
    assert verdict("interrupted", failures=LAST, **orphan).move is (Move.FAIL if counts else Move.RELEASE)


def test_an_orphan_gets_no_backoff_and_an_unsafe_one_is_not_run_again() -> None:
    """K9, U6."""
    assert verdict("interrupted", orphaned=True).wake_at is None
    assert verdict("interrupted", UNSAFE, orphaned=True) == Verdict(Move.FAIL, "not_retry_safe", counts=True)
    assert verdict("interrupted", UNSAFE, orphaned=True, landed=True).counts is False


@given(
    st.builds(
        Ended,
        outcome=st.sampled_from(Outcome),
        disposition=st.sampled_from(Disposition),
        bases=st.sampled_from([(), ("OSError",), ("ValueError",)]),
        retry_after=st.none() | st.floats(),
        started=st.booleans(),
        orphaned=st.booleans(),
        landed=st.booleans(),
    ),
    st.builds(
        Options, retry_safe=st.booleans(), max_attempts=st.integers(1, 3), retry_on=st.just(("OSError",))
    ),
    st.integers(0, 5),
)
def test_every_verdict_leads_out_of_flight_and_only_a_backoff_has_a_time(
    ended: Ended, options: Options, failures: int
) -> None:
    """U1, U5: nothing that counts is repeated past the cap."""
    given = judge(ended, options, failures, NOW)
    assert allows(given.move, "running")
    assert (given.wake_at is not None) == (given.move is Move.BACK_OFF)
    if given.counts and failures + 1 >= options.max_attempts:
        assert given.move in {Move.FAIL, Move.FAIL_OPTIONAL}


def test_the_backoff_doubles_to_its_cap() -> None:
    """U8."""
    waits = [backoff(5, 3600, n) for n in range(1, 13)]
    assert waits == [5, 10, 20, 40, 80, 160, 320, 640, 1280, 2560, 3600, 3600]


def test_the_exponent_stops_at_thirty() -> None:
    """U8."""
    assert backoff(1, 1e12, 31) == backoff(1, 1e12, 10_000) == 2**30
    assert backoff(0, 3600, 5) == 0
    assert backoff(10, 3, 1) == 3
