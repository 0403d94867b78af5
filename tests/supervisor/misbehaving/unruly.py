"""What the applications of this folder have in common: how a child is made, who works beside it and after it.

A child's deed begins once somebody is at work beside it, and rows keep its clocks running until then.
"""

import os
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from supervisor import App, Context, Job, Landing, Rows

Jobs = Job[dict[str, Any]]
Pairs = Iterator[tuple[int, str]]
Deed = Callable[[Jobs, Context], Iterable[tuple[int, str]] | None]


def land(db: Landing, job: Jobs, rows: Rows[tuple[int, str]]) -> None:
    db.executemany(f"INSERT INTO items VALUES ({job.id}, ?, ?)", rows)


def landed(db: Any, job: int) -> int:
    return int(db.query("SELECT count(*) FROM items WHERE job = ?", (job,))[0][0])


def application(name: str) -> App:
    """Make an application with those two who behave."""
    app = App(name)
    app.migration(1, "CREATE TABLE items (job INT, n INT, text TEXT)")
    read = app.read(landed)

    @app.lane("bystander", batch_deadline=20, max_attempts=1)
    def bystander(job: Jobs, ctx: Context) -> Pairs:
        """Work beside the others until they are over, with reads and marks."""
        n = 0 if ctx.resume is None else int(ctx.resume) + 1
        while not Path(job.payload["over"]).exists():
            yield n, "beside"
            ctx.checkpoint(str(n))
            assert ctx.read(read, job=job.id) <= n + 1
            Path(job.payload["beside"]).touch()
            time.sleep(0.01)
            n += 1

    @app.lane("quick", max_attempts=1)
    def quick(job: Jobs, ctx: Context) -> Pairs:
        yield from ((n, "quick") for n in range(3))

    for lane in (bystander, quick):
        lane.lander(land)
    return app


def child(app: App, **options: Any) -> Callable[[Deed], Deed]:
    """Make a deed a lane of its own name; what it returns are rows, and another one follows."""

    def declare(deed: Deed) -> Deed:
        def half(job: Jobs, ctx: Context) -> Pairs:
            yield from until_beside(job)
            yield from deed(job, ctx) or ()
            yield 0, "after"

        limits = {"batch_deadline": 20.0, "grace": 0.4, "max_attempts": 1} | options
        app.lane(deed.__name__, **limits)(half).lander(land)
        return deed

    return declare


def until_beside(job: Jobs) -> Pairs:
    n = 0
    while not Path(job.payload["beside"]).exists():
        yield n, "before"
        time.sleep(0.01)
        n += 1
    yield n, "before"


def wait_for(fact: Callable[[], Any], seconds: float = 10.0) -> None:
    until = time.monotonic() + seconds
    while not fact():
        assert time.monotonic() < until, f"no {fact} within {seconds} s"
        time.sleep(0.005)


def note(job: Jobs, pid: int = 0) -> None:
    """Leave word of a process, for whoever looks for survivors, while it lives for certain."""
    stat = Path(f"/proc/{pid or os.getpid()}/stat").read_text()
    began = stat.rpartition(")")[2].split()[19]
    Path(job.payload["noted"], f"{pid or os.getpid()}-{began}").touch()


def touch(job: Jobs, name: str) -> None:
    """Leave word of something that was done."""
    Path(job.payload["noted"], name).touch()


def channel_of(ctx: Context) -> int:
    """Return the descriptor of its wire."""
    return int(ctx._line._pipe._fd)  # type: ignore[attr-defined]
