"""A handler that closes what is not its own, in the supervisor's process; and a lane that works beside it."""

import os
import time
from pathlib import Path
from typing import Any

from supervisor import App, Context, Job, Landing, Rows

app = App("closing")
app.migration(1, "CREATE TABLE items (job INT, n INT, PRIMARY KEY (job, n)) WITHOUT ROWID")

taken: list[Any] = []


def all_open() -> dict[int, str]:
    """Return all descriptors of this process, each with what it leads to."""
    found = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            found[int(name)] = os.readlink(f"/proc/self/fd/{name}")
        except OSError:
            continue
    return found


def those_that(lead_to: str) -> list[int]:
    """Return the descriptors that lead to something, lowest first."""
    return sorted(fd for fd, there in all_open().items() if lead_to in there and fd > 2)


CLOSES = {
    "everything": lambda: list(range(3, 256)),
    "the wait": lambda: those_that("[eventpoll]"),
    "the bell's near end": lambda: those_that("pipe:")[:1],
    "the bell's far end": lambda: those_that("pipe:")[1:2],
    "the store": lambda: [fd for fd in those_that("store.db") if all_open()[fd].endswith("store.db")],
    "the log of the store": lambda: those_that("store.db-wal"),
    "the index of that": lambda: those_that("store.db-shm"),
    "the turnstile": lambda: those_that("turnstile"),
    "the lock": lambda: those_that("supervisor.lock"),
    "sockets": lambda: those_that("socket:"),
    "pipes": lambda: those_that("pipe:"),
    "stacks": lambda: those_that("memfd:"),
    "stdout": lambda: [1],
    "stderr": lambda: [2],
}


@app.handler("closes")
def closes(job: Job[dict[str, Any]], ctx: Context) -> str:
    """Close some once the lane works, and nothing the next time.

    With `take`, files are opened in their places, and the handler goes on.
    """
    folder = Path(job.payload["folder"])
    if (folder / "once").exists():
        return "not again"
    while not (folder / "pid").exists():
        time.sleep(0.01)
    (folder / "once").touch()
    numbers = CLOSES[job.payload["what"]]()
    os.closerange(numbers[0], numbers[-1] + 1) if len(numbers) > 100 else [os.close(fd) for fd in numbers]
    if job.payload.get("take"):
        while not set(numbers) <= {file.fileno() for file in taken}:
            taken.append(open(folder / f"taken-{len(taken)}", "wb", buffering=0))  # noqa: SIM115
        (folder / "go").touch()
        time.sleep(60)
    return "closed"


@app.handler("ends_all", retry_safe=True, max_attempts=3)
def ends_all(job: Job[dict[str, Any]], ctx: Context) -> str:
    """End the process before anybody hears of this."""
    os._exit(9)


@app.lane("steady", batch_rows=1)
def steady(job: Job[dict[str, Any]], ctx: Context) -> Any:
    """Say which process this is, and yield on once the file is there."""
    folder = Path(job.payload["folder"])
    (folder / "pid").write_text(str(os.getpid()))
    yield (0,)
    while not (folder / "go").exists():
        time.sleep(0.005)
    for n in range(1, 200):
        yield (n,)


@steady.lander
def land(db: Landing, job: Job[dict[str, Any]], rows: Rows[tuple[int]]) -> None:
    db.executemany(f"INSERT INTO items VALUES ({job.id}, ?)", rows)
