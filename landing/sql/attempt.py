"""Landing, finishing, cancelling: what ends in a receipt."""

from typing import Final

from landing.sql.words import IN_FLIGHT, sources, to
from policies.transitions import Move

LAND: Final = f"""
UPDATE laneway_jobs
SET landed_seq = :seq, landed_rows = IIF(:afresh, 0, landed_rows) + :rows,
    discards = IIF(:rows > 0, 0, IIF(:owed, 1, discards)), mark = :mark, skip = :skip, digest = :digest,
    done = COALESCE(:done, done), total = COALESCE(:total, total), spent = :spent, lease_expires_at = :lease,
    landed_at = :now
WHERE id = :job AND fence = :fence AND landed_seq = :seq - 1 AND state IN ({sources(Move.COMPLETE)})
RETURNING id"""
"""Rows that land are built on; a mark alone must not let the next attempt build on rows that are to go."""

COUNT_ANEW: Final = "UPDATE laneway_jobs SET rows_before = 0 WHERE id = ?"
"""What had landed before an attempt is gone: all rows that there are now are its own."""

FINISH: Final = {
    move: f"""
UPDATE laneway_jobs
SET state = {to(move)}, reason = :reason, finished_at = :finished_at, failures = failures + :counts,
    fence = NULL, run_id = NULL, lease_expires_at = NULL, wake_at = :wake_at, watch = :watch,
    watch_key = NULL, deferrals = deferrals + :deferred, awake = :awake,
    waiting_since = COALESCE(:waiting_since, waiting_since),
    landed_rows = IIF(:afresh, 0, landed_rows), discards = IIF(:afresh, 0, discards)
WHERE id = :job AND fence = :fence AND landed_seq = :last_seq AND cancel_requested_at IS NULL
  AND state IN ({sources(move)})
RETURNING id"""
    for move in (
        Move.COMPLETE,
        Move.FAIL,
        Move.FAIL_OPTIONAL,
        Move.BACK_OFF,
        Move.RELEASE,
        Move.DEFER,
        Move.CANCEL,
    )
}
"""By move, so that each holds to its own sources; only a row in flight has a fence to match."""

FINISH_CANCELLED: Final = f"""
UPDATE laneway_jobs
SET state = {to(Move.CANCEL)}, reason = :reason, finished_at = :now, fence = NULL, run_id = NULL,
    lease_expires_at = NULL, cancel_requested_at = NULL, wake_at = NULL, watch = NULL
WHERE id = :job AND claims = :number AND cancel_requested_at IS NOT NULL AND state IN ({IN_FLIGHT})
RETURNING id"""

ADD_RECEIPT: Final = """
INSERT INTO laneway_receipts (attempt_id, job_id, outcome, started_at, finished_at, error_code, error, exit,
                              kill, world, spent, log)
SELECT :attempt, :job, :outcome, (SELECT started_at FROM laneway_jobs WHERE id = :job), :now, :error_code,
       :error, :exit, :kill, :world, :spent, :log
WHERE NOT EXISTS (SELECT 1 FROM laneway_receipts WHERE attempt_id = :attempt)"""

SET_RESULT: Final = """
INSERT INTO laneway_results (job_id, body) VALUES (:job, :body)
ON CONFLICT (job_id) DO UPDATE SET body = :body"""

ADD_EVENT: Final = """
INSERT INTO laneway_events (at, job_id, run_id, name, detail) VALUES (:now, :job, :run, :name, :detail)"""

JOB_STATE: Final = """
SELECT state, run_id, cancel_requested_at, EXISTS (
  SELECT 1 FROM laneway_attempts a
  WHERE a.job_id = j.id AND a.number = j.claims AND a.run_id = (SELECT MAX(id) FROM laneway_runs)) AS held
FROM laneway_jobs j WHERE id = ?"""

CANCEL_WAITING: Final = f"""
UPDATE laneway_jobs
SET state = {to(Move.CANCEL)}, reason = 'cancelled', finished_at = :now, wake_at = NULL, watch = NULL,
    watch_key = NULL
WHERE id = :job AND state IN ({sources(Move.CANCEL)}) AND state NOT IN ({IN_FLIGHT})
RETURNING id"""

CANCEL_IN_FLIGHT: Final = f"""
UPDATE laneway_jobs SET cancel_requested_at = COALESCE(cancel_requested_at, :now), fence = :fence
WHERE id = :job AND state IN ({IN_FLIGHT})
RETURNING id"""

CANCELS: Final = f"""
SELECT id, claims FROM laneway_jobs
WHERE cancel_requested_at IS NOT NULL AND run_id = :run AND state IN ({IN_FLIGHT})"""
