"""What people ask; each bounded, none of them writes.

All of them run on every schema since the first, save where another is named for the older ones.
"""

from typing import Final

from landing.sql.prune import MAY_GO, PRUNABLE_TAGGED
from landing.sql.queue import WITH_HEADS
from landing.sql.words import IN_FLIGHT, sources
from policies.job import State
from policies.transitions import Move

KINDS: Final = "SELECT kind, app, options FROM laneway_kinds ORDER BY kind"

ROUTED: Final = """
SELECT options FROM laneway_kinds
WHERE kind = ? AND 'router of ' || app IN (SELECT name FROM laneway_meta)"""

KIND_NAMES: Final = "SELECT kind FROM laneway_kinds"

JOB: Final = """
SELECT j.id, key, kind, tag, state, reason, priority, tier, num_ctx, payload, options, max_cost, created_at,
       waiting_since, started_at, finished_at, claims, failures, deferrals, run_id, lease_expires_at,
       cancel_requested_at, awake, landed_seq, landed_rows, mark, skip, done, total, spent, watch, watch_key,
       wake_at, r.body AS result
FROM laneway_jobs j LEFT JOIN laneway_results r ON r.job_id = j.id
WHERE j.id = ?"""
"""Everything but the fence, which nobody outside may know (SPEC U40), and what nobody could read."""

JOB_COLUMNS: Final = """
SELECT id, key, kind, tag, state, reason, priority, payload, created_at, waiting_since, started_at,
       finished_at, claims, failures, landed_seq, landed_rows, done, total, wake_at, cancel_requested_at
FROM laneway_jobs"""

IDS: Final = """
SELECT id FROM laneway_jobs
WHERE state = :state AND (:kind IS NULL OR kind = :kind) AND id > :after
ORDER BY id LIMIT :limit"""

IDS_TAGGED: Final = """
SELECT id FROM laneway_jobs
WHERE tag = :tag AND state = :state AND (:kind IS NULL OR kind = :kind) AND id > :after
ORDER BY id LIMIT :limit"""

JOBS: Final = f"""{JOB_COLUMNS}
WHERE id < :before
ORDER BY id DESC LIMIT :limit"""

JOBS_TAGGED: Final = f"""{JOB_COLUMNS}
WHERE tag = :tag AND (:state IS NULL OR state = :state) AND (:kind IS NULL OR kind = :kind) AND id < :before
ORDER BY id DESC LIMIT :limit"""

JOBS_IN_STATE: Final = f"""{JOB_COLUMNS}
WHERE state = :state AND (:kind IS NULL OR kind = :kind) AND id < :before
ORDER BY id DESC LIMIT :limit"""

JOBS_OF_KIND: Final = f"""{JOB_COLUMNS}
WHERE kind = :kind AND id < :before
ORDER BY id DESC LIMIT :limit"""

ATTEMPTS: Final = """
SELECT a.id, a.number, a.run_id, a.pid, a.claimed_at, r.started_at, r.finished_at, r.outcome, r.error_code,
       r.error, r.exit, r.kill, r.world, COALESCE(r.spent, 0) AS spent, r.log
FROM laneway_attempts a LEFT JOIN laneway_receipts r ON r.attempt_id = a.id
WHERE a.job_id = ? ORDER BY a.number DESC LIMIT 200"""

ATTEMPTS_WITHOUT_WORLDS: Final = ATTEMPTS.replace("r.world", "NULL AS world")
"""The same for schemas 1 and 2."""

LAST_CODE: Final = """
SELECT r.error_code
FROM laneway_attempts a JOIN laneway_receipts r ON r.attempt_id = a.id
WHERE a.job_id = ? ORDER BY a.number DESC LIMIT 1"""

SURVIVORS: Final = """
SELECT job_id AS id, kill
FROM (SELECT job_id, finished_at, kill FROM laneway_receipts
      WHERE finished_at >= :since ORDER BY finished_at DESC LIMIT 1000)
WHERE IIF(typeof(kill) = 'text', IIF(json_valid(kill),
          json_array_length(kill, '$.survivors') > 0 OR json_extract(kill, '$.abandoned') IS 1, 0), 0)
ORDER BY finished_at DESC LIMIT 20"""

STOPPING_SINCE: Final = """
SELECT MIN(at) FROM laneway_events
WHERE job_id IS NULL AND at >= :since AND run_id = :run AND name = 'stopping'"""

HELD: Final = """
SELECT detail FROM laneway_events
WHERE job_id IS NULL AND at >= :since AND run_id = :run AND name = 'held' ORDER BY id LIMIT 20"""

EVENTS: Final = "SELECT at, run_id, name, detail FROM laneway_events WHERE job_id = ? ORDER BY id LIMIT 200"

COUNTS: Final = "SELECT state, jobs FROM laneway_counts WHERE jobs > 0"

LAST_RUN: Final = "SELECT * FROM laneway_runs ORDER BY id DESC LIMIT 1"

IN_FLIGHT_JOBS: Final = f"""
SELECT j.id, j.kind, j.state, j.claims, j.landed_seq, j.landed_rows, j.done, j.total, j.started_at,
       j.cancel_requested_at, j.options, k.options AS kind_options, j.pid, j.rows_before, j.landed_at,
       (SELECT a.landed_seq FROM laneway_attempts a
        WHERE a.job_id = j.id AND a.number = j.claims) AS landed_before
FROM laneway_jobs j LEFT JOIN laneway_kinds k ON k.kind = j.kind
WHERE j.state IN ({IN_FLIGHT}) ORDER BY j.id LIMIT 64"""
"""Schema 4 and later."""

IN_FLIGHT_BEFORE: Final = IN_FLIGHT_JOBS.replace(", j.pid, j.rows_before, j.landed_at", "")
"""Until schema 3."""

WAITING_GROUPS: Final = f"""{WITH_HEADS}
SELECT kind, oldest, MAX(1, (
  SELECT SUM((
    SELECT COUNT(*) FROM (
      SELECT 1 FROM laneway_jobs c INDEXED BY laneway_jobs_heads
      WHERE c.state = 'queued' AND c.group_id = g.value LIMIT 1000)))
  FROM json_each(groups) g)) AS jobs
FROM (SELECT kind, MIN(waiting_since) AS oldest,
             json_group_array(IIF(typeof(group_id) IN ('integer', 'text'), group_id, NULL)) AS groups
      FROM heads GROUP BY kind ORDER BY oldest LIMIT 50)"""
"""Counted are the kinds that have waited longest, not all of a thousand. JSON holds neither blobs nor
infinities: a kind whose groups are all such garbage counts as one job."""

PENDING: Final = """
SELECT kind, reason, COUNT(*) AS jobs, MIN(wake_at) AS wake_at
FROM (SELECT kind, reason, wake_at FROM laneway_jobs WHERE state = 'pending' LIMIT 1000)
GROUP BY kind, reason ORDER BY jobs DESC LIMIT 50"""

DEFERRED: Final = PENDING.replace(f"'{State.PENDING}'", f"'{State.DEFERRED}'")

EXCLUSIVE: Final = f"""
SELECT w.kind, COALESCE(
  (SELECT b.id FROM laneway_jobs b INDEXED BY laneway_jobs_exclusive
   WHERE b.exclusive = w.watched AND b.state IN ({IN_FLIGHT}) LIMIT 1),
  (SELECT b.id FROM laneway_jobs b INDEXED BY laneway_jobs_exclusive
   WHERE b.exclusive = w.watched AND b.state IN ({sources(Move.CLAIM)}) LIMIT 1)) AS before
FROM (SELECT kind, MIN(watch_key) AS watched
      FROM (SELECT kind, watch_key FROM laneway_jobs INDEXED BY laneway_jobs_watches
            WHERE watch = 'exclusive' LIMIT 1000)
      GROUP BY kind LIMIT 50) w"""
"""Of each kind one key, and who holds it; schema 4 and later."""

HELD_KINDS: Final = "SELECT kind, why FROM laneway_holds ORDER BY kind LIMIT 1000"
"""Schema 4 and later."""

NEXT_WAKE: Final = """
SELECT id, kind, state, reason, wake_at FROM laneway_jobs INDEXED BY laneway_jobs_wakes
WHERE wake_at BETWEEN 0 AND 1 << 53 AND state IN ('pending', 'deferred')
ORDER BY wake_at LIMIT 1"""

ENDED_SINCE: Final = """
SELECT outcome, COUNT(*) AS attempts
FROM (SELECT outcome FROM laneway_receipts WHERE finished_at >= :since LIMIT 10000)
GROUP BY outcome"""

PRUNABLE_COUNT: Final = f"""
SELECT COUNT(*) FROM (
  SELECT 1
  FROM (SELECT DISTINCT kind FROM laneway_groups WHERE :kind IS NULL OR kind = :kind) k
  CROSS JOIN json_each(:states) s
  CROSS JOIN laneway_jobs j
  WHERE j.kind = k.kind AND j.state = s.value AND j.finished_at < :before AND {MAY_GO}
  LIMIT :limit)"""
"""Like PRUNABLE, but it names no index: schema 1 has not got it, and is slower there."""

PRUNABLE_TAGGED_COUNT: Final = f"SELECT COUNT(*) FROM ({PRUNABLE_TAGGED})"

FREE_PAGES: Final = "PRAGMA freelist_count"

PAGE_SIZE: Final = "PRAGMA page_size"
