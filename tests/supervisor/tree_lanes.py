"""An application whose jobs leave a hostile tree behind them, and then do not end by themselves.

Each branch tells its process id in a file of its own name once it has got away as far as it wants to.
"""

import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from ipc.leftovers import MARKER
from supervisor import App, Context, Job, Landing, Rows

app = App("trees")
app.migration(1, "CREATE TABLE items (job INT, n INT, text TEXT)")

Jobs = Job[dict[str, Any]]
Pairs = Iterator[tuple[int, str]]
Tell = Callable[[], None]

LONG = 100.0
"""Seconds that a branch lives if nobody ends it."""
NOBODY = 65534
"""The id of a user who owns nothing."""


def plain(tell: Tell) -> None:
    tell()
    time.sleep(LONG)


def deaf(tell: Tell) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    plain(tell)


def in_a_session(tell: Tell) -> None:
    os.setsid()
    plain(tell)


def forked_twice(tell: Tell) -> None:
    if os.fork() == 0:
        plain(tell)


def forked_twice_in_a_session(tell: Tell) -> None:
    if os.fork() == 0:
        in_a_session(tell)


def hopping(tell: Tell) -> None:
    """Fork, leave the session and exit, again and again: no look at it finds it where it is."""
    tell()
    end = time.monotonic() + LONG
    while time.monotonic() < end:
        if os.fork() == 0:
            os.setsid()
        else:
            os._exit(0)


def nameless(tell: Tell) -> None:
    """Carry no marker any more."""
    if os.fork() == 0:
        os.setsid()
        tell()
        os.execve("/bin/sh", ["sh", "-c", f"sleep {LONG:g}; :"], {})


def stopping(tell: Tell) -> None:
    """Keep the guardian stopped: here it is the parent's parent."""
    guardian = int(Path(f"/proc/{os.getppid()}/stat").read_text().rpartition(")")[2].split()[1])
    tell()
    while True:
        os.kill(guardian, signal.SIGSTOP)
        time.sleep(0.001)


MARKED = (plain, deaf, in_a_session, forked_twice, forked_twice_in_a_session, hopping)
BRANCHES = {branch.__name__: branch for branch in (*MARKED, nameless)}
"""Who only wants to get away."""


def grow(folder: str, names: list[str]) -> None:
    """Start branches; return once all have told where they are."""
    for name in names:
        if os.fork() == 0:
            with suppress(BaseException):
                globals()[name](lambda name=name: tell(Path(folder, name), os.getpid()))
            os._exit(0)
    while not all(Path(folder, name).exists() for name in names):
        time.sleep(0.005)


def tell(path: Path, number: int) -> None:
    """Write a number into a file, which has it as soon as it is there."""
    new = path.with_suffix(".new")
    new.write_text(str(number))
    new.rename(path)


def sleep_in_c(ctx: Context) -> Pairs:
    ctypes.PyDLL(None).pause()  # holds the GIL
    yield 1, "never"


def run_in_python(ctx: Context) -> Pairs:
    end = time.monotonic() + LONG
    while time.monotonic() < end:
        pass
    yield 1, "never"


def write_without_end(ctx: Context) -> Pairs:
    """Fill the channel; how far it got is told by a file that grows."""
    n = 1
    with Path("written").open("ab", buffering=0) as written:
        while True:
            yield n, "x" * 10_000
            written.write(b".")
            n += 1


STATES = {"in Python": run_in_python, "in C": sleep_in_c, "writing": write_without_end}


@app.lane("trees", grace=0.3, batch_rows=16)
def trees(job: Jobs, ctx: Context) -> Pairs:
    """Grow a tree, then never end; an attempt after the first says who of it is still there."""
    payload = job.payload
    if job.attempt > 1:
        yield from enumerate(alive(Path(payload["folder"]), payload["branches"]), 1)
        return
    Path(payload["folder"], "marker").write_text(os.environ[MARKER])
    grow(payload["folder"], payload["branches"])
    yield 0, "grown"
    ctx.checkpoint("grown")
    yield from STATES[payload.get("state", "in Python")](ctx)


def alive(folder: Path, names: list[str]) -> Iterator[str]:
    """Say which branches live, as they told where they are and as their marker tells; no zombie does."""
    entry = f"{MARKER}={(folder / 'marker').read_text()}".encode()
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
        with suppress(OSError):
            if entry in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                yield f"{pid} has the marker"
    for name in names:
        with suppress(OSError):
            stat = Path("/proc", (folder / name).read_text(), "stat").read_text()
            if stat.rpartition(")")[2].split()[0] not in "ZX":
                yield f"{name} lives"


@app.lane("shell", grace=1.0)
def shell(job: Jobs, ctx: Context) -> Pairs:
    """Run a shell that starts programs, beside the job and behind its back, and be deaf."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    for line in ("sleep 9999 & sleep 9999", "setsid sleep 9999 & sleep 0.01"):
        subprocess.Popen(["sh", "-c", line])
    yield 0, "started"
    time.sleep(LONG)


@app.lane("another_user", batch_deadline=0.3, grace=0.1, max_attempts=1)
def another_user(job: Jobs, ctx: Context) -> Pairs:
    """Start a program that has another user's rights, as sudo would."""
    away = subprocess.Popen(["sleep", str(LONG)], user=NOBODY, stdin=subprocess.DEVNULL)
    tell(Path("another_user"), away.pid)
    yield 0, "started"
    time.sleep(LONG)


@app.lane("children_left")
def children_left(job: Jobs, ctx: Context) -> Pairs:
    """Leave 20 grandchildren that have ended, and stay until they have been looked for."""
    for _ in range(20):
        if (between := os.fork()) == 0:
            os.fork()
            os._exit(0)
        os.waitpid(between, 0)
    yield 0, "left"
    while not Path("over").exists():
        time.sleep(0.005)


@app.lane("copied_by_its_lander")
def copied_by_its_lander(job: Jobs, ctx: Context) -> Pairs:
    yield 0, "row"


@copied_by_its_lander.lander
def land_and_fork(db: Landing, job: Jobs, rows: Rows[tuple[int, str]]) -> None:
    """Leave a copy of the supervisor behind that lives longer than it."""
    if (copy := os.fork()) == 0:
        time.sleep(LONG)
        os._exit(0)
    tell(Path("copy"), copy)
    db.executemany(f"INSERT INTO items VALUES ({job.id}, ?, ?)", rows)


@app.lane("quick")
def quick(job: Jobs, ctx: Context) -> Pairs:
    yield 0, "quick"


@app.lane("quick_and_cold", spawn="cold")
def quick_and_cold(job: Jobs, ctx: Context) -> Pairs:
    yield 0, "quick"


def land(db: Landing, job: Jobs, rows: Rows[tuple[int, str]]) -> None:
    db.executemany(f"INSERT INTO items VALUES ({job.id}, ?, ?)", rows)


for _lane in app.lanes.values():
    if _lane.land is None:
        _lane.lander(land)
