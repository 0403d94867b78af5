"""From an enqueue in one process to the first line of compute in another, while the supervisor is idle.

The supervisor is a real `supervisor run` with a warm child. Each job waits until the one before has ended
and the next child has had time to become ready. Two of the milliseconds' parts are flushes, one of the
enqueue and one of the claim: what the disk takes for them is measured beside it.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median, quantiles
from typing import NamedTuple

from benchmarks import waits_app
from landing.snapshot import snapshot
from supervisor import App, Client

JOBS = 100
WARM_UP = 5
PAUSE = 0.1
"""Seconds in which the next child becomes ready."""
AIM_MS = 3.0


class Waited(NamedTuple):
    """What one job took, in milliseconds: its enqueue, and all until the first line of compute."""

    enqueue: float
    start: float


@contextmanager
def supervising(home: Path, app: App) -> Iterator[tuple[Client, int]]:
    """Run a supervisor of an application of `waits_app`; lend a client and its pid once it has run a job."""
    client = Client(home, app)
    attr = "app" if app is waits_app.app else "gated"
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "supervisor", "run"),
            *("--home", str(home), "--app", f"{waits_app.__file__}:{attr}"),
        ],
        cwd=home.parent,
        stdout=subprocess.DEVNULL,
    )
    try:
        client.wait([client.enqueue("stamp").id], timeout=60)
        yield client, process.pid
    finally:
        process.terminate()
        process.wait()


def enqueue_one(client: Client) -> tuple[int, int, int]:
    """Enqueue a job and wait for its end; return its id, and when the enqueue began and ended, in ns."""
    began = time.monotonic_ns()
    job = client.enqueue("stamp").id
    queued = time.monotonic_ns()
    client.wait([job], timeout=60)
    time.sleep(PAUSE)
    return job, began, queued


def waits(home: Path, jobs: int) -> list[Waited]:
    """Enqueue so many jobs one at a time; return what each took."""
    with supervising(home, waits_app.app) as (client, _pid):
        times = [enqueue_one(client) for _ in range(WARM_UP + jobs)][WARM_UP:]
    with snapshot(home) as db:
        first_lines = dict(db.execute("SELECT job, ns FROM began").fetchall())
    return [Waited((queued - began) / 1e6, (first_lines[job] - began) / 1e6) for job, began, queued in times]


def flush_ms(folder: Path) -> float:
    """Return the median milliseconds of a flush of one written page."""
    took = []
    with (folder / "flushed").open("wb", buffering=0) as file:
        for _ in range(JOBS):
            file.write(bytes(4096))
            began = time.monotonic_ns()
            os.fsync(file.fileno())
            took.append((time.monotonic_ns() - began) / 1e6)
    return median(took)


def run(jobs: int = JOBS) -> None:
    """Print the wait at the median and at the 95th percentile, and what of it the enqueue is.

    Args:
        jobs: how many are enqueued; 2 or more.
    """
    with tempfile.TemporaryDirectory(prefix="laneway-bench-") as folder:
        found = waits(Path(folder) / "home", jobs)
        flush = flush_ms(Path(folder))
    starts = [one.start for one in found]
    print(
        f"enqueue to the first line of compute, {jobs:,} jobs one at a time:"
        f" {median(starts):.1f} ms median (aim {AIM_MS:g}), {quantiles(starts, n=20)[18]:.1f} ms p95,"
        f" {min(starts):.1f} ms at best; of it the enqueue {median(one.enqueue for one in found):.1f} ms;"
        f" a flush of this disk takes {flush:.1f} ms"
    )
