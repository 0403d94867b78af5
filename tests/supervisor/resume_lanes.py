"""An application whose children die at random places, for tests of the three ways to resume."""

import os
import random
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

from msgspec import Raw

from ipc.messages import UNIT_ROWS, Batch, ResumePoint
from supervisor import App, Context, Fail, Job, Landing, Rows, Skip

app = App("resume")
app.migration(1, "CREATE TABLE items (job INT, n INT, text TEXT, attempt INT)")

Jobs = Job[dict[str, Any]]
Pairs = Iterator[tuple[int, str]]


def land(db: Landing, job: Jobs, rows: Rows[tuple[int, str]]) -> None:
    db.executemany(f"INSERT INTO items VALUES ({job.id}, ?, ?, {job.attempt})", rows)


def forget(db: Landing, job: Jobs) -> None:
    if job.payload.get("discard") == "raises":
        raise RuntimeError("cannot forget")
    db.execute("DELETE FROM items WHERE job = ?", (job.id,))


def doomed(job: Jobs) -> None:
    """Let this process die at a random moment, whatever it does then, in all but the last attempt."""
    if job.attempt <= job.payload["kills"]:
        after = random.Random(f"{job.payload['seed']}.{job.attempt}").uniform(0.0, 0.15)
        threading.Timer(after, os.kill, (os.getpid(), signal.SIGKILL)).start()


def paced(start: int, rows: int) -> Pairs:
    for n in range(start, rows):
        if n % 10 == 0:
            time.sleep(0.002)
        yield n, f"row {n}"


@app.lane("replay", batch_rows=7, backoff=0.01, max_attempts=20)
def replay(job: Jobs, ctx: Context) -> Pairs:
    doomed(job)
    for n, text in paced(0 if ctx.resume is None else int(ctx.resume) + 1, job.payload["rows"]):
        yield n, text
        if n % 60 == 59:
            ctx.checkpoint(str(n))


@app.lane("checkpoint", resume="checkpoint", batch_rows=7, backoff=0.01, max_attempts=20)
def checkpoint(job: Jobs, ctx: Context) -> Pairs:
    """Units of 1 to 40 rows, other ones in each attempt; the last has no checkpoint."""
    doomed(job)
    dice = random.Random(f"{job.payload['seed']}.units.{job.attempt}")
    left = dice.randint(1, 40)
    for n, text in paced(0 if ctx.resume is None else int(ctx.resume) + 1, job.payload["rows"]):
        yield n, text
        if not (left := left - 1):
            ctx.checkpoint(str(n))
            left = dice.randint(1, 40)


@app.lane("restart", resume="restart", batch_rows=7, backoff=0.01, max_attempts=20)
def restart(job: Jobs, ctx: Context) -> Pairs:
    doomed(job)
    assert ctx.resume is None
    yield from paced(0, job.payload["rows"])


restart.discard(forget)


@app.lane("flighty", resume="restart", backoff=0.01, batch_rows=1)
def flighty(job: Jobs, ctx: Context) -> Pairs:
    """Lands something, dies, and finds nothing to land the second time (or `again` rows)."""
    if job.attempt == 1:
        yield from ((n, "old") for n in range(5))
        ctx.checkpoint("landed by now")
        os.kill(os.getpid(), signal.SIGKILL)
    yield from ((n, "new") for n in range(job.payload.get("again", 0)))


flighty.discard(forget)


@app.lane("hesitant", resume="restart", backoff=0.01, batch_rows=1, max_attempts=3)
def hesitant(job: Jobs, ctx: Context) -> Pairs:
    """Lands something and dies; says only how far it is, and dies; then does as `then` says."""
    if job.attempt == 1:
        yield from ((n, "old") for n in range(5))
        ctx.checkpoint("landed by now")
        os.kill(os.getpid(), signal.SIGKILL)
    ctx.checkpoint("has read its input")
    if job.attempt == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    match job.payload["then"]:
        case "skip":
            raise Skip("the source has not changed")
        case "fail":
            raise Fail("cannot fit it")
        case "wait":
            while True:
                time.sleep(0.01)
                ctx.checkpoint("is fitting")
    yield from ((n, "new") for n in range(job.payload["then"]))


hesitant.discard(forget)


@app.lane("half_way", batch_rows=3)
def half_way(job: Jobs, ctx: Context) -> Pairs:
    """Gives up at its fifth row, and goes on the next time."""
    for n in range(10):
        if n == 5 and job.attempt == 1:
            raise Fail("half-way")
        yield n, "x"


half_way.discard(forget)


@app.lane("keeper", batch_rows=3)
def keeper(job: Jobs, ctx: Context) -> Pairs:
    """As `half_way`, but nobody can remove what it landed."""
    yield from half_way.compute(job, ctx) or ()


@app.lane("fickle", backoff=0.01, batch_rows=4)
def fickle(job: Jobs, ctx: Context) -> Pairs:
    """Yields other rows, or fewer, in its second attempt."""
    rows = 8 if job.attempt == 1 or job.payload["how"] == "other" else 3
    for n in range(rows):
        yield n, f"{job.payload['how'] if job.attempt > 1 else 'first'} {n}"
    if job.attempt == 1:
        time.sleep(0.1)
        os.kill(os.getpid(), signal.SIGKILL)


@app.lane("vast", resume="checkpoint")
def vast(job: Jobs, ctx: Context) -> Iterator[tuple[int]]:
    yield (0,)
    ctx.checkpoint("first")
    if job.payload.get("forged"):
        forged = Batch(2, UNIT_ROWS + 1, 1, [], None, ResumePoint(), None, None, 0, Raw(b"\x90"))
        ctx._line.send(forged)  # type: ignore[attr-defined]
        time.sleep(3600)
    for n in range(UNIT_ROWS + 1):
        yield (n,)


@vast.lander
def land_vast(db: Landing, job: Jobs, rows: Rows[tuple[int]]) -> None:
    db.executemany(f"INSERT INTO items VALUES ({job.id}, ?, 'vast', {job.attempt})", rows)


@app.lane("optional", batch_rows=2)
def optional(job: Jobs, ctx: Context) -> Pairs:
    yield 0, "before"
    ctx.spend(7)
    raise Fail("no such page", optional=True)


@app.lane("late", grace=0.4, max_attempts=1, batch_rows=4)
def late(job: Jobs, ctx: Context) -> Pairs:
    """Deaf to SIGTERM, it goes on sending after its time, having been stopped in between or not."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    yield 0, "in time"
    if job.payload.get("stops"):
        os.kill(os.getpid(), signal.SIGSTOP)
    for n in range(1, 1000):
        yield n, "late"
        time.sleep(0.01)


for _lane in app.lanes.values():
    if _lane.land is None:
        _lane.lander(land)
