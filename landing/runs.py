"""One life of a supervisor, and what its death left behind (CONTRACTS K9, SPEC U3)."""

import sqlite3
from contextlib import suppress
from dataclasses import dataclass

from landing.cells import mapping, whole
from landing.finish import Finish
from landing.ledger import Report
from landing.sql import queue as queue_sql
from landing.sql import runs as sql
from landing.transaction import Transaction
from policies.job import MICROS, Outcome, State
from policies.options import Options, options_from
from policies.transitions import Move
from policies.verdict import Ended, Judge, Verdict


@dataclass(frozen=True, slots=True)
class Opened:
    """A run has begun: its id, and the ids of jobs that the last run left in flight."""

    run: int
    recovered: bool
    orphans: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenRun:
    """Begin a run and settle every in-flight row of ended runs. Only the lock holder may apply it."""

    pid: int
    boot: str
    version: str
    marker: str
    judge: Judge

    def apply(self, tx: Transaction) -> Opened:
        """Return the new run's id and what was recovered."""
        stamp = {"pid": self.pid, "boot": self.boot, "version": self.version, "marker": self.marker}
        row = tx.one(sql.ADD_RUN, stamp | {"now": tx.now})
        assert row is not None
        orphans = settle_orphans(tx, self.judge, run=row["id"])
        tx.run(sql.CLOSE_DEAD_RUNS, {"now": tx.now, "run": row["id"]})
        return Opened(row["id"], bool(row["recovered"]), orphans)


@dataclass(frozen=True, slots=True)
class CloseRun:
    """End a run cleanly: nothing of it is in flight any more."""

    run: int

    def apply(self, tx: Transaction) -> None:
        """Stamp it."""
        tx.run(sql.CLOSE_RUN, {"run": self.run, "now": tx.now})


def settle_orphans(
    tx: Transaction, judge: Judge, *, run: int | None = None, only: int | None = None
) -> tuple[int, ...]:
    """Finish the in-flight rows that `run` does not hold (or just job `only`); return their ids."""
    which = {"run": run, "only": only}
    tx.run(queue_sql.MEND, which | {"fence": "orphan"})
    orphans = tx.all(sql.ORPHANS, which)
    for row in orphans:
        orphan_finish(tx, judge, row).apply(tx)
    return tuple(row["job"] for row in orphans)


def orphan_finish(tx: Transaction, judge: Judge, row: sqlite3.Row) -> Finish:
    """Say how an orphan ends: no backoff, and a failure only if it had started and landed nothing."""
    started = row["state"] == State.RUNNING
    ended = Ended(
        outcome=Outcome.INTERRUPTED,
        started=started,
        orphaned=True,
        landed=row["landed_seq"] > whole(row["landed_before"], row["landed_seq"]),
    )
    verdict = judge(ended, kind_options(tx, row), row["failures"], tx.now)
    text = f"orphaned by unclean exit of run #{whole(row['run_id'], 0) or '?'}"
    return Finish(
        job=row["job"],
        attempt=row["attempt"],
        number=row["number"],
        run=whole(row["run_id"], 0),
        fence=row["fence"],
        last_seq=row["landed_seq"],
        verdict=Verdict(verdict.move, text, counts=verdict.counts) if verdict.move is Move.FAIL else verdict,
        report=Report(
            outcome=Outcome.INTERRUPTED,
            error_code="orphaned",
            error={"type": "", "message": text, "traceback": ""},
        ),
        awake=row["awake"] / MICROS,
    )


def kind_options(tx: Transaction, row: sqlite3.Row) -> Options:
    """Return the limits a job had: its own over its kind's; unreadable ones count as none."""
    declared = tx.one(queue_sql.KIND, (row["kind"],))
    options = Options()
    for text in (declared["options"] if declared else None, row["options"]):
        with suppress(ValueError, TypeError):
            options = options_from(mapping(text) or {}, options)
    return options
