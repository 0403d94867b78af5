"""Skipping from outside: a job that has not begun is not to be done at all (SPEC A34, U24)."""

from dataclasses import dataclass

from landing.errors import JobNotFound, waits_no_more
from landing.ledger import add_event
from landing.sql import control as sql
from landing.transaction import Transaction
from policies.job import State, as_id


@dataclass(frozen=True, slots=True)
class Skipped:
    """The answer to Skip: the row's state."""

    id: int
    state: str


@dataclass(frozen=True, slots=True)
class Skip:
    """Skip a job that waits, for good; one that is skipped already stays as it is."""

    job: int

    def apply(self, tx: Transaction) -> Skipped:
        """Skip it.

        Raises:
            JobNotFound: no such job.
            InvalidTransition: it is in flight, or has ended.
        """
        if (row := tx.one(sql.STATE, (as_id(self.job),))) is None:
            raise JobNotFound(self.job)
        if row["state"] == State.SKIPPED:
            return Skipped(self.job, State.SKIPPED)
        if tx.one(sql.SKIP, {"job": self.job, "now": tx.now}) is None:
            raise waits_no_more(self.job, row["state"], "skipped", "cancel it")
        add_event(tx, self.job, None, "skipped")
        return Skipped(self.job, State.SKIPPED)
