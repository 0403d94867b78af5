-- Times are microseconds UTC, money is millionths of the currency.

CREATE TABLE laneway_meta (
  name TEXT PRIMARY KEY,
  value TEXT NOT NULL
) WITHOUT ROWID;

-- clean: 1 stopped as it should, 2 found dead by its successor (stopped_at is then when it was found).
CREATE TABLE laneway_runs (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  pid INTEGER NOT NULL,
  boot TEXT NOT NULL,
  version TEXT NOT NULL,
  marker TEXT NOT NULL,
  started_at INTEGER NOT NULL,
  stopped_at INTEGER,
  clean INTEGER NOT NULL DEFAULT 0,
  recovered INTEGER NOT NULL DEFAULT 0
);

-- What enqueue, show and cancel know without the application.
CREATE TABLE laneway_kinds (
  kind TEXT PRIMARY KEY,
  app TEXT NOT NULL,
  options TEXT NOT NULL,
  registered_at INTEGER NOT NULL
) WITHOUT ROWID;

-- A claim looks only at the head of each group.
CREATE TABLE laneway_groups (
  id INTEGER PRIMARY KEY,
  kind TEXT NOT NULL,
  priority INTEGER NOT NULL,
  tier TEXT NOT NULL,
  num_ctx INTEGER NOT NULL,
  UNIQUE (kind, priority, tier, num_ctx)
);

CREATE TABLE laneway_jobs (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  key TEXT,
  kind TEXT NOT NULL,
  tag TEXT,
  state TEXT NOT NULL CHECK (state IN ('pending', 'queued', 'leased', 'running', 'deferred', 'done',
                                       'failed', 'failed_optional', 'skipped', 'cancelled')),
  reason TEXT,
  group_id INTEGER NOT NULL REFERENCES laneway_groups (id),
  priority INTEGER NOT NULL,
  tier TEXT NOT NULL DEFAULT '',
  num_ctx INTEGER NOT NULL DEFAULT 0,
  payload TEXT NOT NULL,
  options TEXT,
  max_cost INTEGER,
  created_at INTEGER NOT NULL,
  waiting_since INTEGER NOT NULL,
  started_at INTEGER,
  finished_at INTEGER,
  claims INTEGER NOT NULL DEFAULT 0,
  failures INTEGER NOT NULL DEFAULT 0,
  deferrals INTEGER NOT NULL DEFAULT 0,
  fence TEXT,
  run_id INTEGER,
  lease_expires_at INTEGER,
  cancel_requested_at INTEGER,
  awake INTEGER NOT NULL DEFAULT 0,
  landed_seq INTEGER NOT NULL DEFAULT 0,
  landed_rows INTEGER NOT NULL DEFAULT 0,
  mark TEXT,
  skip INTEGER NOT NULL DEFAULT 0,
  digest BLOB NOT NULL DEFAULT x'',
  done INTEGER,
  total INTEGER,
  spent INTEGER NOT NULL DEFAULT 0,
  watch TEXT,
  watch_key TEXT,
  wake_at INTEGER,
  CHECK (state NOT IN ('leased', 'running') OR (fence IS NOT NULL AND lease_expires_at IS NOT NULL)),
  CHECK (state IN ('leased', 'running') OR (fence IS NULL AND lease_expires_at IS NULL))
);
CREATE INDEX laneway_jobs_heads ON laneway_jobs (group_id, waiting_since, id) WHERE state = 'queued';
CREATE INDEX laneway_jobs_wakes ON laneway_jobs (wake_at) WHERE wake_at IS NOT NULL;
CREATE INDEX laneway_jobs_watches ON laneway_jobs (watch, watch_key) WHERE watch IS NOT NULL;
CREATE INDEX laneway_jobs_in_flight ON laneway_jobs (run_id) WHERE state IN ('leased', 'running');
CREATE INDEX laneway_jobs_cancels ON laneway_jobs (id) WHERE cancel_requested_at IS NOT NULL;
CREATE INDEX laneway_jobs_states ON laneway_jobs (state, id);
CREATE INDEX laneway_jobs_keys ON laneway_jobs (kind, key) WHERE key IS NOT NULL;
CREATE INDEX laneway_jobs_tags ON laneway_jobs (tag) WHERE tag IS NOT NULL;

-- How many jobs are in each state, kept by trigger so that status costs the same at any depth.
CREATE TABLE laneway_counts (
  state TEXT PRIMARY KEY,
  jobs INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TRIGGER laneway_jobs_counted AFTER INSERT ON laneway_jobs BEGIN
  INSERT INTO laneway_counts VALUES (NEW.state, 1) ON CONFLICT DO UPDATE SET jobs = jobs + 1;
END;
CREATE TRIGGER laneway_jobs_moved AFTER UPDATE OF state ON laneway_jobs WHEN OLD.state <> NEW.state BEGIN
  UPDATE laneway_counts SET jobs = jobs - 1 WHERE state = OLD.state;
  INSERT INTO laneway_counts VALUES (NEW.state, 1) ON CONFLICT DO UPDATE SET jobs = jobs + 1;
END;
CREATE TRIGGER laneway_jobs_deleted AFTER DELETE ON laneway_jobs BEGIN
  UPDATE laneway_counts SET jobs = jobs - 1 WHERE state = OLD.state;
END;

CREATE TABLE laneway_dependencies (
  job_id INTEGER NOT NULL REFERENCES laneway_jobs (id),
  needs_id INTEGER NOT NULL REFERENCES laneway_jobs (id),
  required INTEGER NOT NULL,
  PRIMARY KEY (job_id, needs_id)
) WITHOUT ROWID;
CREATE INDEX laneway_dependencies_needs ON laneway_dependencies (needs_id);

CREATE TABLE laneway_results (
  job_id INTEGER PRIMARY KEY REFERENCES laneway_jobs (id),
  body TEXT NOT NULL
);

-- Facts at the claim. Append-only, like receipts: one terminal fact an attempt.
CREATE TABLE laneway_attempts (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  job_id INTEGER NOT NULL REFERENCES laneway_jobs (id),
  number INTEGER NOT NULL,
  run_id INTEGER NOT NULL,
  pid INTEGER NOT NULL,
  fence TEXT NOT NULL,
  claimed_at INTEGER NOT NULL,
  landed_seq INTEGER NOT NULL,
  reserved INTEGER NOT NULL DEFAULT 0,
  UNIQUE (job_id, number)
);

CREATE TABLE laneway_receipts (
  attempt_id INTEGER PRIMARY KEY REFERENCES laneway_attempts (id),
  job_id INTEGER NOT NULL REFERENCES laneway_jobs (id),
  outcome TEXT NOT NULL,
  started_at INTEGER,
  finished_at INTEGER NOT NULL,
  error_code TEXT,
  error TEXT,
  exit TEXT,
  kill TEXT,
  spent INTEGER NOT NULL DEFAULT 0,
  log TEXT NOT NULL DEFAULT ''
);
CREATE INDEX laneway_receipts_job ON laneway_receipts (job_id);
CREATE INDEX laneway_receipts_time ON laneway_receipts (finished_at);

CREATE TABLE laneway_events (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  at INTEGER NOT NULL,
  job_id INTEGER,
  run_id INTEGER,
  name TEXT NOT NULL,
  detail TEXT
);
CREATE INDEX laneway_events_job ON laneway_events (job_id, id) WHERE job_id IS NOT NULL;

-- Prune alone may delete, under a row in meta; REPLACE would delete behind a trigger's back, so it is refused too.
CREATE TRIGGER laneway_attempts_no_update BEFORE UPDATE ON laneway_attempts
  BEGIN SELECT RAISE (ABORT, 'attempts are append-only'); END;
CREATE TRIGGER laneway_attempts_no_delete BEFORE DELETE ON laneway_attempts
  WHEN NOT EXISTS (SELECT 1 FROM laneway_meta WHERE name = 'pruning')
  BEGIN SELECT RAISE (ABORT, 'attempts are append-only'); END;
CREATE TRIGGER laneway_attempts_no_replace BEFORE INSERT ON laneway_attempts
  WHEN EXISTS (SELECT 1 FROM laneway_attempts
               WHERE id = NEW.id OR (job_id = NEW.job_id AND number = NEW.number))
  BEGIN SELECT RAISE (ABORT, 'attempts are append-only'); END;
CREATE TRIGGER laneway_receipts_no_update BEFORE UPDATE ON laneway_receipts
  BEGIN SELECT RAISE (ABORT, 'receipts are append-only'); END;
CREATE TRIGGER laneway_receipts_no_delete BEFORE DELETE ON laneway_receipts
  WHEN NOT EXISTS (SELECT 1 FROM laneway_meta WHERE name = 'pruning')
  BEGIN SELECT RAISE (ABORT, 'receipts are append-only'); END;
CREATE TRIGGER laneway_receipts_no_replace BEFORE INSERT ON laneway_receipts
  WHEN EXISTS (SELECT 1 FROM laneway_receipts WHERE attempt_id = NEW.attempt_id)
  BEGIN SELECT RAISE (ABORT, 'receipts are append-only'); END;

CREATE TABLE laneway_app_migrations (
  app TEXT NOT NULL,
  number INTEGER NOT NULL,
  digest TEXT NOT NULL,
  applied_at INTEGER NOT NULL,
  PRIMARY KEY (app, number)
) WITHOUT ROWID;
