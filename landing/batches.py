"""Landing one batch: fence, lander, resume point, counters, lease: one transaction (CONTRACTS K1, K2)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from landing.jobs import Enqueue, lease_end
from landing.sql import attempt as sql
from landing.text import error_text, is_a, type_name
from landing.transaction import CommitLost, Transaction, lent
from policies.payload import payload_text


class Landed(StrEnum):
    """The normal answers. Stale (the fence is dead or the order is off) is one of them."""

    LANDED = "landed"
    STALE = "stale"


class RowsRefused(Exception):
    """The rows are not what their header says; the worker that sent them is not to be trusted."""


class LanderRaised(Exception):
    """The application's lander raised; `cause` is its exception."""

    def __init__(self, cause: BaseException) -> None:
        super().__init__(f"the lander raised {type_name(cause)}")
        self.cause = cause


@dataclass(frozen=True, slots=True, kw_only=True)
class Land:
    """Land batch `seq` of an attempt.

    `rows` decodes the batch's rows (in the lander thread, only when the fence
    held); `land` is the application's `fn(db, job, rows)`; `view` is the job as it sees it.
    """

    job: int
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

    def apply(self, tx: Transaction) -> Landed:
        """Move the job to after this batch, then let the lander write its rows.

        Raises:
            RowsRefused: the rows do not decode.
            LanderRaised: the lander raised, be it SystemExit, or ended the transaction (CommitLost).
            sqlite3.Error: the store had no room or broke while the lander wrote.
        """
        moved = {
            "job": self.job,
            "fence": self.fence,
            "seq": self.seq,
            "rows": self.count,
            "done": self.done,
            "total": self.total,
            "spent": self.spent,
            "lease": lease_end(tx.now),
        }
        if tx.one(sql.LAND, moved | dict(self.point)) is None:
            return Landed.STALE
        if self.count:
            self.run_lander(tx, self.decoded())
        return Landed.LANDED

    def decoded(self) -> Any:
        """Return the rows; the types that the lane builds from them are the application's own code."""
        try:
            return self.rows()
        except RowsRefused:
            raise
        except BaseException as error:
            raise RowsRefused(f"the rows do not decode: {error_text(error)}") from error

    def run_lander(self, tx: Transaction, rows: Any) -> None:
        """Let the lander write; what the store itself lacked (room) is raised as such, not as its failure."""
        try:
            with lent(tx, enqueuer(tx)) as db:
                self.land(db, self.view, rows)
            tx.must_be_open()
        except BaseException as error:
            raise (LanderRaised(blamed(tx, error)) if tx.trouble is None else tx.trouble) from error
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
