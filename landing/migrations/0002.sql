-- 1: what this job has landed goes, in one transaction with what its next attempt lands first.
ALTER TABLE laneway_jobs ADD COLUMN discards INTEGER NOT NULL DEFAULT 0;

-- 1: the lane can discard what it has landed.
ALTER TABLE laneway_kinds ADD COLUMN discards INTEGER NOT NULL DEFAULT 0;

-- Batches of this run that came too late, behind a dead fence, and changed nothing.
ALTER TABLE laneway_runs ADD COLUMN stale INTEGER NOT NULL DEFAULT 0;

-- Pages of jobs by tag and by kind, and which of a kind ended long ago.
DROP INDEX laneway_jobs_tags;
CREATE INDEX laneway_jobs_tags ON laneway_jobs (tag, id) WHERE tag IS NOT NULL;
CREATE INDEX laneway_jobs_kinds ON laneway_jobs (kind, id);
CREATE INDEX laneway_jobs_ended ON laneway_jobs (kind, state, finished_at) WHERE finished_at IS NOT NULL;

-- A run is pruned with its last job, and then its events go by their age.
CREATE INDEX laneway_events_jobless ON laneway_events (at) WHERE job_id IS NULL;
CREATE INDEX laneway_attempts_runs ON laneway_attempts (run_id);

-- The flag of a prune names the one job that goes, and only an ended job can: no receipt of another may be
-- deleted beside it, nor one of a job that still runs.
DROP TRIGGER laneway_attempts_no_delete;
CREATE TRIGGER laneway_attempts_no_delete BEFORE DELETE ON laneway_attempts
  WHEN NOT EXISTS (SELECT 1 FROM laneway_meta JOIN laneway_jobs j ON j.id = OLD.job_id
                   WHERE name = 'pruning' AND value = CAST (OLD.job_id AS TEXT)
                     AND j.state IN ('done', 'failed', 'failed_optional', 'skipped', 'cancelled'))
  BEGIN SELECT RAISE (ABORT, 'attempts are append-only'); END;
DROP TRIGGER laneway_receipts_no_delete;
CREATE TRIGGER laneway_receipts_no_delete BEFORE DELETE ON laneway_receipts
  WHEN NOT EXISTS (SELECT 1 FROM laneway_meta JOIN laneway_jobs j ON j.id = OLD.job_id
                   WHERE name = 'pruning' AND value = CAST (OLD.job_id AS TEXT)
                     AND j.state IN ('done', 'failed', 'failed_optional', 'skipped', 'cancelled'))
  BEGIN SELECT RAISE (ABORT, 'receipts are append-only'); END;
