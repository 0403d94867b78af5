"""Landing one batch: fence, lander, resume point, counters, lease: one transaction (CONTRACTS K1, K2)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from landing.enqueue import Enqueue
from landing.lease import lease_end
from landing.sql import attempt as sql
from landing.sql import runs as runs_sql
from landing.text import error_text, is_a, type_name
from landing.transaction import CommitLost, Facade, Transaction, lent
from policies.payload import payload_text


class Landed(StrEnum):
    """The normal answers. Stale (the fence is dead or the order is off) is one of them."""

    LANDED = "landed"
    STALE = "stale"


class RowsRefused(Exception):
    """The rows are not what their header says; the worker that sent them is not to be trusted."""


class LanderRaised(Exception):
    """The application's lander raised, or its discard (`half` says which); `cause` is its exception."""

    def __init__(self, cause: BaseException, half: str = "lander") -> None:
        super().__init__(f"the {half} raised {type_name(cause)}")
        self.cause = cause
        self.half = half


@dataclass(frozen=True, slots=True)
class Discard:
    """What removes the rows that earlier attempts of a job landed (CONTRACTS K4).

    `fn(db, job)` is the application's, `view` the job as it sees it. It runs in the
    transaction in which the first row lands after those attempts, or the job ends done without one.
    """

    fn: Callable[[Any, Any], Any]
    view: Any

    def run(self, tx: Transaction) -> None:
        """Let it remove the rows.

        Raises:
            LanderRaised: it raised, or ended the transaction.
            sqlite3.Error: the store had no room or broke meanwhile.
        """
        run_half(tx, "discard", lambda db: self.fn(db, self.view))


@dataclass(frozen=True, slots=True, kw_only=True)
class Land:
    """Land batch `seq` of an attempt of run `run`.

    `rows` decodes the batch's rows (in the lander thread, only when the fence
    held); `land` is the application's `fn(db, job, rows)`; `view` is the job as it sees it.
    `discard`, given until rows of the attempt have been given with it, runs before them. A batch
    without rows has nothing to put in the place of what would go: it leaves a note in the job's row
    that the discard is owed, for its resume point is already that of an attempt that starts over.
    """

    job: int
    run: int
    fence: str
    seq: int
    count: int
    point: Mapping[str, Any]
    done: int | None
    total: int | None
    spent: int
    rows: Callable[[], Any]
    land: Callable[[Any, Any, Any], Any]
    view: Any
    discard: Discard | None = None

    def apply(self, tx: Transaction) -> Landed:
        """Move the job to after this batch, then let the lander write its rows; a stale one is counted.

        Raises:
            RowsRefused: the rows do not decode.
            LanderRaised: lander or discard raised, be it SystemExit, or ended the transaction (CommitLost).
            sqlite3.Error: the store had no room or broke while they wrote.
        """
        if tx.one(sql.LAND, self.moved(tx.now) | dict(self.point)) is None:
            tx.run(runs_sql.COUNT_STALE, {"run": self.run, "batches": 1})
            return Landed.STALE
        if self.count:
            if self.discard is not None:
                tx.run(sql.COUNT_ANEW, (self.job,))
                self.discard.run(tx)
            rows = self.decoded()
            run_half(tx, "lander", lambda db: self.land(db, self.view, rows))
        return Landed.LANDED

    def moved(self, now: int) -> dict[str, Any]:
        """Return the row's new cells, but for its resume point."""
        return {
            "job": self.job,
            "fence": self.fence,
            "seq": self.seq,
            "rows": self.count,
            "afresh": self.discard is not None and self.count > 0,
            "owed": self.discard is not None,
            "done": self.done,
            "total": self.total,
            "spent": self.spent,
            "lease": lease_end(now),
            "now": now,
        }

    def decoded(self) -> Any:
        """Return the rows; the types that the lane builds from them are the application's own code."""
        try:
            return self.rows()
        except RowsRefused:
            raise
        except BaseException as error:
            raise RowsRefused(f"the rows do not decode: {error_text(error)}") from error


def run_half(tx: Transaction, half: str, write: Callable[[Facade], Any]) -> None:
    """Let the application write; what the store itself lacked (room) is raised as such, not as its fault."""
    try:
        with lent(tx, enqueuer(tx)) as db:
            write(db)
        tx.must_be_open()
    except BaseException as error:
        raise (LanderRaised(blamed(tx, error), half) if tx.trouble is None else tx.trouble) from error
    if tx.trouble is not None:
        raise tx.trouble


def blamed(tx: Transaction, error: BaseException) -> BaseException:
    """Return what the lander failed of: having ended the transaction is worse than what it raised after."""
    if tx.db.in_transaction or is_a(error, CommitLost):
        return error
    lost = CommitLost("the transaction was ended by something inside it")
    lost.__cause__ = error
    return lost


def enqueuer(tx: Transaction) -> Callable[[str, Any], int]:
    """Return what `Facade.enqueue` calls: an Enqueue inside this very transaction."""
    return lambda kind, payload: Enqueue(kind=kind, payload=payload_text(payload)).apply(tx).id
