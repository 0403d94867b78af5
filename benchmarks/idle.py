"""What an idle `supervisor run` costs: CPU and wake-ups of it, its guardians and its warm children.

Once no kind has gates; once a heavy job waits for the owner to be away, so that presence, power and
memory are probed. The owner is a terminal of this process, at which somebody has just typed.
"""

import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

from benchmarks import waits_app
from benchmarks.latency import supervising
from ipc.guardian.meter import descendants
from supervisor import Client

SECONDS = 20
SETTLE = 3.0
"""Seconds in which the last child becomes ready, and the gates are told."""
AIM_CPU, AIM_WAKES = 0.2, 3.0

Costs = dict[Path, tuple[int, int]]
"""By thread: nanoseconds on a CPU, and how often it has gone to sleep."""


def costs(pid: int) -> Costs:
    """Return what each thread of a process, and of all below it, has cost so far."""
    found = {}
    for process in (pid, *descendants(pid)):
        for thread in Path(f"/proc/{process}/task").iterdir():
            status = dict(line.split(":\t", 1) for line in (thread / "status").read_text().splitlines())
            on_cpu = int((thread / "schedstat").read_text().split()[0])
            found[thread] = on_cpu, int(status["voluntary_ctxt_switches"])
    return found


def idle(pid: int, seconds: int) -> tuple[float, float, int]:
    """Return percent of one CPU, wake-ups a second, and the number of processes."""
    before, began = costs(pid), time.monotonic()
    time.sleep(seconds)
    after, took = costs(pid), time.monotonic() - began
    cpu, wakes = (
        sum(cost[n] - before.get(thread, (0, 0))[n] for thread, cost in after.items()) for n in range(2)
    )
    return cpu / 1e9 / took * 100, wakes / took, len({thread.parts[2] for thread in after})


@contextmanager
def somebody_there() -> Iterator[None]:
    """Have a terminal at which somebody has just typed."""
    ours, theirs = os.openpty()
    try:
        os.write(ours, b"\n")
        os.read(theirs, 1)
        yield
    finally:
        os.close(ours)
        os.close(theirs)


def have_one_wait(client: Client) -> None:
    """Enqueue a heavy job, and make sure that it does not start."""
    job = client.enqueue("heavy").id
    time.sleep(SETTLE)
    assert client.job(job)["state"] == "queued"


def run(seconds: int = SECONDS) -> None:
    """Print CPU and wake-ups, without gates and while a job waits for presence.

    Args:
        seconds: how long each is looked at; the owner counts as there for 300.
    """
    for words, gated in (("no gates", False), ("a heavy job waits for presence", True)):
        there = somebody_there() if gated else nullcontext()
        with (
            tempfile.TemporaryDirectory(prefix="laneway-bench-") as folder,
            there,
            supervising(Path(folder) / "home", waits_app.gated if gated else waits_app.app) as (client, pid),
        ):
            if gated:
                have_one_wait(client)
            time.sleep(SETTLE)
            cpu, wakes, processes = idle(pid, seconds)
        print(
            f"idle for {seconds} s, {words}: {cpu:.2f} % of a CPU (aim < {AIM_CPU:g}),"
            f" {wakes:.1f} wake-ups/s (aim < {AIM_WAKES:g}) of {processes} processes"
        )
