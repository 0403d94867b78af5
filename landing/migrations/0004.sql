-- What makes a job the same as another (a digest, by the kind's `unique`), and what it may not run beside.
ALTER TABLE laneway_jobs ADD COLUMN identity TEXT;
ALTER TABLE laneway_jobs ADD COLUMN exclusive TEXT;
CREATE INDEX laneway_jobs_identities ON laneway_jobs (identity, state) WHERE identity IS NOT NULL;
CREATE INDEX laneway_jobs_exclusive ON laneway_jobs (exclusive, state) WHERE exclusive IS NOT NULL;

-- Who waits for the same is in line, tier by tier, priority by priority.
DROP INDEX laneway_jobs_watches;
CREATE INDEX laneway_jobs_watches
  ON laneway_jobs (watch, watch_key, tier, num_ctx, priority, waiting_since, id)
  WHERE watch IS NOT NULL;

-- The keys that somebody has left, in flight or in line, since a claim last looked at those who wait for them.
CREATE TABLE laneway_freed (key TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TRIGGER laneway_jobs_freed AFTER UPDATE OF state ON laneway_jobs
WHEN OLD.exclusive IS NOT NULL AND OLD.state IN ('queued', 'leased', 'running')
  AND NEW.state NOT IN ('leased', 'running') AND NEW.watch IS NOT 'exclusive'
  AND EXISTS (SELECT 1 FROM laneway_jobs WHERE watch = 'exclusive' AND watch_key = OLD.exclusive)
BEGIN
  INSERT INTO laneway_freed VALUES (OLD.exclusive) ON CONFLICT DO NOTHING;
END;

-- The rows of queue files of earlier versions that have been copied, each as a digest.
CREATE TABLE laneway_imported (row TEXT PRIMARY KEY) WITHOUT ROWID;

-- Kinds that are to wait until somebody says otherwise.
CREATE TABLE laneway_holds (
  kind TEXT PRIMARY KEY,
  why TEXT NOT NULL,
  since INTEGER NOT NULL
) WITHOUT ROWID;

-- What a run can run, how many at once, and how its gates and models stand.
ALTER TABLE laneway_runs ADD COLUMN kinds TEXT;
ALTER TABLE laneway_runs ADD COLUMN slots INTEGER;
ALTER TABLE laneway_runs ADD COLUMN told TEXT;

-- Of an attempt: the process that works, what had landed before it, when its last batch landed or it began.
ALTER TABLE laneway_jobs ADD COLUMN pid INTEGER;
ALTER TABLE laneway_jobs ADD COLUMN rows_before INTEGER;
ALTER TABLE laneway_jobs ADD COLUMN landed_at INTEGER;
