"""Rows landed through one child against the same rows generated and inserted in one process.

Both sides write the same table with WAL and synchronous=FULL; the one process commits as
the lander does, everything that fits 50 ms, which is the best it can do. Time runs from
the child's start of work to the last COMMIT.
"""

import time

from benchmarks.measure import Ratio, bench
from benchmarks.rows_app import INSERT, make_rows
from landing.connect import open_writer, store_path
from landing.lander import GROUP_SECONDS
from landing.snapshot import snapshot
from supervisor import events

ROWS = 400_000


def through_a_child(kind: str) -> float:
    """Return rows a second."""
    with bench() as room:
        job = room.enqueue(kind, {"first": 0, "count": ROWS})
        room.serve()
        began = next(at for at, event in room.seen if isinstance(event, events.JobStarted))
        ended = max(at for at, event in room.seen if isinstance(event, events.BatchLanded))
        with snapshot(room.settings.home) as db:
            assert db.execute("SELECT count(*) FROM rows WHERE job = ?", (job,)).fetchone() == (ROWS,)
        return ROWS / (ended - began)


def in_one_process(batch: int) -> float:
    """Return rows a second."""
    with bench() as room:
        path = store_path(room.settings.home)
        db = open_writer(path)
        db.execute("PRAGMA wal_autocheckpoint = 8192")  # pages: the 32 MiB at which the lander does it
        db.execute(room.application.apps[-1].app.migrations[0].sql)
        began = time.monotonic()
        rows = make_rows(0, ROWS, 1)
        left = ROWS
        while left:
            db.execute("BEGIN IMMEDIATE")
            until = time.monotonic() + GROUP_SECONDS
            while left and time.monotonic() < until:
                size = min(batch, left)
                db.executemany(INSERT, [next(rows) for _ in range(size)])
                left -= size
            db.execute("COMMIT")
        seconds = time.monotonic() - began
        db.close()
        return ROWS / seconds


def run() -> None:
    """Measure in turn, A B A B."""
    for kind, batch in (("stream", 2048), ("stream256", 256)):
        ours, base = [], []
        for _ in range(5):
            base.append(in_one_process(batch))
            ours.append(through_a_child(kind))
        print(Ratio(f"landed rows, batches of {batch}", "rows", ours, base, 0.9))
