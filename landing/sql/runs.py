"""One life of a supervisor, and the rows that its death left in flight."""

from typing import Final

from landing.sql.words import IN_FLIGHT, sources, to
from policies.transitions import Move

ADD_RUN: Final = """
INSERT INTO laneway_runs (pid, boot, version, marker, kinds, slots, started_at, recovered)
VALUES (:pid, :boot, :version, :marker, :kinds, :slots, :now,
        EXISTS (SELECT 1 FROM laneway_runs WHERE clean = 0))
RETURNING id, recovered"""

COUNT_STALE: Final = "UPDATE laneway_runs SET stale = stale + :batches WHERE id = :run"

TELL: Final = "UPDATE laneway_runs SET told = :told WHERE id = :run"

CLOSE_RUN: Final = "UPDATE laneway_runs SET stopped_at = :now, clean = :clean WHERE id = :run"
"""1, or 3 where it has left processes behind that could not be ended."""

CLOSE_DEAD_RUNS: Final = """
UPDATE laneway_runs SET stopped_at = :now, clean = 2 WHERE clean = 0 AND id <> :run
RETURNING id"""

DEAD_MARKERS: Final = "SELECT marker FROM laneway_runs WHERE clean <> 1"

ORPHANS: Final = f"""
SELECT j.id AS job, j.kind, j.state, j.fence, j.claims AS number, j.failures, j.landed_seq, j.options,
       j.cancel_requested_at, j.awake, j.run_id, a.id AS attempt, a.landed_seq AS landed_before
FROM laneway_jobs j
LEFT JOIN laneway_attempts a ON a.job_id = j.id AND a.number = j.claims
WHERE j.state IN ({IN_FLIGHT})
  AND (:run IS NULL OR j.run_id IS NOT :run) AND (:only IS NULL OR j.id = :only)"""

SHIFT_WAITS: Final = f"""
UPDATE laneway_jobs INDEXED BY laneway_jobs_wakes
SET wake_at = MAX(0, wake_at + :by), watch_key = :now
WHERE wake_at BETWEEN 0 AND :never AND watch IN ('backoff', 'deferred') AND state IN ({sources(Move.WAKE)})
  AND COALESCE(CAST(watch_key AS INTEGER) NOT BETWEEN :since AND :now, TRUE)
  AND NOT EXISTS (SELECT 1 FROM laneway_receipts r
                  WHERE r.job_id = laneway_jobs.id AND r.finished_at BETWEEN :since AND :now)"""
"""Waits that began since the clock was set are right already; the others are counted from now.

A wait that began without an attempt has in its watch_key when that was.
"""

SHIFT_KEPT: Final = f"""
UPDATE laneway_jobs INDEXED BY laneway_jobs_watches
SET watch_key = MAX(0, CAST(watch_key AS INTEGER) + :by)
WHERE watch = 'held' AND watch_key IS NOT NULL AND CAST(watch_key AS INTEGER) BETWEEN 0 AND :never
  AND state IN ({sources(Move.WAKE)})
  AND NOT EXISTS (SELECT 1 FROM laneway_receipts r
                  WHERE r.job_id = laneway_jobs.id AND r.finished_at BETWEEN :since AND :now)"""
"""What is left of a backoff while its job is held."""

CLAMP_WAITS: Final = f"""
UPDATE laneway_jobs
SET wake_at = :now + MAX(0, wake_at - late.since), watch_key = :now
FROM (
  SELECT j.id AS job, COALESCE(CAST(j.watch_key AS INTEGER), (
    SELECT r.finished_at FROM laneway_receipts r
    WHERE r.job_id = j.id ORDER BY r.attempt_id DESC LIMIT 1)) AS since
  FROM laneway_jobs j INDEXED BY laneway_jobs_wakes
  WHERE j.wake_at > :now AND j.wake_at <= :never AND j.watch = 'backoff'
    AND j.state IN ({sources(Move.WAKE)})) late
WHERE id = late.job AND late.since > :now AND late.since <= :never"""
"""Waits that are counted from a time to come: from their last receipt, or since somebody moved them."""

CLAMP_KEPT: Final = f"""
UPDATE laneway_jobs
SET watch_key = :now + MAX(0, CAST(watch_key AS INTEGER) - late.since)
FROM (
  SELECT j.id AS job, (SELECT r.finished_at FROM laneway_receipts r
                       WHERE r.job_id = j.id ORDER BY r.attempt_id DESC LIMIT 1) AS since
  FROM laneway_jobs j INDEXED BY laneway_jobs_watches
  WHERE j.watch = 'held' AND CAST(j.watch_key AS INTEGER) BETWEEN :now + 1 AND :never
    AND j.state IN ({sources(Move.WAKE)})) late
WHERE id = late.job AND late.since > :now AND late.since <= :never"""
"""The same for what is left of a backoff while its job is held."""

LOOK_AGAIN: Final = f"""
UPDATE laneway_jobs INDEXED BY laneway_jobs_wakes
SET wake_at = :now
WHERE wake_at > :now AND wake_at <= :never AND state IN ({to(Move.DEFER)})"""
"""Rows that wait for room are due where a run begins: nobody has looked what is in memory since."""
