"""A test stand: a real store in a folder, a clock turned by hand, a real lander thread with its replies."""

import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from landing import views
from landing.batches import Land, Landed
from landing.cancel import Cancel, Cancelled
from landing.claim import Claim, Claimed, ClaimReply, admit_all
from landing.connect import open_reader, store_path
from landing.enqueue import Enqueue, Register
from landing.faults import Reach, unarmed
from landing.finish import Finish, Finished
from landing.lander import Clocks, Lander, Notice
from landing.lease import Start
from landing.ledger import Report
from landing.migrate import MigrateApp
from landing.runs import Opened, OpenRun
from landing.snapshot import snapshot
from landing.store import Store
from landing.transaction import Operation, Transaction
from policies.job import MICROS, Head, Outcome
from policies.options import Options
from policies.priority import in_claim_order
from policies.retry import judge
from policies.transitions import Move
from policies.verdict import Admit, Ended, Verdict

START = 1_700_000_000 * MICROS
PATIENCE = 20.0
KINDS = {
    "embed": Options(),
    "scan": Options(priority=100),
    "fragile": Options(retry_safe=False),
    "once": Options(max_attempts=1),
}
POINT = {"mark": None, "skip": 0, "digest": b""}
DONE = Verdict(Move.COMPLETE, "done")
NOTES = "CREATE TABLE notes (job INTEGER, seq INTEGER, text TEXT)"


def keep_notes(db: Any, view: Any, rows: Any) -> None:
    """A lander: writes each row as it is."""
    db.executemany("INSERT INTO notes VALUES (?, ?, ?)", rows)


def land(claimed: Claimed, seq: int, rows: list[Any], lander: Any = keep_notes, **more: Any) -> Land:
    """Batch `seq` of an attempt."""
    facts: dict[str, Any] = {"point": POINT, "done": None, "total": None, "spent": 0} | more
    return Land(
        job=claimed.job,
        run=1,
        fence=claimed.fence,
        seq=seq,
        count=len(rows),
        rows=lambda: rows,
        land=lander,
        view=claimed,
        **facts,
    )


def finish(claimed: Claimed, verdict: Verdict = DONE, last_seq: int = 0, **more: Any) -> Finish:
    """The end of an attempt; its outcome is `done` unless `report` says more."""
    return Finish(
        job=claimed.job,
        attempt=claimed.attempt,
        number=claimed.number,
        run=1,
        fence=claimed.fence,
        last_seq=last_seq,
        verdict=verdict,
        **({"report": Report(outcome=Outcome.DONE)} | more),
    )


@dataclass(frozen=True)
class Alter:
    """A statement of a test's own."""

    sql: str
    args: tuple[Any, ...] = ()

    def apply(self, tx: Transaction) -> int:
        return tx.run(self.sql, self.args)


class Stand:
    """One home, made where it is missing. Each call is a transaction of `Store.write`, by a hand clock."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.now = START
        self.fences = 0
        self.store = Store(home, lambda: self.now, create_missing=not store_path(home).exists())
        self.run = 1

    def furnish(self) -> "Stand":
        """Bring in the kinds, the table for notes and a first run."""
        self.write(Register("app", KINDS))
        self.write(MigrateApp("app", [NOTES]))
        assert self.open_run().run == self.run
        return self

    def write(self, operation: Operation[Any]) -> Any:
        return self.store.write(operation)

    def tick(self, seconds: float) -> None:
        self.now += int(seconds * MICROS)

    def open_run(self) -> Opened:
        opened: Opened = self.write(OpenRun(pid=7, boot="boot", version="0", marker="m", judge=judge))
        return opened

    def enqueue(self, kind: str = "embed", payload: str = "{}", **more: Any) -> int:
        return int(self.write(Enqueue(kind=kind, payload=payload, **more)).id)

    def fence(self) -> str:
        self.fences += 1
        return f"fence-{self.fences}"

    def look(
        self,
        *ready: str,
        loaded: Any = KINDS,
        run: int | None = None,
        admit: Admit = admit_all,
        order: Callable[[Iterable[Head], int], list[Head]] = in_claim_order,
    ) -> ClaimReply:
        """Claim for the `ready` kinds, all of them where none is named."""
        claim = Claim(
            run=run or self.run,
            pid=7,
            fence=self.fence(),
            ready=frozenset(ready or loaded),
            loaded=frozenset(loaded),
            order=order,
            admit=admit,
        )
        reply: ClaimReply = self.write(claim)
        return reply

    def claim(self, *ready: str) -> Claimed:
        claimed = self.look(*ready).claimed
        assert claimed is not None
        return claimed

    def leased(self, kind: str = "embed") -> Claimed:
        """Enqueue a job and claim it; nothing else of its kind may wait."""
        job = self.enqueue(kind)
        claimed = self.claim(kind)
        assert claimed.job == job
        return claimed

    def running(self, kind: str = "embed") -> Claimed:
        claimed = self.leased(kind)
        assert self.start(claimed)
        return claimed

    def start(self, claimed: Claimed) -> bool:
        return bool(self.write(Start(claimed.job, claimed.fence)))

    def land(self, claimed: Claimed, seq: int, *rows: Any, **more: Any) -> Landed:
        landed: Landed = self.write(land(claimed, seq, list(rows), **more))
        return landed

    def finish(self, claimed: Claimed, verdict: Verdict = DONE, last_seq: int = 0, **more: Any) -> Finished:
        finished: Finished = self.write(finish(claimed, verdict, last_seq, **more))
        return finished

    def fail(
        self, claimed: Claimed, outcome: Outcome = Outcome.DIED, last_seq: int = 0, **facts: Any
    ) -> Finished:
        """End an attempt as the policy judges it."""
        row = self.row(claimed.job)
        ended = Ended(outcome=outcome, **facts)
        verdict = judge(ended, KINDS[claimed.kind], row["failures"], self.now)
        return self.finish(claimed, verdict, last_seq, report=Report(outcome=outcome))

    def cancel(self, job: int, *, live: bool = True) -> Cancelled:
        cancelled: Cancelled = self.write(Cancel(job, self.fence(), live=live, judge=judge))
        return cancelled

    def query(self, sql: str, *args: Any) -> list[tuple[Any, ...]]:
        with closing(open_reader(store_path(self.home))) as db:
            return db.execute(sql, args).fetchall()

    def alter(self, sql: str, *args: Any) -> int:
        """Change rows by hand, as nobody should; return how many."""
        return int(self.write(Alter(sql, args)))

    def row(self, job: int) -> dict[str, Any]:
        with closing(open_reader(store_path(self.home))) as db:
            return views.rows(db, "SELECT * FROM laneway_jobs WHERE id = ?", (job,))[0]

    def attempts(self, job: int) -> list[dict[str, Any]]:
        with snapshot(self.home) as db:
            return views.attempts(db, job)

    def events(self, job: int) -> list[str]:
        with snapshot(self.home) as db:
            return [event["name"] for event in views.events(db, job)]

    def notes(self) -> list[tuple[Any, ...]]:
        return self.query("SELECT * FROM notes ORDER BY job, seq, text")


class Thread:
    """A lander thread over a home; what it answers and notices is waited for."""

    def __init__(
        self, home: Path, clocks: Clocks, deliver: Callable[[Any, Any], object], reach: Reach
    ) -> None:
        self.notices: queue.SimpleQueue[Notice] = queue.SimpleQueue()
        self.lander = Lander(home, clocks, deliver, self.notices.put, reach)

    def post(self, operation: Operation[Any]) -> "queue.SimpleQueue[Any]":
        """Submit an operation and return where its answer will be."""
        reply: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.lander.submit(operation, reply.put)
        return reply

    def ask(self, operation: Operation[Any]) -> Any:
        return self.post(operation).get(timeout=PATIENCE)


@contextmanager
def lander_thread(
    home: Path,
    *,
    deliver: Callable[[Any, Any], object] = lambda then, answer: then(answer),
    monotonic: Callable[[], float] = time.monotonic,
    reach: Reach = unarmed,
) -> Iterator[Thread]:
    """Run a lander over a home. Its wall clock counts transactions: each has a `now` of its own."""
    ticks = count(START)
    thread = Thread(home, Clocks(lambda: next(ticks), monotonic), deliver, reach)
    try:
        yield thread
    finally:
        assert thread.lander.close(PATIENCE)


def wait_for(fact: Callable[[], Any]) -> None:
    """Return when `fact` is true; fail when it does not become so in time."""
    until = time.monotonic() + PATIENCE
    while not fact():
        assert time.monotonic() < until, f"no {fact} within {PATIENCE} s"
        time.sleep(0.005)


def standing() -> float:
    """A monotonic clock that stands, so that a group takes all that waits."""
    return 0.0


class Gate:
    """An operation that holds the lander inside its transaction until it is opened."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.opened = threading.Event()

    def apply(self, tx: Transaction) -> str:
        self.entered.set()
        assert self.opened.wait(PATIENCE)
        return "passed"


@contextmanager
def one_group(thread: Thread) -> Iterator[None]:
    """Let everything that is posted inside wait for one group."""
    gate = Gate()
    thread.post(gate)
    assert gate.entered.wait(PATIENCE)
    yield
    gate.opened.set()
