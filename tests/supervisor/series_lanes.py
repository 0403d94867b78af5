"""An application whose children run three jobs each, one after another, well-behaved or not."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, TypedDict

from ipc.dump import DUMP_SIGNAL
from supervisor import App, Context, Job, Landing, Rows
from tests.supervisor.gallery import say

app = App("series")
app.migration(1, "CREATE TABLE items (job INT, n INT, text TEXT, attempt INT)")

Jobs = Job[dict[str, Any]]
Pairs = Iterator[tuple[int, str]]


class Series(TypedDict):
    jobs_per_child: int
    max_attempts: int


IN_SERIES: Final = Series(jobs_per_child=3, max_attempts=1)
kept: list[bytearray] = []


@app.lane("who", **IN_SERIES)
def who(job: Jobs, ctx: Context) -> Pairs:
    """Say which process it is."""
    print(f"job {job.id} begins")
    yield os.getpid(), "who"
    print(f"job {job.id} ends", end="")


app.lane("who_cold", spawn="cold", **IN_SERIES)(who.compute)


@app.lane("dumps", **IN_SERIES)
def dumps(job: Jobs, ctx: Context) -> Pairs:
    """Have its stacks written down, as a supervisor that wonders does."""
    yield os.getpid(), "dumps"
    os.kill(os.getpid(), DUMP_SIGNAL)


@app.lane("hangs", batch_deadline=0.4, grace=0.3, **IN_SERIES)
def hangs(job: Jobs, ctx: Context) -> Pairs:
    yield os.getpid(), "hangs"
    time.sleep(600)


@app.lane("fails", **IN_SERIES)
def fails(job: Jobs, ctx: Context) -> Pairs:
    yield os.getpid(), "fails"
    raise ValueError("on purpose")


@app.lane("leaves", **IN_SERIES)
def leaves(job: Jobs, ctx: Context) -> Pairs:
    """Leave a process behind."""
    yield os.getpid(), str(subprocess.Popen(["sleep", "600"]).pid)


STOP: Final = "import os, signal, sys\nwhile True: os.kill(int(sys.argv[1]), signal.SIGSTOP)"


@app.lane("freezes", **IN_SERIES)
def freezes(job: Jobs, ctx: Context) -> Pairs:
    """Leave a process behind that keeps the guardian from answering."""
    yield os.getpid(), "freezes"
    subprocess.Popen([sys.executable, "-S", "-c", STOP, str(os.getppid())])
    while b"T" not in Path(f"/proc/{os.getppid()}/stat").read_bytes().rpartition(b")")[2]:
        time.sleep(0.001)


@app.lane("holds", grace=0.3, **IN_SERIES)
def holds(job: Jobs, ctx: Context) -> Pairs:
    """Hold so many MiB more, for good."""
    kept.append(bytearray(b"x") * (job.payload["mib"] << 20))
    yield os.getpid(), "holds"
    if "until" in job.payload:
        while not Path(job.payload["until"]).exists():
            time.sleep(0.01)


@app.lane("limited", memory_limit=200 << 20, **IN_SERIES)
def limited(job: Jobs, ctx: Context) -> Pairs:
    yield os.getpid(), "limited"


@app.lane("speaks_later", **IN_SERIES)
def speaks_later(job: Jobs, ctx: Context) -> Pairs:
    """Leave a thread that speaks on the wire once a file is there."""
    go = Path(job.payload["go"])

    def speak() -> None:
        while not go.exists():
            time.sleep(0.01)
        say("started")

    threading.Thread(target=speak, daemon=True).start()
    yield os.getpid(), "speaks later"


@app.read
def slow(db: Any) -> str:
    time.sleep(0.5)
    return "the answer to another"


@app.read
def quick(db: Any) -> str:
    return "its own answer"


@app.lane("asks_and_leaves", **IN_SERIES)
def asks_and_leaves(job: Jobs, ctx: Context) -> Pairs:
    """Ask by hand, and do not wait for the answer."""
    yield os.getpid(), "asks"
    say("read", 1, "slow", {})


@app.lane("asks", **IN_SERIES)
def asks(job: Jobs, ctx: Context) -> Pairs:
    yield os.getpid(), str(ctx.read(quick))


@app.lane("yields", grace=20, **IN_SERIES)
def yields(job: Jobs, ctx: Context) -> Pairs:
    """Go on until it is asked to yield; once it has, end at once."""
    yield os.getpid(), "yields"
    while ctx.resume is None:
        ctx.checkpoint("begun")
        time.sleep(0.01)


def land(db: Landing, job: Jobs, rows: Rows[tuple[int, str]]) -> None:
    db.executemany(f"INSERT INTO items VALUES ({job.id}, ?, ?, {job.attempt})", rows)


for _lane in app.lanes.values():
    _lane.lander(land)
