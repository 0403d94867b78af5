"""How large the store gets over 100,000 small jobs of a kind that keeps what is done for an hour.

The jobs go through the real operations on the real lander (enqueue, claim, start, land, finish), and the
supervisor's own upkeep prunes them. There are no children: with a process for each job this would take an
hour. The wall clock is turned by hand, a second a job, so the jobs are 28 hours of a store's life. Their
rows overwrite each other, so that the file holds what laneway itself writes down.
"""

import queue
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

from benchmarks.measure import Bench
from landing.batches import Land
from landing.claim import Claim, Claimed, ClaimReply
from landing.connect import open_reader, store_path
from landing.enqueue import Enqueue
from landing.finish import Finish
from landing.lander import Clocks, Lander
from landing.lease import Start
from landing.ledger import Report
from landing.snapshot import snapshot, store_size
from landing.transaction import Operation
from policies.job import MICROS, Outcome
from policies.priority import in_claim_order
from policies.transitions import Move
from policies.verdict import Verdict
from supervisor import events, sensors
from supervisor.attempt.conversation import World
from supervisor.run.upkeep import KEPT_PAGES, LOOK_SECONDS, Upkeep

JOBS = 100_000
SLOTS = 16
KEEP_SECONDS = 3600
PAGE_BYTES = 4096
JOB_BYTES = 1024
"""More than a small job takes in all its tables and indexes."""
BOUND = (KEEP_SECONDS + int(LOOK_SECONDS) + 2 * SLOTS) * JOB_BYTES + KEPT_PAGES * PAGE_BYTES
START = 1_700_000_000


class Life:
    """Jobs in rounds of SLOTS, the upkeep between them; every answer is taken on this thread."""

    def __init__(self, room: Bench) -> None:
        self.room = room
        self.small = room.application.kinds["small"].lander
        self.seconds = 0
        self.pruned = 0
        self.answers: queue.SimpleQueue[tuple[Any, Any]] = queue.SimpleQueue()
        self.lander = Lander(
            room.settings.home,
            Clocks(self.now, sensors.monotonic),
            lambda then, answer: self.answers.put((then, answer)),
            print,
        )
        world = World(
            run=1, pid=1, slots=SLOTS, monotonic=self.monotonic, now=self.now, fence=sensors.fence,
            report=self.note,
        )  # fmt: skip
        self.upkeep = Upkeep(world, room.application.kinds, self.lander)

    def now(self) -> int:
        """The wall clock, microseconds."""
        return (START + self.seconds) * MICROS

    def monotonic(self) -> float:
        """The same, as the upkeep's other clock."""
        return float(self.seconds)

    def note(self, event: events.Event) -> None:
        """Count what was pruned; anything else is trouble."""
        assert isinstance(event, events.Pruned), event
        self.pruned += event.jobs

    def ask(self, operations: list[Operation[Any]]) -> list[Any]:
        """Submit them at once and return the answers, taking what comes for the upkeep on the way."""
        found: list[Any] = []
        for operation in operations:
            self.lander.submit(operation, found.append)
        while len(found) < len(operations):
            self.take()
        return found

    def take(self) -> None:
        """Wait for one answer and give it to who asked."""
        then, answer = self.answers.get()
        then(answer)

    def round(self) -> None:
        """Bring SLOTS jobs from their enqueue to their receipt."""
        enqueue = [Enqueue(kind="small", payload='{"n": 1}') for _ in range(SLOTS)]
        replies: list[ClaimReply] = self.ask([*enqueue, *(claim() for _ in range(SLOTS))])[SLOTS:]
        self.seconds += SLOTS
        done = [step for reply in replies if reply.claimed for step in steps(reply.claimed, self.small)]
        assert len(done) == 3 * SLOTS
        self.ask(done)
        self.upkeep.turn(self.monotonic())


def claim() -> Claim:
    """Claim the next of the one kind."""
    kinds = frozenset({"small"})
    return Claim(run=1, pid=1, fence=sensors.fence(), ready=kinds, loaded=kinds, order=in_claim_order)


def steps(claimed: Claimed, lander: Any) -> tuple[Start, Land, Finish]:
    """Return what a small job does: it starts, lands one row, and is done."""
    row = (0, "small", 0.5, claimed.job)
    land = Land(
        job=claimed.job, run=1, fence=claimed.fence, seq=1, count=1, done=1, total=1, spent=0,
        point={"mark": None, "skip": 0, "digest": b""}, rows=lambda: [row], land=lander, view=None,
    )  # fmt: skip
    finish = Finish(
        job=claimed.job, attempt=claimed.attempt, number=claimed.number, run=1, fence=claimed.fence,
        last_seq=1, verdict=Verdict(Move.COMPLETE, "done"),
        report=Report(outcome=Outcome.DONE, log="x" * 100), result="[1]",
    )  # fmt: skip
    return Start(claimed.job, claimed.fence), land, finish


def run(jobs: int = JOBS) -> None:
    """Print the largest that the file was, against the bound."""
    with tempfile.TemporaryDirectory(prefix="laneway-bench-") as folder:
        room = Bench(Path(folder))
        room.migrate()
        assert room.application.kinds["small"].options.keep_done == KEEP_SECONDS
        life, sizes, wals = Life(room), [], []
        began = sensors.monotonic()
        with closing(open_reader(store_path(room.settings.home))) as reader:
            for _ in range(jobs // SLOTS):
                life.round()
                sizes.append(reader.execute("PRAGMA page_count").fetchone()[0] * PAGE_BYTES)
                wals.append(store_size(room.settings.home)[1])
            while life.upkeep.busy:
                life.take()
        took = sensors.monotonic() - began
        assert life.lander.close(10)
        with snapshot(room.settings.home) as db:
            left, receipts = (
                db.execute(f"SELECT COUNT(*) FROM laneway_{table}").fetchone()[0]
                for table in ("jobs", "receipts")
            )
        assert left == receipts == jobs // SLOTS * SLOTS - life.pruned
        print(
            f"growth over {jobs:,} small jobs kept for {KEEP_SECONDS:,} s, one a second: the store at most"
            f" {max(sizes) / 1e6:.1f} MB (bound {BOUND / 1e6:.1f} MB), its WAL {max(wals) / 1e6:.1f} MB;"
            f" {life.pruned:,} pruned, {left:,} left, {jobs / took:,.0f} jobs/s"
        )
