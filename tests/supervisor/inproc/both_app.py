"""Lanes for both modes, and handlers that behave, misbehave and hang. A test reaches into this module."""

import os
import threading
import time
from pathlib import Path
from typing import Any

import msgspec

from supervisor import App, Client, Context, Fail, Job, Landing, Retry, Rows, Skip

app = App("both")
app.migration(1, "CREATE TABLE items (job INT, n INT, text TEXT)")

back = threading.Event()
"""Set by a test once it has been told that a thread came back."""
running: set[int] = set()
met: list[int] = []


class Item(msgspec.Struct):
    n: int
    text: str


def numbers(job: Job[dict[str, Any]], ctx: Context) -> Any:
    first = int(ctx.resume) if ctx.resume else 0
    for n in range(first, job.payload["count"]):
        if n == job.payload.get("breaks_at") and job.attempt == 1:
            raise Fail("half-way")
        yield n
        if n % 100 == 99 and job.payload.get("marks", True):
            ctx.checkpoint(str(n + 1))


@app.lane("tuples")
def tuples(job: Job[dict[str, Any]], ctx: Context) -> Any:
    for n in numbers(job, ctx):
        yield n, f"text {n}"


@app.lane("dicts")
def dicts(job: Job[dict[str, Any]], ctx: Context) -> Any:
    for n in numbers(job, ctx):
        yield {"n": n, "text": f"text {n}"}


@app.lane("structs", rows=Item, resume="checkpoint")
def structs(job: Job[dict[str, Any]], ctx: Context) -> Any:
    for n in numbers(job, ctx):
        yield Item(n, f"text {n}")


@app.lane("reused")
def reused(job: Job[dict[str, Any]], ctx: Context) -> Any:
    row: dict[str, Any] = {}
    for n in numbers(job, ctx):
        row |= {"n": n, "text": f"text {n}"}
        yield row


@app.lane("pids")
def pids(job: Job[dict[str, Any]], ctx: Context) -> Any:
    for n in range(7):
        yield n, str(os.getpid())


@app.lane("asks")
def asks(job: Job[dict[str, Any]], ctx: Context) -> Any:
    ctx.log("about to ask")
    yield 1, "asked"
    return {"rows": ctx.read(count_items)}


@app.read
def count_items(db: Any) -> int:
    return int(db.query("SELECT COUNT(*) FROM items")[0][0])


@app.lane("deaf", batch_deadline=0.3, grace=0.2, max_attempts=1, mode="inproc")
def deaf(job: Job[dict[str, Any]], ctx: Context) -> Any:
    """Hear nothing until a file is there; then go on as if nothing had been."""
    yield 0, "before"
    until_there(job.payload["file"])
    for n in range(1, 1000):
        yield n, "late"


@app.lane("slow", batch_deadline=0.3, grace=20, max_attempts=1, mode="inproc")
def slow(job: Job[dict[str, Any]], ctx: Context) -> Any:
    """Yield too seldom for its deadline, and often enough to hear that it is over."""
    yield 0, "before"
    time.sleep(1.0)
    yield 1, "after"


def until_there(file: str) -> None:
    """Hang until a test makes the file, at most for a minute."""
    until = time.monotonic() + 60
    while not Path(file).exists() and time.monotonic() < until:
        time.sleep(0.005)


@tuples.lander
@pids.lander
@asks.lander
@deaf.lander
@slow.lander
def land(db: Landing, job: Job[Any], rows: Rows[Any]) -> None:
    db.executemany(f"INSERT INTO items VALUES ({job.id}, ?, ?)", rows.tuples)


@dicts.lander
@reused.lander
def land_dicts(db: Landing, job: Job[Any], rows: Rows[Any]) -> None:
    db.executemany(f"INSERT INTO items VALUES ({job.id}, :n, :text)", list(rows))


@structs.lander
def land_structs(db: Landing, job: Job[Any], rows: Rows[Item]) -> None:
    db.executemany("INSERT INTO items VALUES (?, ?, ?)", [(job.id, row.n, row.text) for row in rows])


class Odd(dict[str, Any]):
    def get(self, *args: Any) -> Any:
        raise SystemExit("a hostile subclass was asked")


ANSWERS: dict[str, Any] = {
    "text": "done well",
    "list": [1, 2.5, None],
    "none": None,
    "skip": {"status": "skipped", "why": "nothing new"},
    "other": {"status": "fine"},
    "odd": Odd(status="skipped"),
}


@app.handler("answer")
def answer(job: Job[dict[str, Any]], ctx: Context) -> Any:
    return ANSWERS[job.payload["with"]]


RAISED: dict[str, BaseException] = {
    "retry": Retry("later", after=0.0),
    "fail": Fail("never"),
    "skip": Skip("not today"),
    "error": ValueError("a bad value"),
    "exit": SystemExit(3),
}


@app.handler("raises", max_attempts=2, backoff=0)
def raises(job: Job[dict[str, Any]], ctx: Context) -> Any:
    raise RAISED[job.payload["what"]]


@app.handler("alone")
def alone(job: Job[dict[str, Any]], ctx: Context) -> str:
    running.add(job.id)
    time.sleep(0.02)
    met.append(len(running))
    running.discard(job.id)
    return threading.current_thread().name


@app.handler("cancels")
def cancels(job: Job[dict[str, Any]], ctx: Context) -> str:
    """Wait until a job runs, then cancel it: what runs meanwhile holds the only slot."""
    client = Client(job.payload["home"])
    while client.job(job.payload["job"])["state"] != "running":
        time.sleep(0.005)
    client.cancel(job.payload["job"])
    return "cancelled"


@app.handler("waits_for_back")
def waits_for_back(job: Job[dict[str, Any]], ctx: Context) -> bool:
    return back.wait(30)


@app.handler("hangs", job_deadline=0.3, grace=0.1)
def hangs(job: Job[dict[str, Any]], ctx: Context) -> None:
    until_there(job.payload["file"])


@app.handler("hogs")
def hogs(job: Job[dict[str, Any]], ctx: Context) -> int:
    """Hold the GIL in C."""
    return sum(range(job.payload["steps"]))
