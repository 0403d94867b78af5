"""The applications whose waits are measured: a lane that says when it began; beside it, one that may not."""

import time
from collections.abc import Iterator
from typing import Any

from supervisor import App, Context, Job, Landing, Rows

app = App("waits")
gated = App("gated")

Row = tuple[int, int]


def began(job: Job[dict[str, Any]], ctx: Context) -> Iterator[Row]:
    """Yield the monotonic clock, which is the same in every process of a machine."""
    yield job.id, time.monotonic_ns()


def land(db: Landing, job: Job[dict[str, Any]], rows: Rows[Row]) -> None:
    """Insert it."""
    db.executemany("INSERT INTO began VALUES (?, ?)", rows)


for one in (app, gated):
    one.migration(1, "CREATE TABLE began (job INTEGER PRIMARY KEY, ns INT)")
    one.lane("stamp")(began).lander(land)
gated.lane("heavy", tier="synthesis")(began).lander(land)
