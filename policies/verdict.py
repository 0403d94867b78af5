"""What goes into a judgement on an ended attempt, and what comes out; `retry.judge` decides."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from policies.gates.vocabulary import Blocked
from policies.job import Disposition, Head, InFlight, Outcome
from policies.options import Options
from policies.transitions import Move

Asks = Callable[[Head], tuple[Blocked, ...]]
"""Why a queued job may not start now, and with it none of its kind, tier and window; empty where it may."""

Admit = Callable[[Sequence[InFlight], Mapping[str, str]], Asks]
"""From the jobs in flight, and the kinds that are held with the reasons given, to a question about a head."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """The facts about an attempt that is over.

    Attributes:
        outcome: how it ended.
        disposition: what the compute half said, where it said anything.
        bases: the class names of its exception, for `retry_on`.
        retry_after: seconds that `Retry(after=)` asked for; any float, it comes from a child.
        started: the compute half had been entered.
        orphaned: the supervisor that ran it died.
        landed: at least one of its batches was committed.
    """

    outcome: Outcome
    disposition: Disposition = Disposition.UNSTATED
    bases: tuple[str, ...] = ()
    retry_after: float | None = None
    started: bool = True
    orphaned: bool = False
    landed: bool = False


@dataclass(frozen=True, slots=True)
class Verdict:
    """What to do with the row: a move, why, when it may run again, what counts against the cap."""

    move: Move
    reason: str
    wake_at: int | None = None
    counts: bool = False


Judge = Callable[[Ended, Options, int, int], Verdict]
"""`judge(ended, options, failures, now)`, see `policies.retry.judge`."""
