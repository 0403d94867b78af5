"""The application whose waits are measured: one lane that says when it began, one that may not begin."""

import time
from collections.abc import Iterator
from typing import Any

from supervisor import App, Context, Job, Landing, Rows

app = App("waits")
app.migration(1, "CREATE TABLE began (job INTEGER PRIMARY KEY, ns INT)")

Row = tuple[int, int]


@app.lane("stamp")
def stamp(job: Job[dict[str, Any]], ctx: Context) -> Iterator[Row]:
    """Yield the monotonic clock, which is the same in every process of a machine."""
    yield job.id, time.monotonic_ns()


@app.lane("heavy", tier="synthesis")
def heavy(job: Job[dict[str, Any]], ctx: Context) -> Iterator[Row]:
    """Yield the same, of a job that waits for an absent owner."""
    yield job.id, time.monotonic_ns()


@heavy.lander
@stamp.lander
def land(db: Landing, job: Job[dict[str, Any]], rows: Rows[Row]) -> None:
    """Insert it."""
    db.executemany("INSERT INTO began VALUES (?, ?)", rows)
