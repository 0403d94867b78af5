"""A claim at 1,000, 100,000 and 1,000,000 queued jobs: the depth of the queue must cost nothing.

The stores are open side by side and are asked in turn. Each time a job is claimed by the real operation,
asked by the real gates on readings that are all known; then it starts and ends, and another of its kind
takes its place in line, so that the depth stays. A second row does it with 100,000 pending jobs and
1,000 kinds, so with as many groups. What is measured is the claim in its open transaction: the flush that
follows is the same at any depth, and would hide it.
"""

import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack, closing
from pathlib import Path
from statistics import median
from typing import NamedTuple

from benchmarks.queued import fill, kinds_of
from landing.claim import Claim, Claimed
from landing.connect import open_writer, store_path
from landing.enqueue import Enqueue
from landing.finish import Finish
from landing.guard import Writer
from landing.lease import Start
from landing.ledger import Report
from landing.transaction import Transaction, committing
from policies.admission import Admission
from policies.gates.vocabulary import Limits
from policies.job import Outcome
from policies.options import Options
from policies.priority import in_claim_order
from policies.readings import MemoryReading, Power, PowerReading, PresenceReading, Readings
from policies.routing import BUILT_IN
from policies.transitions import Move
from policies.verdict import Verdict
from supervisor import sensors

JOBS = 1_000_000
DEPTHS = (1000, 10)
"""By these the number of jobs is divided for the stores that are less deep."""
PENDING = 100_000
KINDS, MANY_KINDS = 4, 1000
CLAIMS = 200
AIM = 1.5
KNOWN = Readings(
    PresenceReading(idle_s=3600.0, source="bench"),
    PowerReading(Power.MAINS, 100.0, "bench"),
    MemoryReading(available=64 << 30, total=128 << 30, pressure=0.0, source="bench"),
)


class Line(NamedTuple):
    """One store with its line of queued jobs."""

    db: Writer
    kinds: Mapping[str, Options]

    def claim(self) -> float:
        """Claim one job, end it and queue another; return the seconds that the claim took."""
        kinds = frozenset(self.kinds)
        claim = Claim(
            run=1, pid=1, fence=sensors.fence(), ready=kinds, loaded=kinds, order=in_claim_order,
            admit=Admission(kinds=self.kinds, tiers=BUILT_IN, limits=Limits(), readings=KNOWN),
        )  # fmt: skip
        self.db.execute("BEGIN IMMEDIATE")
        with committing(self.db, sensors.now_micros) as tx:
            began = time.monotonic()
            reply = claim.apply(tx)
            took = time.monotonic() - began
            assert reply.claimed is not None
            replace(tx, reply.claimed)
        return took


def replace(tx: Transaction, claimed: Claimed) -> None:
    """Have the job be done, and queue one like it."""
    Start(claimed.job, claimed.fence).apply(tx)
    Finish(
        job=claimed.job, attempt=claimed.attempt, number=claimed.number, run=1, fence=claimed.fence,
        last_seq=0, verdict=Verdict(Move.COMPLETE, "done"), report=Report(outcome=Outcome.DONE),
    ).apply(tx)  # fmt: skip
    Enqueue(kind=claimed.kind, payload=claimed.payload, priority=claimed.priority, tier=claimed.tier).apply(
        tx
    )


def medians(depths: list[int], kinds: Mapping[str, Options], pending: int) -> list[float]:
    """Return the median milliseconds of a claim at each depth."""
    with tempfile.TemporaryDirectory(prefix="laneway-bench-") as folder, ExitStack() as stack:
        lines = []
        for depth in depths:
            home = Path(folder) / str(depth)
            fill(home, kinds, depth, pending)
            lines.append(Line(stack.enter_context(closing(open_writer(store_path(home)))), kinds))
        took = [[line.claim() for line in lines] for _ in range(CLAIMS)]
    return [1000 * median(column) for column in zip(*took, strict=True)]


def run(jobs: int = JOBS) -> None:
    """Print the medians at each depth and the last against the first.

    Args:
        jobs: how many are queued in the deepest store.
    """
    depths = [*(max(1, jobs // by) for by in DEPTHS), jobs]
    for number, pending, words in (
        (KINDS, 0, f"{KINDS} kinds"),
        (MANY_KINDS, PENDING, f"{MANY_KINDS:,} kinds, with {PENDING:,} pending"),
    ):
        found = medians(depths, kinds_of(number), pending)
        print(
            f"claim of {words}, at {' / '.join(f'{depth:,}' for depth in depths)} queued:"
            f" {' / '.join(f'{one:.2f}' for one in found)} ms median of {CLAIMS},"
            f" last : first = {found[-1] / found[0]:.2f} (aim <= {AIM:g})"
        )
