"""How large the WAL gets while 10,000,000 rows land at full rate, and around a reader that will not let go.

Batches of 2,048 rows go to the real lander, as many at a time as a child's credit allows, with no child in
front of it. Then a reader keeps a snapshot for a minute while landing goes on, and lets go.
"""

import queue
import tempfile
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any

from benchmarks.measure import Bench
from benchmarks.rows_app import make_rows
from landing.batches import Land, Landed
from landing.claim import Claim
from landing.connect import open_reader, store_path
from landing.lander import Clocks, Lander
from landing.lease import Start
from landing.snapshot import wal_size
from policies.priority import in_claim_order
from supervisor import sensors

ROWS = 10_000_000
BATCH = 2048
CREDIT = 32
HELD_SECONDS = 60
AIM = 128e6
AFTER = 100
"""Batches that land once the reader has let go, so that the lander has a WAL to fold back."""


class Stream:
    """One job's batches to a real lander. `largest` is the WAL's size before the lander looks at it."""

    def __init__(self, room: Bench) -> None:
        self.path = store_path(room.settings.home)
        self.lane = room.application.kinds["stream"].lander
        self.answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.largest = self.slowest = 0.0
        self.lander = Lander(
            room.settings.home,
            Clocks(sensors.now_micros, sensors.monotonic),
            self.deliver,
            lambda notice: print(f"the lander: {notice.text}"),
        )
        job = room.enqueue("stream", {"first": 0, "count": ROWS})
        kinds = frozenset({"stream"})
        self.fence = sensors.fence()
        self.submit(Claim(run=1, pid=1, fence=self.fence, ready=kinds, loaded=kinds, order=in_claim_order))
        self.view = self.answers.get().claimed
        assert self.view.job == job
        self.submit(Start(job, self.fence))
        assert self.answers.get() is True
        self.numbers = count(1)
        self.under_way = 0

    def deliver(self, _then: Any, answer: Any) -> None:
        """Look at the WAL when a group has landed, in the lander's thread."""
        self.largest = max(self.largest, wal_size(self.path))
        self.answers.put(answer)

    def submit(self, operation: Any) -> None:
        """Hand one operation to the lander."""
        self.lander.submit(operation, print)

    def land(self, seq: int) -> None:
        """Submit one batch; its rows are made in the lander's thread, as they are decoded there."""
        first = (seq - 1) * BATCH
        batch = Land(
            job=self.view.job, run=1, fence=self.fence, seq=seq, count=BATCH, spent=0, done=None, total=None,
            point={"mark": None, "skip": 0, "digest": b""}, land=self.lane, view=self.view,
            rows=lambda: list(make_rows(first, BATCH, 1)),
        )  # fmt: skip
        self.submit(batch)
        self.under_way += 1

    def take(self) -> None:
        """Wait for an answer."""
        began = sensors.monotonic()
        answer = self.answers.get()
        assert answer is Landed.LANDED, answer
        self.slowest = max(self.slowest, sensors.monotonic() - began)
        self.under_way -= 1

    def run(self, batches: int | None = None, seconds: float = float("inf")) -> int:
        """Land so many batches, or for so long; return how many."""
        until, landed = sensors.monotonic() + seconds, 0
        while (batches is None or landed < batches) and sensors.monotonic() < until:
            self.land(next(self.numbers))
            landed += 1
            if self.under_way == CREDIT:
                self.take()
        while self.under_way:
            self.take()
        return landed


def run(held: int = HELD_SECONDS) -> None:
    """Print the largest WAL, then its size while a reader holds a snapshot and after it let go.

    Args:
        held: seconds for which the reader holds it.
    """
    with tempfile.TemporaryDirectory(prefix="laneway-bench-") as folder:
        room = Bench(Path(folder))
        room.migrate()
        stream = Stream(room)
        began = sensors.monotonic()
        rows = BATCH * stream.run(-(-ROWS // BATCH))
        rate = rows / (sensors.monotonic() - began)
        print(
            f"WAL over {rows:,} rows at {rate:,.0f} rows/s: {stream.largest / 1e6:.1f} MB at most"
            f" (aim < {AIM / 1e6:.0f}); the file {stream.path.stat().st_size / 1e6:,.0f} MB"
        )
        with closing(open_reader(stream.path)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT n FROM rows LIMIT 1").fetchall()
            more = BATCH * stream.run(seconds=held)
            pinned = wal_size(stream.path)
        stream.slowest = 0.0
        stream.run(AFTER)
        print(
            f"WAL with a reader that holds a snapshot for {held} s: {pinned / 1e6:,.1f} MB after"
            f" {more:,} more rows; {wal_size(stream.path) / 1e6:.1f} MB when it has let go and"
            f" {BATCH * AFTER:,} more have landed (the longest wait for a batch: {stream.slowest:.1f} s)"
        )
        assert stream.lander.close(30)
