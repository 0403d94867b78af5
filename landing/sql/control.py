"""Retrying and skipping: what a person decides about a job that is not in flight, and what comes of it."""

from typing import Final

from landing.sql.words import sources, to
from policies.transitions import Move

RETRIED: Final = """
SELECT j.kind, j.state, j.landed_rows, j.options, k.discards
FROM laneway_jobs j LEFT JOIN laneway_kinds k ON k.kind = j.kind
WHERE j.id = ?"""

RETRY: Final = f"""
UPDATE laneway_jobs
SET state = {to(Move.RESUME)}, reason = NULL, finished_at = NULL, failures = 0, awake = 0,
    wake_at = NULL, watch = NULL, watch_key = NULL
WHERE id = :job AND state IN ({sources(Move.RESUME)})
RETURNING id"""

START_OVER: Final = """
UPDATE laneway_jobs
SET awake = 0, mark = NULL, skip = 0, digest = x'', done = NULL, total = NULL, discards = :discards
WHERE id = :job"""
"""Only of a row that waits: an attempt under way has its resume point already."""

DISCARD: Final = """
SELECT j.discards AS due, k.discards AS possible
FROM laneway_jobs j LEFT JOIN laneway_kinds k ON k.kind = j.kind
WHERE j.id = ?"""

FORGET_RESULT: Final = "DELETE FROM laneway_results WHERE job_id = ?"

STATE: Final = "SELECT state FROM laneway_jobs WHERE id = ?"

SKIP: Final = f"""
UPDATE laneway_jobs
SET state = {to(Move.SKIP)}, reason = 'skipped', finished_at = :now, wake_at = NULL, watch = NULL,
    watch_key = NULL
WHERE id = :job AND state IN ({sources(Move.SKIP)})
RETURNING id"""

WATCH: Final = "SELECT state, watch, CAST(watch_key AS INTEGER) AS wake FROM laneway_jobs WHERE id = ?"

HOLD: Final = f"""
UPDATE laneway_jobs
SET state = {to(Move.HOLD)}, reason = 'held', watch_key = IIF(watch = 'backoff', wake_at, NULL),
    watch = 'held', wake_at = NULL
WHERE id = :job AND state IN ({sources(Move.HOLD)})
RETURNING state"""

UNHOLD: Final = f"""
UPDATE laneway_jobs
SET state = {to(Move.WAKE)}, reason = NULL, watch = NULL, watch_key = NULL, wake_at = NULL
WHERE id = :job AND watch = 'held' AND state IN ({sources(Move.WAKE)})
RETURNING state"""

BACK_TO_BACKOFF: Final = f"""
UPDATE laneway_jobs
SET state = {to(Move.HOLD)}, reason = 'backoff', watch = 'backoff', watch_key = NULL, wake_at = :wake_at
WHERE id = :job AND watch = 'held' AND state IN ({sources(Move.HOLD)})
RETURNING state"""

IS_HELD: Final = "SELECT 1 FROM laneway_holds WHERE kind = ?"

HOLD_KIND: Final = """
INSERT INTO laneway_holds (kind, why, since) VALUES (:kind, :why, :now)
ON CONFLICT (kind) DO UPDATE SET why = IIF(:why = '', why, :why)"""

UNHOLD_KIND: Final = "DELETE FROM laneway_holds WHERE kind = ?"
