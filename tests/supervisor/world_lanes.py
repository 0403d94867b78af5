"""An application whose kinds have children of different worlds, and jobs that say what theirs is."""

import errno
import os
import resource
import socket
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from supervisor import App, Context, Job, Landing, Rows

app = App("worlds")
app.migration(1, "CREATE TABLE items (job INT, n INT, text TEXT, attempt INT)")

Jobs = Job[dict[str, Any]]
Pairs = Iterator[tuple[int, str]]

FAR = ("192.0.2.1", 9)
"""An address that documents use. To connect a UDP socket sends nothing."""
IMPORTED_BY = os.getpid()


def connected(kind: socket.SocketKind, address: tuple[str, int]) -> str:
    with socket.socket(socket.AF_INET, kind) as sock:
        try:
            sock.connect(address)
        except PermissionError as error:
            return str(error)
    return "connected"


@app.lane("open", jobs_per_child=4, max_attempts=1)
def open_one(job: Jobs, ctx: Context) -> Pairs:
    """Say which process it is, and what comes of a connection to far away and to this machine."""
    yield os.getpid(), connected(socket.SOCK_DGRAM, FAR)
    yield os.getpid(), connected(socket.SOCK_STREAM, ("127.0.0.1", job.payload["near"]))


app.lane("sealed", network=False, jobs_per_child=4, max_attempts=1)(open_one.compute)


@app.lane("calls_home", network=False, max_attempts=1)
def calls_home(job: Jobs, ctx: Context) -> Pairs:
    yield 0, "before"
    socket.socket(socket.AF_INET, socket.SOCK_DGRAM).connect(FAR)


def opened() -> int:
    """Return how many files can be opened, until it is refused."""
    files = []
    try:
        while True:
            files.append(os.open(os.devnull, os.O_RDONLY))
    except OSError as error:
        if error.errno != errno.EMFILE:
            raise
    for fd in files:
        os.close(fd)
    return len(files)


def written() -> int:
    """Return how many bytes go into a file, until it is refused."""
    with tempfile.TemporaryFile(buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 5000)
        except OSError as error:
            if error.errno != errno.EFBIG:
                raise
        return file.tell()


@app.lane("bounded", open_files_limit=64, file_size_limit=100_000, max_attempts=1)
def bounded(job: Jobs, ctx: Context) -> Pairs:
    """Go up to each limit; say what limits the process has that imported the application."""
    yield opened(), "files"
    yield written(), "bytes"
    for name in ("Max open files", "Max file size"):
        limits = Path(f"/proc/{IMPORTED_BY}/limits").read_text().splitlines()
        soft = next(line for line in limits if line.startswith(name)).split()[3]
        yield -1 if soft == "unlimited" else int(soft), name
    yield resource.getrlimit(resource.RLIMIT_NOFILE)[0], "own"


app.lane("bounded_cold", spawn="cold", open_files_limit=64, file_size_limit=100_000, max_attempts=1)(
    bounded.compute
)
app.lane("bounded_twice", jobs_per_child=2, open_files_limit=64, file_size_limit=100_000, max_attempts=1)(
    bounded.compute
)


@app.lane("burns", cpu_limit=1, max_attempts=1)
def burns(job: Jobs, ctx: Context) -> Pairs:
    """Use so many CPU seconds."""
    yield os.getpid(), "begins"
    until = time.process_time() + job.payload["seconds"]
    while time.process_time() < until:
        pass


app.lane("burns_cold", spawn="cold", cpu_limit=1, max_attempts=1)(burns.compute)
app.lane("burns_in_series", jobs_per_child=5, cpu_limit=1, max_attempts=1)(burns.compute)


@app.lane("second_time", network=False, memory_limit=500 << 20, max_attempts=2, backoff=0, retry_on=[OSError])
def second_time(job: Jobs, ctx: Context) -> Pairs:
    yield 0, "before"
    if job.attempt == 1:
        raise OSError("on purpose")


def land(db: Landing, job: Jobs, rows: Rows[tuple[int, str]]) -> None:
    db.executemany(f"INSERT INTO items VALUES ({job.id}, ?, ?, {job.attempt})", rows)


for _lane in app.lanes.values():
    _lane.lander(land)
