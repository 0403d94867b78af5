"""The clocks of one attempt (CONTRACTS K5). Seconds on a monotonic clock, always passed in.

`start_deadline` runs from sending `Run` to the first row or checkpoint, `batch_deadline`
from then on and anew with each whole batch; where there is no `start_deadline`, it bounds
the time to the first row as well, or a child that hangs at once would never be missed. It
runs only while the child can work: it has credit and no read of its is unanswered.
`job_deadline` bounds the awake time of all attempts since the last retry. 0 switches a clock off.
"""

from dataclasses import dataclass, replace
from enum import StrEnum

from policies.options import Options


class Clock(StrEnum):
    """Which clock ran out."""

    START = "start_deadline"
    BATCH = "batch_deadline"
    JOB = "job_deadline"


@dataclass(frozen=True, slots=True)
class Overdue:
    """A limit of `limit` seconds that was reached at `at`."""

    clock: Clock
    limit: float
    at: float


@dataclass(frozen=True, slots=True)
class Clocks:
    """Where an attempt's clocks stand.

    Attributes:
        began: when `Run` was sent, later moved by every gap in which the machine slept.
        spent: awake seconds of earlier attempts that count toward `job_deadline`.
        progressed: the first whole batch has been received.
        working: seconds the child could work since its last batch, up to `since`.
        since: when the working clock was last started; None while it is stopped.
    """

    began: float
    spent: float = 0.0
    progressed: bool = False
    working: float = 0.0
    since: float | None = None


def began(now: float, spent: float = 0.0) -> Clocks:
    """Start the clocks at the moment `Run` is sent."""
    return Clocks(began=now, spent=spent, since=now)


def received(clocks: Clocks, now: float) -> Clocks:
    """A whole batch or a replay report came: the batch clock starts anew, running or stopped as it was."""
    since = None if clocks.since is None else now
    return Clocks(clocks.began, clocks.spent, progressed=True, since=since)


def stopped(clocks: Clocks, now: float) -> Clocks:
    """The child cannot work (no credit, or a read of its is unanswered)."""
    if clocks.since is None:
        return clocks
    return replace(clocks, working=clocks.working + now - clocks.since, since=None)


def resumed(clocks: Clocks, now: float) -> Clocks:
    """The child can work again."""
    return clocks if clocks.since is not None else replace(clocks, since=now)


def slept(clocks: Clocks, gap: float) -> Clocks:
    """Take `gap` seconds in which nobody ran off all clocks."""
    since = None if clocks.since is None else clocks.since + gap
    return replace(clocks, began=clocks.began + gap, since=since)


def awake(clocks: Clocks, now: float) -> float:
    """Return the seconds that count toward `job_deadline` so far."""
    return clocks.spent + now - clocks.began


def first_due(clocks: Clocks, limits: Options) -> Overdue | None:
    """Return the limit that is reached first if nothing more is heard, or None when none runs."""
    due = []
    if limits.start_deadline and not clocks.progressed:
        due.append(Overdue(Clock.START, limits.start_deadline, clocks.began + limits.start_deadline))
    counts = clocks.progressed or not limits.start_deadline
    if limits.batch_deadline and counts and clocks.since is not None:
        at = clocks.since + limits.batch_deadline - clocks.working
        due.append(Overdue(Clock.BATCH, limits.batch_deadline, at))
    if limits.job_deadline:
        at = clocks.began + limits.job_deadline - clocks.spent
        due.append(Overdue(Clock.JOB, limits.job_deadline, at))
    return min(due, key=lambda one: one.at, default=None)


def overdue(clocks: Clocks, limits: Options, now: float) -> Overdue | None:
    """Return the limit that has been reached by `now`, or None."""
    due = first_due(clocks, limits)
    return due if due is not None and due.at <= now else None
