"""Everything that a store says, set beside what it ought to say."""

import sqlite3
from typing import Any

from landing.sql import ask
from tests.landing.model.plain import Plain
from tests.landing.model.row import Job

JOBS = """
SELECT id, kind, (SELECT priority FROM laneway_groups g WHERE g.id = group_id), priority, tag,
       payload, key, tier, num_ctx, exclusive, waiting_since, state, reason, claims, failures, fence,
       lease_expires_at, cancel_requested_at IS NOT NULL, landed_seq, landed_rows, mark, done,
       discards, wake_at, watch, watch_key, deferrals, awake, finished_at,
       (SELECT body FROM laneway_results r WHERE r.job_id = j.id)
FROM laneway_jobs j"""

ATTEMPTS = """
SELECT a.job_id, a.number, a.run_id, a.landed_seq, r.outcome, COALESCE(r.finished_at, 0)
FROM laneway_attempts a LEFT JOIN laneway_receipts r ON r.attempt_id = a.id AND r.job_id = a.job_id"""

EVENTS = "SELECT job_id, name FROM laneway_events WHERE job_id IS NOT NULL ORDER BY id"

IN_FLIGHT_WITHOUT_TOKEN = """
SELECT id FROM laneway_jobs
WHERE (state IN ('leased', 'running')) <> (fence IS NOT NULL AND lease_expires_at IS NOT NULL)"""

ENDED_WITHOUT_RECEIPT = """
SELECT a.id FROM laneway_attempts a JOIN laneway_jobs j ON j.id = a.job_id
WHERE (a.number = j.claims AND j.state IN ('leased', 'running'))
      = EXISTS (SELECT 1 FROM laneway_receipts r WHERE r.attempt_id = a.id)"""

OWED_FOR_NOTHING = "SELECT id FROM laneway_jobs WHERE discards <> 0 AND (landed_rows = 0 OR skip <> 0)"
"""A job that is to start over, but has nothing to remove, or rows to replay."""

WAITS_FOR_NOTHING = """
SELECT id FROM laneway_jobs
WHERE (state = 'pending' AND (reason IS NULL OR watch IS NULL OR (watch = 'backoff' AND wake_at IS NULL)))
   OR (state = 'deferred' AND (watch IS NULL OR wake_at IS NULL))
   OR (state NOT IN ('pending', 'deferred') AND (watch IS NOT NULL OR wake_at IS NOT NULL))"""
"""What waits says for what, and nothing else says so."""

COUNTED = "SELECT state, COUNT(*) FROM laneway_jobs GROUP BY state"


def agree(db: sqlite3.Connection, plain: Plain) -> None:
    """Compare all that there is; then what must hold whatever the model says."""

    def all_of(sql: str) -> list[tuple[Any, ...]]:
        return db.execute(sql).fetchall()

    assert {row[0]: row[1:] for row in all_of(JOBS)} == {id: cells(job) for id, job in plain.jobs.items()}
    assert sorted(all_of(ATTEMPTS)) == sorted(attempts(plain))
    assert sorted(all_of("SELECT job, seq, text FROM notes")) == sorted(plain.rows())
    said: dict[int, list[str]] = {}
    for job, name in all_of(EVENTS):
        said.setdefault(job, []).append(name)
    assert said == {id: job.events for id, job in plain.jobs.items() if job.events}
    assert {row[0]: row[1:] for row in all_of("SELECT id, clean, stopped_at, stale FROM laneway_runs")} == {
        id: (run.clean, run.stopped, run.stale) for id, run in plain.runs.items()
    }
    jobless = all_of("SELECT at, run_id, name FROM laneway_events WHERE job_id IS NULL ORDER BY id")
    assert jobless == plain.journal
    assert all_of(IN_FLIGHT_WITHOUT_TOKEN) == all_of(ENDED_WITHOUT_RECEIPT) == []
    assert not [id for id, job in plain.jobs.items() if job.discards and job.fresh]
    assert all_of(OWED_FOR_NOTHING) == all_of(WAITS_FOR_NOTHING) == []
    assert dict(all_of("SELECT kind, why FROM laneway_holds")) == plain.holds
    assert dict(all_of(ask.COUNTS)) == dict(all_of(COUNTED))


def cells(job: Job) -> tuple[Any, ...]:
    """Return a job as the columns of JOBS after its id."""
    return (
        *(job.kind, job.priority, job.priority, job.tag, job.payload, job.key, job.tier, job.window),
        *(job.exclusive, job.since, job.state, job.reason, len(job.attempts)),
        *(job.failures, job.fence, job.lease, int(job.cancel_asked), job.seq, job.count, job.mark, job.done),
        *(int(job.discards), job.wake, job.watch, job.watch_key, job.deferrals, job.awake, job.ended),
        job.result,
    )


def attempts(plain: Plain) -> list[tuple[Any, ...]]:
    """Return all attempts as the columns of ATTEMPTS."""
    return [
        (id, number, one.run, one.landed_before, one.outcome, one.at)
        for id, job in plain.jobs.items()
        for number, one in enumerate(job.attempts, 1)
    ]
