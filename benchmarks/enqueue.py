"""How long eight processes wait for each of 1,000 enqueues while two lanes land at full rate.

Every enqueue is the public Client's: it opens the store, commits with synchronous=FULL and rings the
doorbell. Both slots of the supervisor are busy with endless lanes, so the jobs stay queued.
"""

import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from statistics import quantiles

from benchmarks.measure import APP, Bench
from supervisor import Client

PROCESSES = 8
JOBS = 1000
ENDLESS = 10**9
AIM_MS = 300.0


def enqueue_many(home: Path, jobs: int) -> list[float]:
    """Enqueue so many jobs, one after another; return how many seconds each took."""
    client = Client(home)
    took = []
    for n in range(jobs):
        began = time.monotonic()
        client.enqueue("stream", {"first": -n, "count": 1})
        took.append(time.monotonic() - began)
    return took


@contextmanager
def landing_at_full_rate(room: Bench) -> Iterator[list[int]]:
    """Run a supervisor with two endless lanes; lend their ids once both have landed rows."""
    lanes = [room.enqueue("stream", {"first": n * ENDLESS, "count": ENDLESS}) for n in range(2)]
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "supervisor", "run", "--max-workers", "2"),
            *("--home", str(room.settings.home), "--app", APP),
        ],
        cwd=room.settings.folder,
        stdout=subprocess.DEVNULL,
    )
    try:
        while not all(Client(room.settings.home).job(lane)["landed_rows"] for lane in lanes):
            time.sleep(0.01)
        yield lanes
    finally:
        os.kill(process.pid, signal.SIGTERM)
        process.wait()


def run(jobs: int = JOBS) -> None:
    """Print the waits at the median, at the 99th percentile and at worst, and what landed meanwhile.

    Args:
        jobs: how many each process enqueues.
    """
    spawning = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory(prefix="laneway-bench-") as folder, spawning.Pool(PROCESSES) as pool:
        room = Bench(Path(folder), workers=2)
        client = Client(room.settings.home)
        with landing_at_full_rate(room) as lanes:
            before = sum(client.job(lane)["landed_rows"] for lane in lanes)
            began = time.monotonic()
            took = [*chain(*pool.starmap(enqueue_many, [(room.settings.home, jobs)] * PROCESSES))]
            seconds = time.monotonic() - began
            landed = sum(client.job(lane)["landed_rows"] for lane in lanes) - before
        assert client.jobs(limit=1)[0]["id"] == PROCESSES * jobs + len(lanes)
    cuts = quantiles((1000 * one for one in took), n=100)
    print(
        f"enqueue, {PROCESSES} processes x {jobs:,} jobs: {cuts[49]:.0f} ms median, {cuts[98]:.0f} ms p99"
        f" (aim < {AIM_MS:.0f}), {1000 * max(took):.0f} ms at worst; meanwhile"
        f" {landed / seconds:,.0f} rows/s landed for {seconds:.1f} s"
    )
