"""Two lanes, each of a tier of its own, whose children load something slow, once."""

import os
from typing import Any

from supervisor import App, Context, Job, Landing, Rows

app = App("pair")
app.migration(1, "CREATE TABLE kept (job INT, pid INT, loads INT)")
loads: list[int] = []


def model() -> object:
    """Load, and count how often."""
    loads.append(1)
    return object()


def use(job: Job[dict[str, Any]], ctx: Context) -> Any:
    """Say who loaded what how often."""
    assert ctx.use(model) is ctx.use(model)
    yield os.getpid(), len(loads)


def land(db: Landing, job: Job[dict[str, Any]], rows: Rows[tuple[int, int]]) -> None:
    """Keep it."""
    db.executemany(f"INSERT INTO kept VALUES ({job.id}, ?, ?)", rows)


for kind, tier in (("embed", "minilm"), ("rank", "qwen")):
    app.lane(kind, jobs_per_child=9, spawn="cold", tier=tier)(use).lander(land)
