"""A lane whose child loads something slow, once."""

import os
from typing import Any

from supervisor import App, Context, Job, Landing, Rows

app = App("keeping")
app.migration(1, "CREATE TABLE kept (job INT, pid INT, loads INT)")
loads: list[int] = []


def model() -> object:
    """Load, and count how often."""
    loads.append(1)
    return object()


@app.lane("embed", jobs_per_child=3, spawn="cold", tier="minilm")
def embed(job: Job[dict[str, Any]], ctx: Context) -> Any:
    """Say who loaded what how often."""
    assert ctx.use(model) is ctx.use(model)
    yield os.getpid(), len(loads)


@embed.lander
def land(db: Landing, job: Job[dict[str, Any]], rows: Rows[tuple[int, int]]) -> None:
    """Keep it."""
    db.executemany(f"INSERT INTO kept VALUES ({job.id}, ?, ?)", rows)
