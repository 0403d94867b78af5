"""Declaring, enqueueing, claiming, starting, waiting: a job up to its first row."""

from typing import Final

from landing.sql.words import IN_FLIGHT, NOT_BEGUN, sources, to, whole
from policies.transitions import Move

REGISTER_KIND: Final = """
INSERT INTO laneway_kinds (kind, app, options, discards, registered_at)
VALUES (:kind, :app, :options, :discards, :now)
ON CONFLICT (kind) DO UPDATE SET app = :app, options = :options, discards = :discards, registered_at = :now
WHERE app <> :app OR options <> :options OR discards <> :discards"""

KIND: Final = "SELECT options FROM laneway_kinds WHERE kind = ?"

HAS_ROUTER: Final = """
INSERT INTO laneway_meta (name, value) VALUES ('router of ' || :app, '') ON CONFLICT DO NOTHING"""

HAS_NO_ROUTER: Final = "DELETE FROM laneway_meta WHERE name = 'router of ' || :app"

TIERS: Final = "SELECT value FROM laneway_meta WHERE name = 'tiers'"

SET_TIERS: Final = """
INSERT INTO laneway_meta (name, value) VALUES ('tiers', ?)
ON CONFLICT (name) DO UPDATE SET value = excluded.value"""

ADD_GROUP: Final = """
INSERT INTO laneway_groups (kind, priority, tier, num_ctx) VALUES (:kind, :priority, :tier, :num_ctx)
ON CONFLICT DO NOTHING"""

GROUP: Final = """
SELECT id FROM laneway_groups
WHERE kind = :kind AND priority = :priority AND tier = :tier AND num_ctx = :num_ctx"""

ENQUEUE: Final = """
INSERT INTO laneway_jobs (key, kind, tag, state, group_id, priority, tier, num_ctx, payload, options,
                          identity, exclusive, created_at, waiting_since)
VALUES (:key, :kind, :tag, :state, :group, :priority, :tier, :num_ctx, :payload, :options,
        :identity, :exclusive, :now, :now)
RETURNING id"""

SAME_EVER: Final = "SELECT id FROM laneway_jobs WHERE identity = ? ORDER BY id LIMIT 1"

SAME_WAITING: Final = f"""
SELECT id, payload, priority, tier, num_ctx FROM laneway_jobs
WHERE identity = ? AND state IN ({NOT_BEGUN}) AND landed_seq = 0 AND mark IS NULL
ORDER BY id LIMIT 1"""
"""What has begun is never the answer to a request for the whole (SPEC C75, C78)."""

PROMOTE: Final = "UPDATE laneway_jobs SET priority = :priority, group_id = :group WHERE id = :job"

WITH_HEADS: Final = """
WITH RECURSIVE waiting (group_id) AS (
  SELECT MIN(group_id) FROM laneway_jobs INDEXED BY laneway_jobs_heads WHERE state = 'queued'
  UNION ALL
  SELECT (SELECT MIN(n.group_id) FROM laneway_jobs n INDEXED BY laneway_jobs_heads
          WHERE n.state = 'queued' AND n.group_id > waiting.group_id)
  FROM waiting WHERE waiting.group_id IS NOT NULL
),
heads (id, group_id, kind, priority, waiting_since, tier, num_ctx) AS (
  SELECT j.id, waiting.group_id, COALESCE(g.kind, j.kind), COALESCE(g.priority, j.priority), j.waiting_since,
         COALESCE(g.tier, j.tier), COALESCE(g.num_ctx, j.num_ctx)
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

HEADS: Final = f"""{WITH_HEADS}
SELECT heads.*, (SELECT exclusive FROM laneway_jobs e WHERE e.id = heads.id) AS exclusive FROM heads"""

STRANGERS: Final = """
SELECT j.id, g.kind, j.num_ctx
FROM laneway_groups g
CROSS JOIN laneway_jobs j INDEXED BY laneway_jobs_heads ON j.state = 'queued' AND j.group_id = g.id
WHERE g.kind NOT IN (SELECT kind FROM laneway_kinds) AND g.kind NOT IN (SELECT kind FROM laneway_holds)
  AND g.kind NOT IN (SELECT value FROM json_each(:loaded))
LIMIT :most"""
"""Queued jobs of kinds that nobody has declared, nor has loaded; one that is held waits for who holds it.

The join is CROSS so that SQLite goes through the groups, which are few, and not through what is queued.
"""

GROUPS_IN_FLIGHT: Final = f"""
SELECT id, kind, tier, num_ctx, exclusive FROM laneway_jobs WHERE state IN ({IN_FLIGHT}) ORDER BY id"""

HOLDS: Final = "SELECT kind, why FROM laneway_holds"

HOLD_BACK: Final = f"""
UPDATE laneway_jobs SET state = {to(Move.HOLD_BACK)}, reason = :watch, watch = :watch, watch_key = :key
WHERE state IN ({sources(Move.HOLD_BACK)}) AND id IN (
  SELECT id FROM laneway_jobs INDEXED BY laneway_jobs_exclusive
  WHERE exclusive = :key AND state IN ({sources(Move.HOLD_BACK)}) LIMIT :most)"""
"""All that wait for the same at once, so that a claim looks again once for each key that is taken."""

REVIVE: Final = f"""
UPDATE laneway_jobs
SET state = {to(Move.WAKE)}, reason = NULL, wake_at = NULL, watch = NULL, watch_key = NULL
WHERE state IN ({to(Move.DEFER)})"""

FREE_EXCLUSIVE: Final = f"""
WITH RECURSIVE lines (key, tier, num_ctx, priority, first) AS (
  SELECT w.watch_key, w.tier, w.num_ctx, w.priority, w.id
  FROM laneway_freed f
  JOIN laneway_jobs w ON w.id = (
    SELECT id FROM laneway_jobs INDEXED BY laneway_jobs_watches
    WHERE watch = 'exclusive' AND watch_key = f.key
    ORDER BY tier, num_ctx, priority, waiting_since, id LIMIT 1)
  WHERE NOT EXISTS (SELECT 1 FROM laneway_jobs b INDEXED BY laneway_jobs_exclusive
                    WHERE b.exclusive = f.key AND b.state IN ({IN_FLIGHT}))
  UNION ALL
  SELECT w.watch_key, w.tier, w.num_ctx, w.priority, w.id
  FROM lines l
  JOIN laneway_jobs w ON w.id = (
    SELECT id FROM laneway_jobs INDEXED BY laneway_jobs_watches
    WHERE watch = 'exclusive' AND watch_key = l.key
      AND (tier, num_ctx, priority) > (l.tier, l.num_ctx, l.priority)
    ORDER BY tier, num_ctx, priority, waiting_since, id LIMIT 1)
)
UPDATE laneway_jobs
SET state = {to(Move.WAKE)}, reason = NULL, wake_at = NULL, watch = NULL, watch_key = NULL
WHERE state IN ({sources(Move.WAKE)}) AND id IN (
  SELECT l.first FROM lines l
  WHERE NOT EXISTS (SELECT 1 FROM laneway_jobs b INDEXED BY laneway_jobs_exclusive
                    WHERE b.exclusive = l.key AND b.state IN ({sources(Move.CLAIM)})
                      AND b.tier = l.tier AND b.num_ctx = l.num_ctx AND b.priority = l.priority))"""
"""The head of each group that waits for a key which nobody in flight holds, where nobody of it is in line.

Who of them is next, the claim says, by what each has waited; a tier that a gate blocks keeps none of
another waiting. Keys are noted as they are left.
"""

FORGET_FREED: Final = "DELETE FROM laneway_freed WHERE key IS NOT NULL"
"""Without a condition SQLite would write a page even where nothing is noted; an idle run would never rest."""

QUEUE_LOST: Final = f"""
UPDATE laneway_jobs
SET state = {to(Move.WAKE)}, reason = NULL, watch = NULL, watch_key = NULL
WHERE state IN ({to(Move.HOLD_BACK)}) AND wake_at IS NULL
  AND (watch IS NULL OR watch NOT IN ('exclusive', 'held')
       OR (watch = 'exclusive' AND watch_key IS NOT exclusive))"""
"""Rows that wait for nothing that could come: somebody has changed a cell by hand."""

DOUBT_EXCLUSIVE: Final = """
INSERT INTO laneway_freed
SELECT DISTINCT watch_key FROM laneway_jobs WHERE watch = 'exclusive' AND watch_key IS NOT NULL
ON CONFLICT DO NOTHING"""
"""Look at all once: somebody may have changed a key by hand."""

CLAIM: Final = f"""
UPDATE laneway_jobs
SET state = {to(Move.CLAIM)}, fence = :fence, run_id = :run, lease_expires_at = :lease,
    claims = 1 + MAX({whole("claims")}, COALESCE((
      SELECT MAX(a.number) FROM laneway_attempts a WHERE a.job_id = :job), 0)),
    started_at = NULL, rows_before = landed_rows, reason = NULL, num_ctx = :window
WHERE id = :job AND state IN ({sources(Move.CLAIM)})
RETURNING id, kind, payload, key, claims, failures, landed_seq, landed_rows, discards, mark, skip, digest,
          awake, options, tier, num_ctx, priority"""

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
UPDATE laneway_jobs SET state = {to(Move.START)}, started_at = :now, landed_at = :now, pid = :pid
WHERE id = :job AND fence = :fence AND state IN ({sources(Move.START)})
RETURNING id"""

RENEW: Final = f"""
UPDATE laneway_jobs SET lease_expires_at = :lease
WHERE run_id = :run AND state IN ({IN_FLIGHT})"""

WAKE_DUE: Final = f"""
UPDATE laneway_jobs
SET state = {to(Move.WAKE)}, reason = NULL, wake_at = NULL, watch = NULL, watch_key = NULL
WHERE state IN ({sources(Move.WAKE)}) AND id IN (
  SELECT id FROM laneway_jobs INDEXED BY laneway_jobs_wakes
  WHERE wake_at <= :now AND state IN ({sources(Move.WAKE)})
  ORDER BY wake_at LIMIT :most)"""

WAKE_LOST: Final = f"""
UPDATE laneway_jobs
SET state = {to(Move.WAKE)}, reason = NULL, wake_at = NULL, watch = NULL, watch_key = NULL
WHERE state IN ({sources(Move.WAKE)}) AND id IN (
  SELECT id FROM laneway_jobs INDEXED BY laneway_jobs_wakes
  WHERE wake_at > :never AND state IN ({sources(Move.WAKE)})
  LIMIT :most)"""
"""Beyond every time that is ever asked for lie text and blobs too, in SQLite's order of values."""

NEXT_WAKE: Final = f"""
SELECT MIN(wake_at) FROM laneway_jobs INDEXED BY laneway_jobs_wakes
WHERE wake_at IS NOT NULL AND state IN ({sources(Move.WAKE)})
  AND kind IN (SELECT value FROM json_each(:kinds))"""

NEXT_TRY: Final = NEXT_WAKE.replace(sources(Move.WAKE), to(Move.BACK_OFF))
"""Those that wait for their next attempt; a deferred row waits for something else."""
