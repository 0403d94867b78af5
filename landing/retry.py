"""Retrying from outside: a job that failed or was cancelled goes on where it was, or starts over.

    failed, failed_optional, cancelled --retry--> queued       (SPEC A33, U5; CONTRACTS K4)

To start over, the rows that have landed must go or be allowed to stay: they go in the transaction
in which the next attempt lands first, and until then stay where they are.
"""

import sqlite3
from dataclasses import dataclass

from landing.cells import whole
from landing.errors import InvalidTransition, JobNotFound, StoreError
from landing.ledger import add_event
from landing.runs import kind_options
from landing.sql import control as sql
from landing.transaction import Transaction
from policies.job import Resume, State, as_id


class DiscardMissing(StoreError):
    """To start over would land rows twice: nobody can remove the ones that are there."""

    code = "discard_missing"


class KeepRowsRefused(StoreError, ValueError):
    """Rows can only be kept from being discarded, and nothing would discard them, or the lane always does."""

    code = "keep_rows"


@dataclass(frozen=True, slots=True)
class Retried:
    """The answer to Retry: the row's state."""

    id: int
    state: str


@dataclass(frozen=True, slots=True)
class Retry:
    """Queue a job again, with all of its attempts before it.

    It goes on after what has landed. With `from_start` it starts over, and what has landed is
    discarded, unless `keep_rows` says that it may stay.
    """

    job: int
    from_start: bool = False
    keep_rows: bool = False

    def apply(self, tx: Transaction) -> Retried:
        """Queue it, at once and at its old place in line.

        Raises:
            JobNotFound: no such job.
            InvalidTransition: it has not ended, or is done or skipped.
            DiscardMissing: it has landed rows, and its kind has no discard to remove them.
            KeepRowsRefused: `keep_rows` without `from_start`, or in a lane that replaces its rows anyway.
        """
        if (row := tx.one(sql.RETRIED, (as_id(self.job),))) is None:
            raise JobNotFound(self.job)
        if tx.one(sql.RETRY, {"job": self.job}) is None:
            raise InvalidTransition(str(self.job), f"job #{self.job} is {row['state']} and cannot be retried")
        tx.run(sql.FORGET_RESULT, (self.job,))
        if self.from_start:
            tx.run(sql.START_OVER, {"job": self.job, "discards": self.discards(tx, row)})
        elif self.keep_rows:
            text = f"job #{self.job} goes on after its rows, which stay anyway; keep rows only from the start"
            raise KeepRowsRefused(str(self.job), text)
        add_event(tx, self.job, None, "retried", {"from_start": self.from_start, "keep_rows": self.keep_rows})
        return Retried(self.job, State.QUEUED)

    def discards(self, tx: Transaction, row: sqlite3.Row) -> bool:
        """Tell whether what has landed goes; raises as `apply` does."""
        kind, has_discard = row["kind"], row["discards"] == 1
        restarts = kind_options(tx, row).resume == Resume.RESTART
        landed = whole(row["landed_rows"], 1)
        if self.keep_rows and restarts and has_discard:
            text = (
                f"job #{self.job}: each attempt of lane {kind!r} replaces what those before it landed"
                ' (resume="restart" with a discard), so its rows cannot be kept; leave out --keep-rows'
            )
            raise KeepRowsRefused(str(self.job), text)
        if landed and not (self.keep_rows or restarts or has_discard):
            text = (
                f"job #{self.job} has landed {landed} rows, and lane {kind!r} has no discard to remove"
                " them; give the lane one (@lane.discard) and run it once, or keep them with --keep-rows"
            )
            raise DiscardMissing(str(self.job), text)
        return landed > 0 and has_discard and not self.keep_rows
