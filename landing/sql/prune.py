"""Growth: whole ended jobs go, then the runs that nobody names, then the pages that are free.

The triggers of attempts and receipts let a row go while the flag names its job, and that job has ended.
"""

from typing import Final

from policies.job import ENDED

ENDED_STATES: Final = ", ".join(f"'{state}'" for state in sorted(ENDED))

MAY_GO: Final = f"""
NOT EXISTS (
  SELECT 1 FROM laneway_attempts a LEFT JOIN laneway_receipts r ON r.attempt_id = a.id
  WHERE a.job_id = j.id AND r.attempt_id IS NULL)
AND NOT EXISTS (
  SELECT 1 FROM laneway_dependencies d JOIN laneway_jobs waiting ON waiting.id = d.job_id
  WHERE d.needs_id = j.id AND waiting.state NOT IN ({ENDED_STATES}))"""
"""No attempt of it is without its receipt, and no unfinished job needs it."""

PRUNABLE: Final = f"""
SELECT j.id
FROM (SELECT DISTINCT kind FROM laneway_groups WHERE :kind IS NULL OR kind = :kind) k
CROSS JOIN json_each(:states) s
CROSS JOIN laneway_jobs j INDEXED BY laneway_jobs_ended
WHERE j.kind = k.kind AND j.state = s.value AND j.finished_at < :before AND {MAY_GO}
LIMIT :limit"""
"""Kind by kind and state by state, longest ended first: what is not old enough is never looked at."""

PRUNABLE_TAGGED: Final = f"""
SELECT j.id FROM laneway_jobs j INDEXED BY laneway_jobs_tags
WHERE j.tag = :tag AND (:kind IS NULL OR j.kind = :kind)
  AND j.state IN (SELECT value FROM json_each(:states)) AND j.finished_at < :before AND {MAY_GO}
LIMIT :limit"""

RAISE_FLAG: Final = """
INSERT INTO laneway_meta (name, value) VALUES ('pruning', :job)
ON CONFLICT (name) DO UPDATE SET value = excluded.value"""

LOWER_FLAG: Final = "DELETE FROM laneway_meta WHERE name = 'pruning'"

DELETE_RESULT: Final = "DELETE FROM laneway_results WHERE job_id = :job"

DELETE_DEPENDENCIES: Final = "DELETE FROM laneway_dependencies WHERE job_id = :job OR needs_id = :job"

DELETE_RECEIPTS: Final = "DELETE FROM laneway_receipts WHERE job_id = :job"

DELETE_ATTEMPTS: Final = "DELETE FROM laneway_attempts WHERE job_id = :job"

DELETE_EVENTS: Final = "DELETE FROM laneway_events WHERE job_id = :job"

DELETE_JOB: Final = f"DELETE FROM laneway_jobs WHERE id = :job AND state IN ({ENDED_STATES})"

DELETE_RUNS: Final = """
DELETE FROM laneway_runs WHERE id IN (
  SELECT id FROM (
    SELECT id FROM laneway_runs
    WHERE clean <> 0 AND stopped_at < :before AND id < (SELECT MAX(id) FROM laneway_runs)
    ORDER BY id LIMIT 10000) old
  WHERE NOT EXISTS (SELECT 1 FROM laneway_attempts a WHERE a.run_id = old.id)
  LIMIT :limit)"""
"""Closed, named by no attempt, and never the last: ids only grow (SPEC C98)."""

DELETE_JOBLESS_EVENTS: Final = """
DELETE FROM laneway_events WHERE id IN (
  SELECT id FROM laneway_events e INDEXED BY laneway_events_jobless
  WHERE e.job_id IS NULL AND e.at < :before
    AND NOT EXISTS (SELECT 1 FROM laneway_runs r WHERE r.id = e.run_id)
  ORDER BY e.at LIMIT :limit)"""

VACUUM_PAGE: Final = "PRAGMA incremental_vacuum(1)"
"""A page a time: its rows have no columns, so `sqlite3` takes one step of it, whatever is fetched."""
