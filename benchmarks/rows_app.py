"""The application that is measured: rows that cost next to nothing to make."""

from collections.abc import Iterator
from typing import Any

from supervisor import App, Context, Job, Landing, Rows

app = App("rows")
app.migration(1, "CREATE TABLE rows (n INTEGER PRIMARY KEY, name TEXT, value REAL, job INT)")

INSERT = "INSERT INTO rows VALUES (?, ?, ?, ?)"
Row = tuple[int, str, float, int]


def make_rows(first: int, count: int, job: int) -> Iterator[Row]:
    """Yield `count` rows: an integer, 24 characters of text, a float, an integer."""
    for n in range(first, first + count):
        yield n, f"the name of row {n:08}", n * 0.5, job


@app.lane("stream", batch_rows=2048)
def stream(job: Job[dict[str, Any]], ctx: Context) -> Iterator[Row]:
    """Stream the rows that the payload asks for."""
    yield from make_rows(job.payload["first"], job.payload["count"], job.id)


@stream.lander
def land(db: Landing, job: Job[dict[str, Any]], rows: Rows[Row]) -> None:
    """Insert them."""
    db.executemany(INSERT, rows)


@app.lane("stream256")
def stream256(job: Job[dict[str, Any]], ctx: Context) -> Iterator[Row]:
    """Stream the same rows in batches of the default size."""
    yield from make_rows(job.payload["first"], job.payload["count"], job.id)


stream256.lander(land)


@app.lane("small", keep_done=3600)
def small(job: Job[dict[str, Any]], ctx: Context) -> Iterator[Row]:
    """Yield one row, over the row of every job before it."""
    yield 0, "small", 0.5, job.id


@app.lane("small_cold", keep_done=3600, spawn="cold")
def small_cold(job: Job[dict[str, Any]], ctx: Context) -> Iterator[Row]:
    """Yield the same row, in a child that was not forked."""
    yield 0, "small", 0.5, job.id


@small_cold.lander
@small.lander
def overwrite(db: Landing, job: Job[dict[str, Any]], rows: Rows[Row]) -> None:
    """Write it over the last one."""
    db.executemany("INSERT OR REPLACE INTO rows VALUES (?, ?, ?, ?)", rows)
