"""The one end of an attempt: receipt, state, result, in one compare-and-set (CONTRACTS K2, SPEC U10)."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from landing.ledger import Report, add_event, add_receipt, cleaned, with_survivors
from landing.sql import attempt as sql
from landing.sql import runs as runs_sql
from landing.transaction import Transaction
from policies.job import ENDED, MICROS, Outcome
from policies.transitions import Move, target
from policies.verdict import Verdict

if TYPE_CHECKING:
    from landing.batches import Discard

WATCHES: Final = {Move.BACK_OFF: "backoff", Move.DEFER: "deferred"}
"""What a row waits for after a move that has it wait."""


class Finished(StrEnum):
    """What a Finish did: it held, the row had been cancelled, or the fence was dead."""

    HELD = "held"
    CANCELLED = "cancelled"
    STALE = "stale"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish:
    """End attempt `number` of `job`, if `fence` is alive and exactly `last_seq` batches have landed.

    `attempt` is None where the row of the attempt is gone: then there is no receipt, but an event.
    `stale` batches of it came after it had been judged. `discard`, given when no rows of this attempt
    have run it, runs if the attempt is done: its result is that there are none. One that was skipped
    had nothing to do, and keeps what is there.
    """

    job: int
    attempt: int | None
    number: int
    run: int
    fence: str
    last_seq: int
    verdict: Verdict
    report: Report
    result: str | None = None
    awake: float = 0.0
    stale: int = 0
    discard: "Discard | None" = None
    events: tuple[tuple[str, Mapping[str, Any]], ...] = ()

    def apply(self, tx: Transaction) -> Finished:
        """Move the row, then append the receipt; a second receipt is ignored (SPEC B25).

        Raises:
            landing.batches.LanderRaised: the discard raised.
        """
        if tx.one(sql.FINISH[self.verdict.move], self.moved(tx.now)) is not None:
            if (discard := self.due()) is not None:
                discard.run(tx)
            self.keep(tx, self.report.outcome)
            if self.result is not None and self.verdict.move is Move.COMPLETE:
                tx.run(sql.SET_RESULT, {"job": self.job, "body": cleaned(self.result)})
            return Finished.HELD
        if tx.one(sql.FINISH_CANCELLED, self.cancelled(tx.now)) is not None:
            self.keep(tx, Outcome.CANCELLED)
            return Finished.CANCELLED
        return Finished.STALE

    def due(self) -> "Discard | None":
        """Return the discard if this end runs it."""
        return self.discard if self.report.outcome is Outcome.DONE else None

    def moved(self, now: int) -> dict[str, Any]:
        """Return the row's new cells."""
        verdict = self.verdict
        retried, ends = verdict.move is Move.BACK_OFF, target(verdict.move) in ENDED
        reason = with_survivors(verdict.reason, self.report.kill) if ends else verdict.reason
        return {
            "job": self.job,
            "fence": self.fence,
            "last_seq": self.last_seq,
            "reason": cleaned(reason),
            "finished_at": now if ends else None,
            "counts": int(verdict.counts),
            "wake_at": verdict.wake_at,
            "watch": WATCHES.get(verdict.move),
            "deferred": verdict.move is Move.DEFER,
            "awake": 0 if retried else int(self.awake * MICROS),
            "waiting_since": now if verdict.reason == Outcome.YIELDED else None,
            "afresh": self.due() is not None,
        }

    def cancelled(self, now: int) -> dict[str, Any]:
        """Return the row's new cells if it was cancelled meanwhile."""
        reason = with_survivors(Outcome.CANCELLED, self.report.kill)
        return {"job": self.job, "number": self.number, "reason": reason, "now": now}

    def keep(self, tx: Transaction, outcome: Outcome) -> None:
        """Append the receipt and the events of this attempt, and count what came of it too late."""
        if self.stale:
            tx.run(runs_sql.COUNT_STALE, {"run": self.run, "batches": self.stale})
        if self.attempt is None:
            add_event(tx, self.job, self.run, "attempt_missing", {"number": self.number})
        else:
            add_receipt(tx, self.job, self.attempt, self.report, outcome)
        for name, detail in self.events:
            add_event(tx, self.job, self.run, name, detail)
