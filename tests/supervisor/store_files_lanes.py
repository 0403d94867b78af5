"""Lanes and a handler that open the store's files in the supervisor's process, and one that does not."""

import shutil
from pathlib import Path
from typing import Any

from supervisor import App, Context, Job, Landing, Rows

app = App("opening")
app.migration(1, "CREATE TABLE items (job INT, n INT)")


@app.lane("quick")
def quick(job: Job[dict[str, Any]], ctx: Context) -> Any:
    for n in range(5):
        yield (n,)


@app.lane("opens", max_attempts=1)
def opens(job: Job[dict[str, Any]], ctx: Context) -> Any:
    yield (0,)


@app.lane("opens_in_its_thread", mode="inproc", max_attempts=1)
def opens_in_its_thread(job: Job[dict[str, Any]], ctx: Context) -> Any:
    yield (0,)
    Path(job.payload["file"]).read_bytes()


@app.handler("copies", max_attempts=1)
def copies(job: Job[dict[str, Any]], ctx: Context) -> None:
    shutil.copy(job.payload["file"], job.payload["to"])


@quick.lander
@opens.lander
@opens_in_its_thread.lander
def land(db: Landing, job: Job[dict[str, Any]], rows: Rows[tuple[int]]) -> None:
    db.executemany(f"INSERT INTO items VALUES ({job.id}, ?)", rows)
    if job.kind == "opens":
        Path(job.payload["file"]).read_bytes()
