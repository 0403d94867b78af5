"""Jobs a second with one process per job, against bare processes started at the same parallelism.

A bare process imports what a child imports, or nothing, and ends; a job is claimed, started, lands a
row, is acknowledged and gets its receipt as well, each in a durable transaction.
"""

import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.measure import Ratio, bench
from supervisor import events

WORKERS = 2
JOBS = 120
ROOT = Path(__file__).parents[1]

EMPTY = "pass"
SAME_IMPORTS = "import worker.start, benchmarks.rows_app"


def jobs_a_second(kind: str) -> float:
    """Return the rate from the first start of work to the last receipt: the warm-up is not counted."""
    with bench(WORKERS) as room:
        for _ in range(JOBS):
            room.enqueue(kind, {})
        room.serve()
        began = next(at for at, event in room.seen if isinstance(event, events.JobStarted))
        ended = max(at for at, event in room.seen if isinstance(event, events.AttemptEnded))
        return JOBS / (ended - began)


def spawns_a_second(code: str) -> float:
    """Return the rate of bare interpreters, as many at a time as a supervisor has children."""

    def spawn(_n: int) -> None:
        subprocess.run(
            [sys.executable, "-P", "-c", code], check=True, cwd=ROOT, env={"PYTHONPATH": str(ROOT)}
        )

    began = time.monotonic()
    with ThreadPoolExecutor(WORKERS + 1) as pool:
        list(pool.map(spawn, range(JOBS)))
    return JOBS / (time.monotonic() - began)


def run() -> None:
    """Measure in turn, A B A B."""
    for name, kind, code, aim in (
        ("cold jobs, against bare processes with the same imports", "small_cold", SAME_IMPORTS, 0.8),
        ("template jobs, against bare processes with the same imports", "small", SAME_IMPORTS, 5.0),
        ("template jobs, against empty bare processes", "small", EMPTY, 5.0),
    ):
        ours, base = [], []
        for _ in range(3):
            base.append(spawns_a_second(code))
            ours.append(jobs_a_second(kind))
        print(Ratio(name, "jobs", ours, base, aim))
