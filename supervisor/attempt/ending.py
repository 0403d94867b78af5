"""How an attempt can end, and who says so: each way is made by a function of its own."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ipc.capture import capture
from ipc.messages import Failed
from landing.batches import LanderRaised, RowsRefused
from policies.deadlines import Clock, Overdue
from policies.job import Disposition, Outcome
from supervisor.told.shield import why_refused

WORDS: Final = {Clock.START: "no row", Clock.BATCH: "no batch", Clock.JOB: "not done"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How the attempt ended, and who says so.

    `by_word` endings (done, failed, yielded) are the child's own message and
    hold whatever the process does after it; all others wait for the reap. `hung` says
    that where the child was when it was stopped tells why; `grace` is how many seconds it had
    before that to end by itself, where its kill has no grace of its own.
    """

    outcome: Outcome
    by_word: bool = False
    code: str | None = None
    error: Mapping[str, Any] | None = None
    disposition: Disposition = Disposition.UNSTATED
    bases: tuple[str, ...] = ()
    retry_after: float | None = None
    result: str | None = None
    hung: bool = False
    overdue: Overdue | None = None
    grace: float = 0.0


def refused(code: str, text: str) -> Ending:
    """End an attempt because its worker broke a rule of the wire; nothing more is read from it."""
    return Ending(outcome=Outcome.FAILED, code=code, error={"type": "", "message": text, "traceback": ""})


def raised(message: Failed, closed: Sequence[str] = ()) -> Ending:
    """End an attempt as the compute half said, with its exception as bounded text.

    `closed` are the names of the folder that a shield closes to it.
    """
    why = why_refused(message.message, message.bases, closed)
    disposition = Disposition(message.disposition)
    return Ending(
        outcome=Outcome.SKIPPED if disposition is Disposition.SKIP else Outcome.FAILED,
        by_word=True,
        code=message.code or ("retry" if disposition is Disposition.RETRY else "raised"),
        error={"type": message.type, "message": f"{message.message}{why}", "traceback": message.traceback},
        disposition=disposition,
        bases=tuple(message.bases),
        retry_after=message.retry_after,
    )


def hung_up() -> Ending:
    """End an attempt whose child closed its channel and lived on until it was stopped."""
    return Ending(
        outcome=Outcome.DIED,
        code="hung_up",
        error={"type": "", "message": "the worker closed its channel and had to be stopped", "traceback": ""},
        hung=True,
    )


def interrupted(grace: float) -> Ending:
    """End an attempt because its run stops, and it has not yielded within so many seconds."""
    return Ending(outcome=Outcome.INTERRUPTED, code="interrupted", hung=True, grace=grace)


def timed_out(overdue: Overdue) -> Ending:
    """End an attempt whose clock ran out."""
    text = f"{WORDS[overdue.clock]} for {overdue.limit:g} s"
    return Ending(
        outcome=Outcome.TIMED_OUT,
        code=overdue.clock,
        error={"type": "", "message": text, "traceback": ""},
        hung=True,
        overdue=overdue,
    )


def landing_failed(error: Exception) -> Ending:
    """End an attempt whose batch could not land: its rows are refused, or the lander raised."""
    match error:
        case RowsRefused():
            return refused("row_type", str(error))
        case LanderRaised(cause=cause, half=half):
            told = capture(cause)
            return Ending(
                outcome=Outcome.FAILED,
                code=half,
                error={
                    "type": told.type,
                    "message": f"the {half} raised: {told.message}",
                    "traceback": told.traceback,
                },
                bases=tuple(told.bases),
            )
        case _:
            return Ending(
                outcome=Outcome.FAILED,
                code="database_error",
                error={"type": type(error).__qualname__, "message": str(error), "traceback": ""},
            )
