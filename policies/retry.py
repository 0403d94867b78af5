"""What an ended attempt means for its job (SPEC U5, U6, U8; CONTRACTS K9)."""

from typing import Final

from policies.job import MICROS, Disposition, Outcome
from policies.options import Options
from policies.transitions import Move
from policies.verdict import Ended, Verdict

LONGEST_WAIT: Final = 365.0 * 86_400
"""Seconds that `Retry(after=)` may ask for; a longer wait is cut to it."""


def judge(ended: Ended, options: Options, failures: int, now: int) -> Verdict:
    """Decide what becomes of a job after an attempt.

    Args:
        ended: the attempt's facts.
        options: the limits of the kind.
        failures: how many earlier attempts counted against the cap.
        now: microseconds UTC.
    """
    match ended.outcome:
        case Outcome.DONE | Outcome.SKIPPED:
            return Verdict(Move.COMPLETE, ended.outcome)
        case Outcome.CANCELLED:
            return Verdict(Move.CANCEL, "cancelled")
        case Outcome.YIELDED:
            return Verdict(Move.RELEASE, "yielded")
        case Outcome.INTERRUPTED:
            return judge_interrupted(ended, options, failures)
        case Outcome.FAILED:
            return judge_failed(ended, options, failures, now)
        case Outcome.DIED | Outcome.TIMED_OUT | Outcome.MEMORY:  # pragma: no branch - there are no others
            if not options.retry_safe and ended.started:
                return Verdict(Move.FAIL, "not_retry_safe", counts=True)
            return retry(ended, options, failures, now)


def judge_interrupted(ended: Ended, options: Options, failures: int) -> Verdict:
    """Give back what a stop interrupted; a dead supervisor counts only for a claim that landed nothing."""
    counts = ended.orphaned and ended.started and not ended.landed
    if ended.started and not options.retry_safe:
        return Verdict(Move.FAIL, "not_retry_safe", counts=counts)
    if counts and failures + 1 >= options.max_attempts:
        return Verdict(Move.FAIL, "attempts_exhausted", counts=True)
    return Verdict(Move.RELEASE, "orphaned" if ended.orphaned else "interrupted", counts=counts)


def judge_failed(ended: Ended, options: Options, failures: int, now: int) -> Verdict:
    """An explicit disposition wins, then `retry_on`; any other exception is terminal."""
    listed = not set(ended.bases).isdisjoint(options.retry_on)
    if ended.disposition is Disposition.RETRY or (ended.disposition is Disposition.UNSTATED and listed):
        return retry(ended, options, failures, now)
    if ended.disposition is Disposition.OPTIONAL:
        return Verdict(Move.FAIL_OPTIONAL, "failed_optional", counts=True)
    return Verdict(Move.FAIL, "failed", counts=True)


def retry(ended: Ended, options: Options, failures: int, now: int) -> Verdict:
    """Try again within the cap, after the wait that was asked for or the backoff."""
    if failures + 1 >= options.max_attempts:
        return Verdict(Move.FAIL, "attempts_exhausted", counts=True)
    wait = wait_asked_for(ended.retry_after)
    if wait is None:
        wait = backoff(options.backoff, options.backoff_max, failures + 1)
    return Verdict(Move.BACK_OFF, "backoff", wake_at=now + int(wait * MICROS), counts=True)


def wait_asked_for(seconds: float | None) -> float | None:
    """Bring `Retry(after=)` between now and a year from now; NaN asks for nothing."""
    if seconds is None or seconds != seconds:  # noqa: PLR0124 - NaN alone differs from itself
        return None
    return min(max(seconds, 0.0), LONGEST_WAIT)


def backoff(base: float, cap: float, failures: int) -> float:
    """Return min(cap, base x 2^min(30, n-1)) seconds for the n-th failure, n >= 1 (SPEC U8)."""
    return float(min(cap, base * 2 ** min(30, failures - 1)))
