"""Lanes that gates hold back: heavy by their tier, large by their limit, one at a time."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from supervisor import App, Context, Job, Landing, Rows

app = App("gated")
app.migration(1, "CREATE TABLE items (job INT, n INT, PRIMARY KEY (job, n)) WITHOUT ROWID")

Pairs = Iterator[tuple[int]]


def count(job: Job[dict[str, Any]], ctx: Context) -> Pairs:
    """Yield what the payload asks for; with a file to wait for, slowly until it is there."""
    wait_for = job.payload.get("until")
    for n in range(int(ctx.resume or 0), job.payload.get("rows", 1)):
        yield (n,)
        ctx.checkpoint(str(n + 1))
        if wait_for and not Path(wait_for).exists():
            time.sleep(0.002)


def land(db: Landing, job: Job[dict[str, Any]], rows: Rows[tuple[int]]) -> None:
    """Insert, never replace: a row that comes twice is an error."""
    db.executemany(f"INSERT INTO items VALUES ({job.id}, ?)", rows)


def over(db: Landing, job: Job[dict[str, Any]], rows: Rows[tuple[int]]) -> None:
    """Insert again what a lane that starts over has landed before."""
    db.executemany(f"INSERT OR REPLACE INTO items VALUES ({job.id}, ?)", rows)


@app.handler("ping")
def ping(job: Job[dict[str, Any]], ctx: Context) -> str:
    """Answer at once."""
    return "pong"


app.lane("light")(count).lander(land)
app.lane("heavy", tier="synthesis")(count).lander(land)
app.lane("yielding", tier="synthesis", on_gate="yield", batch_rows=64)(count).lander(land)
app.lane("large", memory_limit=1_000_000_000)(count).lander(land)
app.lane("yields_light", on_gate="yield", batch_rows=16)(count).lander(land)
app.lane("over", resume="restart")(count).lander(over)
app.lane("single", max_running=1)(count).lander(land)
app.lane("modelled", tier="minilm")(count).lander(land)
app.lane("other", tier="qwen")(count).lander(land)
app.lane("large_modelled", memory_limit=1_000_000_000, tier="minilm")(count).lander(land)
