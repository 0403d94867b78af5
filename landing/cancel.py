"""Cancelling from outside: at once where nothing runs, by a mark and a new fence where a child does."""

from dataclasses import dataclass

from landing.errors import InvalidTransition, JobNotFound
from landing.ledger import add_event
from landing.runs import settle_orphans
from landing.sql import attempt as sql
from landing.transaction import Transaction
from policies.job import IN_FLIGHT, State, as_id
from policies.verdict import Judge


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The answer to Cancel: `state` is the row's, or cancelling when a live run must first end its child."""

    id: int
    state: str


@dataclass(frozen=True, slots=True)
class Cancel:
    """Cancel a job (SPEC A32, U17; CONTRACTS K6). `fence` replaces the live one, so late batches are stale.

    `live` says whether a supervisor runs: then an in-flight row is only marked, and the
    supervisor writes state and receipt after the reap. A row that this supervisor does not
    hold, because the row of its attempt is gone or another run's, nobody else would end.
    """

    job: int
    fence: str
    live: bool
    judge: Judge

    def apply(self, tx: Transaction) -> Cancelled:
        """Cancel or mark.

        Raises:
            JobNotFound: no such job.
            InvalidTransition: the job is done or skipped.
        """
        if (row := tx.one(sql.JOB_STATE, (as_id(self.job),))) is None:
            raise JobNotFound(self.job)
        args = {"job": self.job, "fence": self.fence, "now": tx.now}
        state = State(row["state"])
        if state is State.CANCELLED:
            return Cancelled(self.job, state)
        if state in IN_FLIGHT:
            tx.run(sql.CANCEL_IN_FLIGHT, args)
            if row["cancel_requested_at"] is None:
                add_event(tx, self.job, row["run_id"], "cancel_requested")
            return Cancelled(self.job, "cancelling") if self.live and row["held"] else self.settled(tx)
        if tx.one(sql.CANCEL_WAITING, args) is None:
            text = f"job #{self.job} is {state} and cannot be cancelled: it has ended"
            raise InvalidTransition(str(self.job), text)
        return Cancelled(self.job, State.CANCELLED)

    def settled(self, tx: Transaction) -> Cancelled:
        """Nobody is left to end the attempt: write its receipt here."""
        settle_orphans(tx, self.judge, only=self.job)
        return Cancelled(self.job, State.CANCELLED)


@dataclass(frozen=True, slots=True)
class FindCancels:
    """Which of a run's attempts have been cancelled from outside: (job id, attempt number) pairs."""

    run: int

    def apply(self, tx: Transaction) -> frozenset[tuple[int, int]]:
        """Return them."""
        return frozenset((row["id"], row["claims"]) for row in tx.all(sql.CANCELS, {"run": self.run}))
