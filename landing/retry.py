"""Retrying from outside: a job that failed or was cancelled goes on where it was, or starts over.

    failed, failed_optional, cancelled --retry--> queued       (SPEC A33, U5; CONTRACTS K4)

To start over, the rows that have landed must go or be allowed to stay: they go in the transaction
in which the next attempt lands its first rows, and until then stay where they are. A job that waits
can still be told to start over: its state stays, only its plan changes.
"""

import sqlite3
from dataclasses import dataclass

from landing.cells import whole
from landing.errors import InvalidTransition, JobNotFound, StoreError
from landing.ledger import add_event
from landing.runs import kind_options
from landing.sql import control as sql
from landing.transaction import Transaction
from policies.job import IN_FLIGHT, WAITING, Resume, State, as_id


class DiscardMissing(StoreError):
    """To start over would land rows twice: nobody can remove the ones that are there."""

    code = "discard_missing"


class KeepRowsRefused(StoreError, ValueError):
    """Rows can only be kept from being discarded, and nothing would discard them, or the lane always does."""

    code = "keep_rows"


@dataclass(frozen=True, slots=True)
class Retried:
    """The answer to Retry: the row's state. `waited` says that it waited before, and starts over now."""

    id: int
    state: str
    waited: bool = False


@dataclass(frozen=True, slots=True)
class Retry:
    """Queue a job again, with all of its attempts before it.

    It goes on after what has landed. With `from_start` it starts over, and what has landed is
    discarded, unless `keep_rows` says that it may stay. `live` says whether a supervisor runs.
    """

    job: int
    from_start: bool = False
    keep_rows: bool = False
    live: bool = True

    def apply(self, tx: Transaction) -> Retried:
        """Queue it, at once and at its old place in line.

        Raises:
            JobNotFound: no such job.
            InvalidTransition: it is in flight, done or skipped; or it waits, and is not to start over.
            DiscardMissing: it has landed rows, and its kind has no discard to remove them.
            KeepRowsRefused: `keep_rows` without `from_start`, or in a lane that replaces its rows anyway.
        """
        if (row := tx.one(sql.RETRIED, (as_id(self.job),))) is None:
            raise JobNotFound(self.job)
        waits = row["state"] in WAITING
        if not (waits and self.from_start) and tx.one(sql.RETRY, {"job": self.job}) is None:
            raise InvalidTransition(str(self.job), self.refusal(row["state"]))
        tx.run(sql.FORGET_RESULT, (self.job,))
        told = {"from_start": self.from_start, "keep_rows": self.keep_rows}
        if self.from_start:
            told["discards"] = self.discards(tx, row)
            tx.run(sql.START_OVER, {"job": self.job, "discards": told["discards"]})
        elif self.keep_rows:
            text = f"job #{self.job} goes on after its rows, which stay anyway; keep rows only from the start"
            raise KeepRowsRefused(str(self.job), text)
        add_event(tx, self.job, None, "started_over" if waits else "retried", told)
        return Retried(self.job, row["state"] if waits else State.QUEUED, waits)

    def refusal(self, state: str) -> str:
        """Say why a job in this state cannot be retried, and what can be done."""
        if state in WAITING:
            remedy = "it waits already (--from-start has it start over)"
        elif state not in IN_FLIGHT:
            remedy = "it is over, enqueue it anew"
        elif self.live:
            remedy = "cancel it first"
        else:
            remedy = "its supervisor died; run first, which gives it back, or cancel it"
        return f"job #{self.job} is {state} and cannot be retried: {remedy}"

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
                f"job #{self.job} has rows that landed ({landed:,}), and lane {kind!r} has no discard to"
                " remove them; give the lane one (@lane.discard), then start laneway run once (an idle one"
                " will do), or pass --app; or keep the rows with --keep-rows"
            )
            raise DiscardMissing(str(self.job), text)
        return landed != 0 and has_discard and not self.keep_rows
