"""How an attempt can end, and who says so: each way is made by a function of its own."""

import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from ipc.messages import Failed
from landing.batches import LanderRaised, RowsRefused
from policies.deadlines import Clock, Overdue
from policies.job import Disposition, Outcome
from supervisor.api import class_name

TRACEBACK: Final = 16 << 10
WORDS: Final = {Clock.START: "no row", Clock.BATCH: "no batch", Clock.JOB: "not done"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How the attempt ended, and who says so.

    `by_word` endings (done, failed, yielded) are the child's own message and
    hold whatever the process does after it; all others wait for the reap. `hung` says
    that where the child was when it was stopped tells why.
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


def refused(code: str, text: str) -> Ending:
    """End an attempt because its worker broke a rule of the wire; nothing more is read from it."""
    return Ending(outcome=Outcome.FAILED, code=code, error={"type": "", "message": text, "traceback": ""})


def raised(message: Failed) -> Ending:
    """End an attempt as the compute half said, with its exception as bounded text."""
    disposition = Disposition(message.disposition)
    return Ending(
        outcome=Outcome.SKIPPED if disposition is Disposition.SKIP else Outcome.FAILED,
        by_word=True,
        code=message.code or ("retry" if disposition is Disposition.RETRY else "raised"),
        error={"type": message.type, "message": message.message, "traceback": message.traceback},
        disposition=disposition,
        bases=tuple(message.bases),
        retry_after=message.retry_after,
    )


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
        case LanderRaised(cause=cause):
            return Ending(
                outcome=Outcome.FAILED,
                code="lander",
                error={
                    "type": type(cause).__qualname__,
                    "message": f"the lander raised: {text_of(cause)}",
                    "traceback": traceback_of(cause),
                },
                bases=tuple(
                    class_name(base) for base in type(cause).__mro__ if issubclass(base, BaseException)
                ),
            )
        case _:
            return Ending(
                outcome=Outcome.FAILED,
                code="database_error",
                error={"type": type(error).__qualname__, "message": str(error), "traceback": ""},
            )


def text_of(error: BaseException) -> str:
    """Return an exception's text, from its raw args where they are one text: no hook of its class runs."""
    match error.args:
        case (str() as text,):
            return text[:1000]
        case _:
            return type(error).__qualname__


def traceback_of(error: BaseException) -> str:
    """Return the end of a traceback of our own process."""
    return "".join(traceback.format_exception(error))[-TRACEBACK:]
