"""An application of misbehaving and well-behaved lanes, for tests over real children."""

import ctypes
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from supervisor import App, Context, Job, Landing, Rows

app = App("gallery")
app.migration(1, "CREATE TABLE items (job INT, n INT, text TEXT, attempt INT)")

Jobs = Job[dict[str, Any]]
Pairs = Iterator[tuple[int, str]]


def land(db: Landing, job: Jobs, rows: Rows[tuple[int, str]]) -> None:
    db.executemany(
        f"INSERT INTO items VALUES ({job.id}, ?, ?, {job.attempt})",
        rows,
    )


@app.lane("quick")
def quick(job: Jobs, ctx: Context) -> Pairs:
    for n in range(job.payload.get("rows", 3)):
        yield n, "quick"


@app.lane("sleepy")
def sleepy(job: Jobs, ctx: Context) -> Pairs:
    """Takes its time; two of them at once overlap."""
    yield 0, str(time.monotonic())
    time.sleep(job.payload["seconds"])
    yield 1, str(time.monotonic())


@app.lane("meets", batch_deadline=20, max_attempts=1)
def meets(job: Jobs, ctx: Context) -> Pairs:
    """Ends only where somebody else is at work at the same time, who waits for it in turn."""
    Path(job.payload["here"]).touch()
    while not Path(job.payload["there"]).exists():
        time.sleep(0.005)
    yield 0, "met"


@app.lane("wedged_in_c", batch_deadline=0.5, grace=0.5, max_attempts=1)
def wedged_in_c(job: Jobs, ctx: Context) -> Pairs:
    if "pid" in job.payload:
        Path(job.payload["pid"]).write_text(str(os.getpid()))
    yield 0, "before the wedge"
    ctypes.PyDLL(None).pause()  # holds the GIL
    yield 1, "never"


@app.lane("runaway_regex", batch_deadline=0.5, grace=0.5, max_attempts=1)
def runaway_regex(job: Jobs, ctx: Context) -> Pairs:
    yield 0, "before the regex"
    re.match(r"(a+)+$", "a" * 64 + "b")
    yield 1, "never"


@app.lane("ignores_term", batch_deadline=0.5, grace=0.3, max_attempts=1)
def ignores_term(job: Jobs, ctx: Context) -> Pairs:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    yield 0, "before"
    while True:
        time.sleep(0.01)  # deaf


@app.lane("hangs_at_once", batch_deadline=0.4, grace=0.3, max_attempts=1)
def hangs_at_once(job: Jobs, ctx: Context) -> Pairs:
    time.sleep(3600)
    yield 0, "never"


@app.lane("hangs_again", start_deadline=30, batch_deadline=0.4, grace=0.3, max_attempts=2, backoff=0.01)
def hangs_again(job: Jobs, ctx: Context) -> Pairs:
    yield 0, "before"
    time.sleep(3600)


@app.lane("slow_start", start_deadline=0.4, grace=0.3, max_attempts=1)
def slow_start(job: Jobs, ctx: Context) -> Pairs:
    time.sleep(3600)
    yield 0, "never"


@app.lane("endless", job_deadline=0.6, batch_deadline=30, grace=0.3, max_attempts=1)
def endless(job: Jobs, ctx: Context) -> Pairs:
    n = 0
    while True:
        yield n, "on and on"
        n += 1
        time.sleep(0.01)


@app.lane("noisy", batch_rows=5)
def noisy(job: Jobs, ctx: Context) -> Pairs:
    libc = ctypes.CDLL(None)
    for n in range(50):
        print(f"python {n}", end=" ")
        libc.printf(b"c %d ", n)
        if n % 10 == 0:
            subprocess.run([sys.executable, "-c", "print('grandchild', end='')"], check=True)
        yield n, "noisy"
    for _ in range(10):
        sys.stderr.write("x" * (1 << 20))
    print("the end", end="")


@app.lane("exits", max_attempts=1)
def exits(job: Jobs, ctx: Context) -> Pairs:
    yield 0, "before"
    os._exit(3)


@app.lane("dies_twice", backoff=0.05)
def dies_twice(job: Jobs, ctx: Context) -> Pairs:
    yield 0, "first"
    if job.attempt < 3:
        os.kill(os.getpid(), signal.SIGKILL)
    yield 1, "second"


@app.lane("segfaults", max_attempts=1)
def segfaults(job: Jobs, ctx: Context) -> Pairs:
    yield 0, "before"
    ctypes.string_at(0)


@app.lane("raises", retry_on=(OSError,), backoff=0.05, max_attempts=2)
def raises(job: Jobs, ctx: Context) -> Pairs:
    yield 0, "before"
    raise (OSError if job.payload.get("retry") else ValueError)("on purpose")


@app.lane("replayed", batch_rows=7, backoff=0.02)
def replayed(job: Jobs, ctx: Context) -> Pairs:
    """Dies at a chosen row of each attempt; each row must land once all the same."""
    stops = job.payload["stops"]
    for n in range(job.payload["rows"]):
        if ctx.resume is not None and n <= int(ctx.resume):
            continue
        if job.attempt <= len(stops) and n == stops[job.attempt - 1]:
            os.kill(os.getpid(), signal.SIGKILL)
        yield n, f"row {n}"
        if n % 20 == 19:
            ctx.checkpoint(str(n))


@app.lane("paced", batch_rows=16, max_attempts=50)
def paced(job: Jobs, ctx: Context) -> Pairs:
    """A replay lane with real work between its rows."""
    for n in range(job.payload["rows"]):
        if n % 50 == 0:
            time.sleep(0.002)
        yield n, f"row {n}"


@app.lane("restarts", resume="restart", backoff=0.02, batch_rows=4)
def restarts(job: Jobs, ctx: Context) -> Pairs:
    assert ctx.resume is None
    for n in range(10):
        if n == 6 and job.attempt == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        yield n, "restart"


@restarts.lander
def land_restart(db: Landing, job: Jobs, rows: Rows[tuple[int, str]]) -> None:
    db.executemany("DELETE FROM items WHERE job = ? AND n = ?", ((job.id, n) for n, _ in rows))
    land(db, job, rows)


@app.lane("slow_lander")
def slow_lander(job: Jobs, ctx: Context) -> Pairs:
    yield 0, "slow"


@slow_lander.lander
def land_slowly(db: Landing, job: Jobs, rows: Rows[tuple[int, str]]) -> None:
    db.execute("INSERT INTO items VALUES (?, -1, 'slow', 0)", (job.id,))
    if "until_gone" in job.payload:
        until_gone(Path(job.payload["until_gone"]))
    else:
        time.sleep(2.0)


def until_gone(pid: Path) -> None:
    """Wait until the process that a file names, or will name, is gone; at most half a minute."""
    until = time.monotonic() + 30
    while not pid.exists() or Path("/proc", pid.read_text()).exists():
        assert time.monotonic() < until, "it is still there"
        time.sleep(0.01)


@app.lane("waiting_lander")
def waiting_lander(job: Jobs, ctx: Context) -> Pairs:
    yield 0, job.payload["until"]


@waiting_lander.lander
def land_when_told(db: Landing, job: Jobs, rows: Rows[tuple[int, str]]) -> None:
    """Return once a file is there."""
    land(db, job, rows)
    while not Path(job.payload["until"]).exists():
        time.sleep(0.01)


@app.lane("bad_lander", max_attempts=1)
def bad_lander(job: Jobs, ctx: Context) -> Pairs:
    for n in range(20):
        yield n, "unlucky" if n == 12 else "lucky"
        ctx.checkpoint(str(n))
        time.sleep(0.002)


@bad_lander.lander
def land_badly(db: Landing, job: Jobs, rows: Rows[tuple[int, str]]) -> None:
    land(db, job, rows)
    if any(text == "unlucky" for _, text in rows):
        raise RuntimeError("cannot land this one")


@app.lane("committing_lander", max_attempts=1)
def committing_lander(job: Jobs, ctx: Context) -> Pairs:
    yield 0, "commit"


@committing_lander.lander
def land_and_commit(db: Landing, job: Jobs, rows: Rows[tuple[int, str]]) -> None:
    land(db, job, rows)
    db.execute("/* sly */ COMMIT")


@app.lane("wrong_cell", max_attempts=3)
def wrong_cell(job: Jobs, ctx: Context) -> Iterator[tuple[object, ...]]:
    yield 0, "before"
    ctx.checkpoint("0")
    yield 1, ["a list is no cell"]


class Sized(msgspec.Struct):
    size: int


@app.lane("typed", payload=Sized)
def typed(job: Job[Sized], ctx: Context) -> Pairs:
    yield job.payload.size, "typed"


@typed.lander
def land_typed(db: Landing, job: Job[Sized], rows: Rows[tuple[int, str]]) -> None:
    assert isinstance(job.payload, Sized)
    db.executemany("INSERT INTO items VALUES (?, ?, ?, ?)", [(job.id, *row, job.attempt) for row in rows])


@app.lane("large_row", max_attempts=3)
def large_row(job: Jobs, ctx: Context) -> Pairs:
    yield 0, "before"
    ctx.checkpoint("0")
    yield 1, "x" * (9 << 20)


def channel() -> int:
    """Find this child's channel: the only stream socket it has."""
    for name in os.listdir("/proc/self/fd"):
        try:
            if os.readlink(f"/proc/self/fd/{name}").startswith("socket:"):
                return int(name)
        except OSError:
            continue
    raise AssertionError("no socket")


FRAMES = {
    "negative": b"\xff\xff\xff\xfe",
    "oversized": (9 << 20).to_bytes(4, "big"),
    "zero": b"\x00\x00\x00\x00",
    "unknown": b"\x00\x00\x00\x06\x92\xa4evil",
    "garbage": b"\x00\x00\x00\x04\xc1\xc1\xc1\xc1",
}


@app.lane("hostile", max_attempts=3, batch_deadline=20)
def hostile(job: Jobs, ctx: Context) -> Pairs:
    yield 0, "before"
    ctx.checkpoint("0")
    fd = channel()
    frame = job.payload["frame"]
    if frame == "torn":
        os.write(fd, b"\x00\x00\x10\x00half")
        os._exit(0)
    os.write(fd, FRAMES[frame])
    time.sleep(3600)


def say(*fields: Any) -> None:
    """Send one frame of the wire by hand."""
    body = msgspec.msgpack.encode(fields)
    os.write(channel(), len(body).to_bytes(4, "big") + body)


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


WORDS = {
    "yielded": lambda: say("yielded", 1, 0),
    "result": lambda: say("done", 1, "{no json", 0),
    "done early": lambda: say("done", 7, None, 0),
    "started": lambda: say("started"),
    "ready": lambda: say("ready", 1, []),
    "replayed": lambda: say("progress", None, None, 1),
    "keys": lambda: say("batch", 2, 1, 1, [], ["k" * 1000] * 100, [None, 0, b""], None, None, 0, [[1]]),
    "flood": lambda: [say("progress", n, None, 0) for n in range(100_000)],
    "nested": lambda: say("read", 1, "texts", {"job": nested(900)}),
}


@app.lane("says", max_attempts=3, batch_deadline=20, grace=0.3)
def says(job: Jobs, ctx: Context) -> Pairs:
    yield 0, "before"
    WORDS[job.payload["what"]]()
    time.sleep(3600)


@app.lane("floods", batch_deadline=0.5, grace=0.3, max_attempts=1)
def floods(job: Jobs, ctx: Context) -> Pairs:
    yield 0, "before"
    body = msgspec.msgpack.encode(("progress", 1, None, 0))
    frame = len(body).to_bytes(4, "big") + body
    fd = channel()
    while True:
        os.write(fd, frame * 100)


@app.read
def unreadable(db: Any) -> None:
    raise OSError("no file \udcff")


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise SystemExit("no")


@app.read
def unspeakable(db: Any) -> None:
    raise Unspeakable("a", "b")


@app.lane("asks_badly", batch_deadline=20)
def asks_badly(job: Jobs, ctx: Context) -> Pairs:
    for n, read in enumerate((unreadable, unspeakable)):
        try:
            ctx.read(read)
        except Exception as error:
            yield n, str(error)


@app.lane("hangs_up", max_attempts=1, grace=0.3)
def hangs_up(job: Jobs, ctx: Context) -> Pairs:
    yield 0, "before"
    os.close(channel())
    time.sleep(3600)


class Picky(msgspec.Struct):
    n: int

    def __post_init__(self) -> None:
        raise RuntimeError("picky")


@app.lane("picky", payload=Picky)
def picky(job: Job[Picky], ctx: Context) -> Pairs:
    yield 0, "never"


@app.lane("spiteful_lander", max_attempts=1)
def spiteful_lander(job: Jobs, ctx: Context) -> Pairs:
    yield 0, "x"


@spiteful_lander.lander
def land_with_spite(db: Landing, job: Jobs, rows: Rows[tuple[int, str]]) -> None:
    if job.payload.get("surrogate"):
        raise ValueError("\ud800")
    raise Unspeakable("a", "b")


@app.lane("stuck_lander")
def stuck_lander(job: Jobs, ctx: Context) -> Pairs:
    yield 0, "x"


@stuck_lander.lander
def land_never(db: Landing, job: Jobs, rows: Rows[tuple[int, str]]) -> None:
    Path(job.payload["stuck"]).touch()
    time.sleep(3600)


@app.lane("forking_lander")
def forking_lander(job: Jobs, ctx: Context) -> Pairs:
    yield from ((n, "x") for n in range(3))


@forking_lander.lander
def land_with_forks(db: Landing, job: Jobs, rows: Rows[tuple[int, str]]) -> None:
    """Fork as multiprocessing does, and end the copy as it does; or leave it, and never come back."""
    copy = multiprocessing.get_context("fork").Process(target=time.sleep, args=(600,))
    copy.start()
    if "stuck" in job.payload:
        Path(job.payload["stuck"]).touch()
        time.sleep(600)
    copy.terminate()
    copy.join()
    db.executemany("INSERT INTO items VALUES (?, ?, ?, ?)", [(job.id, *row, job.attempt) for row in rows])


@app.lane("looks_around", env=())  # not even what a measuring tool would need
def looks_around(job: Jobs, ctx: Context) -> Iterator[tuple[int, str]]:
    """Report what a real child can see of the store."""
    loaded = [name for name in ("landing", "sqlite3", "rich") if name in sys.modules]
    links = []
    for name in os.listdir("/proc/self/fd"):
        try:
            links.append(os.readlink(f"/proc/self/fd/{name}"))
        except OSError:
            continue
    yield 0, repr(loaded)
    yield 1, "\n".join(links)
    yield 2, "\n".join(f"{k}={v}" for k, v in os.environ.items())
    yield 3, os.getcwd()


@app.read
def texts(db: Any, job: int) -> list[list[object]]:
    return [list(row) for row in db.query("SELECT n, text FROM items WHERE job = ? ORDER BY n", (job,))]


@app.lane("asks")
def asks(job: Jobs, ctx: Context) -> Pairs:
    yield 0, "landed first"
    ctx.checkpoint("0")
    while not (seen := ctx.read(texts, job=job.id)):
        time.sleep(0.005)
    yield 1, repr(seen)
    try:
        ctx.read("nowhere")  # type: ignore[arg-type]
    except Exception as error:
        yield 2, str(error)


@app.lane("stoppable", grace=2)
def stoppable(job: Jobs, ctx: Context) -> Pairs:
    Path(job.payload["ready"]).touch()
    start = int(ctx.resume) + 1 if ctx.resume is not None else 0
    for n in range(start, job.payload["rows"]):
        yield n, "stoppable"
        ctx.checkpoint(str(n))
        time.sleep(0.005)


for _lane in app.lanes.values():
    if _lane.land is None:
        _lane.lander(land)
