"""The application that chaos runs: a lane for each resume mode, rows that show every loss and repeat.

Rows are numbered from 0 in each job and inserted plainly, without a unique key: one that
landed twice is there twice. Some jobs leave a process behind.
"""

import os
import time

from supervisor import App

app = App("chaos")
app.migration(
    1,
    "CREATE TABLE chaos_rows (job INTEGER NOT NULL, n INTEGER NOT NULL, filler TEXT NOT NULL);"
    "CREATE INDEX chaos_rows_job ON chaos_rows (job);",
)

FOREVER = {"max_attempts": 10**9, "backoff": 0.0, "grace": 1.0, "batch_rows": 16}


def rows_from(job, start):
    """Yield the rows from number `start` on, at a pace that leaves time to be killed."""
    if job.payload.get("leaves"):
        leave_a_process()
    for n in range(start, job.payload["rows"]):
        if n % 10 == 9:
            time.sleep(0.001)
        yield job.id, n, f"row {n} of job {job.id}"


def leave_a_process():
    """Fork one away, into a session of its own: only its guardian, or the next start, can end it."""
    if (between := os.fork()) == 0:
        if os.fork() == 0:
            os.setsid()
            time.sleep(60)
        os._exit(0)
    os.waitpid(between, 0)


def begun(ctx):
    """Return where to go on; an attempt from the start says so before its first row."""
    if ctx.resume is None:
        ctx.checkpoint("-1")
        return 0
    return int(ctx.resume) + 1


@app.lane("replay", resume="replay", **FOREVER)
def replay(job, ctx):
    for row in rows_from(job, begun(ctx)):
        yield row
        if job.payload["unit"] and row[1] % job.payload["unit"] == 0:
            ctx.checkpoint(str(row[1]))


@app.lane("checkpoint", resume="checkpoint", **FOREVER)
def checkpoint(job, ctx):
    for row in rows_from(job, begun(ctx)):
        yield row
        if row[1] % (job.payload["unit"] or 50) == 0:
            ctx.checkpoint(str(row[1]))


@app.lane("restart", resume="restart", **FOREVER)
def restart(job, ctx):
    yield from rows_from(job, begun(ctx))


@replay.discard
@checkpoint.discard
@restart.discard
def forget(db, job):
    db.execute("DELETE FROM chaos_rows WHERE job = ?", (job.id,))


@replay.lander
@checkpoint.lander
@restart.lander
def land(db, job, rows):
    db.executemany("INSERT INTO chaos_rows VALUES (?, ?, ?)", rows)
