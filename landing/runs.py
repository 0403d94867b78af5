"""One life of a supervisor, and what its death left behind (CONTRACTS K9, SPEC U3)."""

import json
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from landing.cells import mapping, whole
from landing.clock import clamp_waits
from landing.finish import Finish, Finished
from landing.ledger import Report, add_event
from landing.sql import queue as queue_sql
from landing.sql import runs as sql
from landing.transaction import Transaction
from policies.job import MICROS, Outcome, State
from policies.options import Options, readable_options
from policies.transitions import Move, target
from policies.verdict import Ended, Judge, Verdict


@dataclass(frozen=True, slots=True)
class Opened:
    """A run has begun: its id, the runs that died before it, and what became of each job left in flight.

    `clamped` backoffs begin with it, because the clock was set back while no supervisor ran.
    """

    run: int
    dead: tuple[int, ...]
    settled: Mapping[int, State]
    clamped: int = 0

    @property
    def recovered(self) -> bool:
        """Tell whether there was anything to recover from."""
        return bool(self.dead or self.settled)

    @property
    def orphans(self) -> tuple[int, ...]:
        """Return the ids of the jobs that were left in flight."""
        return tuple(self.settled)

    def now(self, state: State) -> tuple[int, ...]:
        """Return the ids of those that are in `state` now."""
        return tuple(job for job, found in self.settled.items() if found is state)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenRun:
    """Begin a run and settle every in-flight row of ended runs. Only the lock holder may apply it.

    `kinds` are those that it can run, `slots` how many of its jobs at once.

    `leftovers` are the processes of ended runs that were found before it, as the run's event tells them.
    """

    pid: int
    boot: str
    version: str
    marker: str
    judge: Judge
    leftovers: Mapping[str, Sequence[int]] | None = None
    kinds: Sequence[str] = ()
    slots: int | None = None

    def apply(self, tx: Transaction) -> Opened:
        """Return the new run's id and what was recovered, which its first events keep."""
        stamp = {"pid": self.pid, "boot": self.boot, "version": self.version, "marker": self.marker}
        can = {"kinds": json.dumps(sorted(self.kinds)), "slots": self.slots}
        row = tx.one(sql.ADD_RUN, stamp | can | {"now": tx.now})
        assert row is not None
        if self.leftovers is not None:
            add_event(tx, None, row["id"], "leftovers", self.leftovers)
        settled = settle_orphans(tx, self.judge, run=row["id"])
        dead = tx.all(sql.CLOSE_DEAD_RUNS, {"now": tx.now, "run": row["id"]})
        clamped = clamp_waits(tx, row["id"])
        tx.run(queue_sql.QUEUE_LOST)
        tx.run(queue_sql.DOUBT_EXCLUSIVE)
        opened = Opened(row["id"], tuple(sorted(run["id"] for run in dead)), settled, clamped)
        if opened.recovered:
            add_event(tx, None, opened.run, "recovered", told(opened))
        return opened


def told(opened: Opened) -> dict[str, Any]:
    """Return what was recovered as its event keeps it: dead runs, and jobs by the state they are in now."""
    states = dict.fromkeys(opened.settled.values())
    return {"runs": opened.dead} | {state: opened.now(state) for state in states}


def dead_markers(db: sqlite3.Connection) -> frozenset[str]:
    """Return the markers of the runs that have not ended as they should, the newest perhaps still alive."""
    return frozenset(marker for (marker,) in db.execute(sql.DEAD_MARKERS) if isinstance(marker, str))


@dataclass(frozen=True, slots=True)
class CloseRun:
    """End a run cleanly: nothing of it is in flight any more.

    `survived` says that processes of it may be alive: the next start looks for its marker all the same.
    """

    run: int
    survived: bool = False

    def apply(self, tx: Transaction) -> None:
        """Stamp it."""
        tx.run(sql.CLOSE_RUN, {"run": self.run, "now": tx.now, "clean": 3 if self.survived else 1})


@dataclass(frozen=True, slots=True)
class Tell:
    """How a run's gates and models stand, for whoever looks; `facts` are JSON values."""

    run: int
    facts: Mapping[str, Any]

    def apply(self, tx: Transaction) -> None:
        """Write it over what was told before."""
        tx.run(sql.TELL, {"run": self.run, "told": json.dumps(self.facts, separators=(",", ":"))})


@dataclass(frozen=True, slots=True)
class StopAsked:
    """A run was asked to stop, by a signal of this name; `landing.views.stopping_since` tells when."""

    run: int
    signal: str

    def apply(self, tx: Transaction) -> None:
        """Write it down."""
        add_event(tx, None, self.run, "stopping", {"signal": self.signal})


@dataclass(frozen=True, slots=True)
class Held:
    """A run claims no more jobs of these kinds, for the reason `code`; `landing.views.held` tells."""

    run: int
    code: str
    text: str
    kinds: Sequence[str]

    def apply(self, tx: Transaction) -> None:
        """Write it down."""
        detail = {"code": self.code, "text": self.text, "kinds": [*self.kinds]}
        add_event(tx, None, self.run, "held", detail)


def settle_orphans(
    tx: Transaction, judge: Judge, *, run: int | None = None, only: int | None = None
) -> dict[int, State]:
    """Finish the in-flight rows that `run` does not hold (or just job `only`); return their states by id."""
    which = {"run": run, "only": only}
    tx.run(queue_sql.MEND, which | {"fence": "orphan"})
    return {row["job"]: settle(tx, orphan_finish(tx, judge, row)) for row in tx.all(sql.ORPHANS, which)}


def settle(tx: Transaction, finish: Finish) -> State:
    """Finish an orphan; return the state that it is in now."""
    cancelled = finish.apply(tx) is Finished.CANCELLED
    return State.CANCELLED if cancelled else target(finish.verdict.move)


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
        options = readable_options(mapping(text) or {}, options)
    return options
