"""A lane that works until a file is there, and the lane that the watchdog calls."""

import time
from pathlib import Path
from typing import Any

from supervisor import App, Context, Job, Landing, Rows

app = App("watchful")
app.migration(1, "CREATE TABLE items (job INT, n INT, PRIMARY KEY (job, n)) WITHOUT ROWID")


@app.lane("long", batch_rows=1)
def long(job: Job[dict[str, Any]], ctx: Context) -> Any:
    """Yield a row now and then until the file is there."""
    n = 0
    while not Path(job.payload["until"]).exists():
        yield (n,)
        n += 1
        time.sleep(0.01)


@app.lane("watchdog")
def watchdog(job: Job[dict[str, Any]], ctx: Context) -> Any:
    """Yield the threshold that was crossed."""
    yield (job.payload["threshold"],)


@long.lander
@watchdog.lander
def land(db: Landing, job: Job[dict[str, Any]], rows: Rows[tuple[int]]) -> None:
    """Insert, never replace."""
    db.executemany(f"INSERT INTO items VALUES ({job.id}, ?)", rows)
