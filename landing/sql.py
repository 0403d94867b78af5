"""Every statement over the control tables, by name, in the order of a job's life.

A test prepares each one against the real schema. Moves between states come in
as parameters from `policies.transitions`; no state name is written twice here.
"""

from typing import Final

from policies.transitions import TRANSITIONS, Move


def sources(move: Move) -> str:
    """Return the states that `move` may start from, as the inside of an SQL IN list."""
    return ", ".join(f"'{state}'" for state in sorted(TRANSITIONS[move][0]))


def to(move: Move) -> str:
    """Return the state that `move` leads to, as an SQL literal."""
    return f"'{TRANSITIONS[move][1]}'"


def whole(column: str) -> str:
    """Return an expression for a count that garbage in its cell makes 0."""
    return f"IIF(typeof({column}) = 'integer' AND {column} BETWEEN 0 AND 1 << 53, {column}, 0)"


IN_FLIGHT: Final = sources(Move.RELEASE)  # which starts from every state in flight

# --- kinds and groups

REGISTER_KIND: Final = """
INSERT INTO laneway_kinds (kind, app, options, registered_at) VALUES (:kind, :app, :options, :now)
ON CONFLICT (kind) DO UPDATE SET app = :app, options = :options, registered_at = :now
WHERE app <> :app OR options <> :options"""

KINDS: Final = "SELECT kind, app, options FROM laneway_kinds ORDER BY kind"

KIND: Final = "SELECT options FROM laneway_kinds WHERE kind = ?"

ADD_GROUP: Final = """
INSERT INTO laneway_groups (kind, priority, tier, num_ctx) VALUES (:kind, :priority, :tier, :num_ctx)
ON CONFLICT DO NOTHING"""

GROUP: Final = """
SELECT id FROM laneway_groups
WHERE kind = :kind AND priority = :priority AND tier = :tier AND num_ctx = :num_ctx"""

# --- enqueue and claim

ENQUEUE: Final = """
INSERT INTO laneway_jobs (key, kind, tag, state, group_id, priority, tier, num_ctx, payload, options,
                          created_at, waiting_since, wake_at, watch)
VALUES (:key, :kind, :tag, :state, :group, :priority, :tier, :num_ctx, :payload, :options,
        :now, :now, :wake_at, :watch)
RETURNING id"""

WITH_HEADS: Final = """
WITH RECURSIVE waiting (group_id) AS (
  SELECT MIN(group_id) FROM laneway_jobs INDEXED BY laneway_jobs_heads WHERE state = 'queued'
  UNION ALL
  SELECT (SELECT MIN(n.group_id) FROM laneway_jobs n INDEXED BY laneway_jobs_heads
          WHERE n.state = 'queued' AND n.group_id > waiting.group_id)
  FROM waiting WHERE waiting.group_id IS NOT NULL
),
heads (id, group_id, kind, priority, waiting_since) AS (
  SELECT j.id, waiting.group_id, COALESCE(g.kind, j.kind), COALESCE(g.priority, j.priority), j.waiting_since
  FROM waiting
  LEFT JOIN laneway_groups g ON g.id = waiting.group_id
  JOIN laneway_jobs j ON j.id = (
    SELECT h.id FROM laneway_jobs h INDEXED BY laneway_jobs_heads
    WHERE h.state = 'queued' AND h.group_id = waiting.group_id
    ORDER BY h.waiting_since, h.id LIMIT 1)
)"""
"""One seek from each group with queued rows to the next, one to its head: the depth costs nothing.

Left to itself SQLite takes the index over all states here, and walks every queued row.
"""

HEADS: Final = f"{WITH_HEADS} SELECT id, kind, priority, waiting_since FROM heads"

CLAIM: Final = f"""
UPDATE laneway_jobs
SET state = {to(Move.CLAIM)}, fence = :fence, run_id = :run, lease_expires_at = :lease,
    claims = 1 + MAX({whole("claims")}, COALESCE((
      SELECT MAX(a.number) FROM laneway_attempts a WHERE a.job_id = :job), 0)),
    started_at = NULL, reason = NULL
WHERE id = :job AND state IN ({sources(Move.CLAIM)})
RETURNING id, kind, payload, key, claims, failures, landed_seq, mark, skip, digest, awake, options"""

ENDS: Final = "SELECT claims, landed_seq FROM laneway_jobs WHERE id = ?"

MEND: Final = f"""
UPDATE laneway_jobs
SET fence = :fence, claims = {whole("claims")}, failures = {whole("failures")}, awake = {whole("awake")},
    landed_seq = {whole("landed_seq")}
WHERE state IN ({IN_FLIGHT}) AND (:run IS NULL OR run_id IS NOT :run) AND (:only IS NULL OR id = :only)"""
"""Before rows are ended by their cells: a fence that matches, numbers that are numbers."""

ADD_ATTEMPT: Final = """
INSERT INTO laneway_attempts (job_id, number, run_id, pid, fence, claimed_at, landed_seq)
VALUES (:job, :number, :run, :pid, :fence, :now, :landed_seq)
RETURNING id"""

START: Final = f"""
UPDATE laneway_jobs SET state = {to(Move.START)}, started_at = :now
WHERE id = :job AND fence = :fence AND state IN ({sources(Move.START)})
RETURNING id"""

RENEW: Final = f"""
UPDATE laneway_jobs SET lease_expires_at = :lease
WHERE run_id = :run AND state IN ({IN_FLIGHT})"""

# --- land

LAND: Final = f"""
UPDATE laneway_jobs
SET landed_seq = :seq, landed_rows = landed_rows + :rows, mark = :mark, skip = :skip, digest = :digest,
    done = COALESCE(:done, done), total = COALESCE(:total, total), spent = :spent, lease_expires_at = :lease
WHERE id = :job AND fence = :fence AND landed_seq = :seq - 1 AND state IN ({sources(Move.COMPLETE)})
RETURNING id"""

# --- finish

FINISH: Final = {
    move: f"""
UPDATE laneway_jobs
SET state = {to(move)}, reason = :reason, finished_at = :finished_at, failures = failures + :counts,
    fence = NULL, run_id = NULL, lease_expires_at = NULL, wake_at = :wake_at, watch = :watch,
    awake = :awake, waiting_since = COALESCE(:waiting_since, waiting_since)
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
SET state = {to(Move.CANCEL)}, reason = 'cancelled', finished_at = :now, fence = NULL, run_id = NULL,
    lease_expires_at = NULL, cancel_requested_at = NULL, wake_at = NULL, watch = NULL
WHERE id = :job AND claims = :number AND cancel_requested_at IS NOT NULL AND state IN ({IN_FLIGHT})
RETURNING id"""

ADD_RECEIPT: Final = """
INSERT INTO laneway_receipts (attempt_id, job_id, outcome, started_at, finished_at, error_code, error, exit,
                              kill, spent, log)
SELECT :attempt, :job, :outcome, (SELECT started_at FROM laneway_jobs WHERE id = :job), :now, :error_code,
       :error, :exit, :kill, :spent, :log
WHERE NOT EXISTS (SELECT 1 FROM laneway_receipts WHERE attempt_id = :attempt)"""

SET_RESULT: Final = """
INSERT INTO laneway_results (job_id, body) VALUES (:job, :body)
ON CONFLICT (job_id) DO UPDATE SET body = :body"""

ADD_EVENT: Final = """
INSERT INTO laneway_events (at, job_id, run_id, name, detail) VALUES (:now, :job, :run, :name, :detail)"""

# --- wait and wake

WAKE_DUE: Final = f"""
UPDATE laneway_jobs INDEXED BY laneway_jobs_wakes
SET state = {to(Move.WAKE)}, reason = NULL, wake_at = NULL, watch = NULL
WHERE wake_at <= :now AND state IN ({sources(Move.WAKE)})"""

WAKE_LOST: Final = f"""
UPDATE laneway_jobs INDEXED BY laneway_jobs_wakes
SET state = {to(Move.WAKE)}, reason = NULL, wake_at = NULL, watch = NULL
WHERE wake_at > :never AND state IN ({sources(Move.WAKE)})"""
"""Beyond every time that is ever asked for lie text and blobs too, in SQLite's order of values."""

NEXT_WAKE: Final = f"""
SELECT MIN(wake_at) FROM laneway_jobs INDEXED BY laneway_jobs_wakes
WHERE wake_at IS NOT NULL AND state IN ({sources(Move.WAKE)})
  AND kind IN (SELECT value FROM json_each(:kinds))"""

# --- cancel

JOB_STATE: Final = """
SELECT state, run_id, cancel_requested_at, EXISTS (
  SELECT 1 FROM laneway_attempts a
  WHERE a.job_id = j.id AND a.number = j.claims AND a.run_id = (SELECT MAX(id) FROM laneway_runs)) AS held
FROM laneway_jobs j WHERE id = ?"""

CANCEL_WAITING: Final = f"""
UPDATE laneway_jobs
SET state = {to(Move.CANCEL)}, reason = 'cancelled', finished_at = :now, wake_at = NULL, watch = NULL
WHERE id = :job AND state IN ({sources(Move.CANCEL)}) AND state NOT IN ({IN_FLIGHT})
RETURNING id"""

CANCEL_IN_FLIGHT: Final = f"""
UPDATE laneway_jobs SET cancel_requested_at = COALESCE(cancel_requested_at, :now), fence = :fence
WHERE id = :job AND state IN ({IN_FLIGHT})
RETURNING id"""

CANCELS: Final = f"""
SELECT id, claims FROM laneway_jobs
WHERE cancel_requested_at IS NOT NULL AND run_id = :run AND state IN ({IN_FLIGHT})"""

# --- runs and recovery

ADD_RUN: Final = """
INSERT INTO laneway_runs (pid, boot, version, marker, started_at, recovered)
VALUES (:pid, :boot, :version, :marker, :now, EXISTS (SELECT 1 FROM laneway_runs WHERE clean = 0))
RETURNING id, recovered"""

CLOSE_RUN: Final = "UPDATE laneway_runs SET stopped_at = :now, clean = 1 WHERE id = :run"

CLOSE_DEAD_RUNS: Final = """
UPDATE laneway_runs SET stopped_at = :now, clean = 2 WHERE clean = 0 AND id <> :run"""

ORPHANS: Final = f"""
SELECT j.id AS job, j.kind, j.state, j.fence, j.claims AS number, j.failures, j.landed_seq, j.options,
       j.cancel_requested_at, j.awake, j.run_id, a.id AS attempt, a.landed_seq AS landed_before
FROM laneway_jobs j
LEFT JOIN laneway_attempts a ON a.job_id = j.id AND a.number = j.claims
WHERE j.state IN ({IN_FLIGHT})
  AND (:run IS NULL OR j.run_id IS NOT :run) AND (:only IS NULL OR j.id = :only)"""

# --- what people ask

JOB: Final = """
SELECT j.id, key, kind, tag, state, reason, priority, tier, num_ctx, payload, options, max_cost, created_at,
       waiting_since, started_at, finished_at, claims, failures, deferrals, run_id, lease_expires_at,
       cancel_requested_at, awake, landed_seq, landed_rows, mark, done, total, spent, watch, watch_key,
       wake_at, r.body AS result
FROM laneway_jobs j LEFT JOIN laneway_results r ON r.job_id = j.id
WHERE j.id = ?"""
"""Everything but the fence, which nobody outside may know (SPEC U40), and what only a resume needs."""

JOB_COLUMNS: Final = """
SELECT id, key, kind, tag, state, reason, priority, payload, created_at, waiting_since, started_at,
       finished_at, claims, failures, landed_seq, landed_rows, done, total, wake_at, cancel_requested_at
FROM laneway_jobs"""

JOBS: Final = f"""{JOB_COLUMNS}
WHERE (:kind IS NULL OR kind = :kind) AND id < :before
ORDER BY id DESC LIMIT :limit"""

JOBS_IN_STATE: Final = f"""{JOB_COLUMNS}
WHERE state = :state AND (:kind IS NULL OR kind = :kind) AND id < :before
ORDER BY id DESC LIMIT :limit"""

ATTEMPTS: Final = """
SELECT a.id, a.number, a.run_id, a.pid, a.claimed_at, r.started_at, r.finished_at, r.outcome, r.error_code,
       r.error, r.exit, r.kill, COALESCE(r.spent, 0) AS spent, r.log
FROM laneway_attempts a LEFT JOIN laneway_receipts r ON r.attempt_id = a.id
WHERE a.job_id = ? ORDER BY a.number DESC LIMIT 200"""

EVENTS: Final = "SELECT at, run_id, name, detail FROM laneway_events WHERE job_id = ? ORDER BY id LIMIT 200"

COUNTS: Final = "SELECT state, jobs FROM laneway_counts WHERE jobs > 0"

LAST_RUN: Final = "SELECT * FROM laneway_runs ORDER BY id DESC LIMIT 1"

IN_FLIGHT_JOBS: Final = f"""
SELECT id, kind, state, claims, landed_seq, landed_rows, done, total, started_at, cancel_requested_at
FROM laneway_jobs WHERE state IN ({IN_FLIGHT}) ORDER BY id LIMIT 64"""

WAITING_GROUPS: Final = f"""{WITH_HEADS}
SELECT kind, MIN(waiting_since) AS oldest, SUM((
  SELECT COUNT(*) FROM (
    SELECT 1 FROM laneway_jobs c INDEXED BY laneway_jobs_heads
    WHERE c.state = 'queued' AND c.group_id = heads.group_id LIMIT 1000))) AS jobs
FROM heads GROUP BY kind ORDER BY oldest LIMIT 50"""

PENDING: Final = """
SELECT kind, reason, COUNT(*) AS jobs, MIN(wake_at) AS wake_at
FROM (SELECT kind, reason, wake_at FROM laneway_jobs WHERE state = 'pending' LIMIT 1000)
GROUP BY kind, reason ORDER BY jobs DESC LIMIT 50"""

ENDED_SINCE: Final = """
SELECT outcome, COUNT(*) AS attempts
FROM (SELECT outcome FROM laneway_receipts WHERE finished_at >= :since LIMIT 10000)
GROUP BY outcome"""

# --- application migrations and the store's own

APP_MIGRATIONS: Final = "SELECT number, digest FROM laneway_app_migrations WHERE app = ? ORDER BY number"

ADD_APP_MIGRATION: Final = """
INSERT INTO laneway_app_migrations (app, number, digest, applied_at) VALUES (:app, :number, :digest, :now)"""

HAS_SCHEMA: Final = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'laneway_meta'"

SCHEMA: Final = "SELECT value FROM laneway_meta WHERE name = 'schema'"

SET_SCHEMA: Final = """
INSERT INTO laneway_meta (name, value) VALUES ('schema', ?)
ON CONFLICT (name) DO UPDATE SET value = excluded.value"""
