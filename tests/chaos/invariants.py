"""What must hold after whatever happened, asked of the store by a connection of its own."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

IN_FLIGHT = "('leased', 'running')"

RULES = {
    "a row is missing, repeated or out of order (job, number, the number due)": """
        SELECT job, n, due FROM (
          SELECT job, n, row_number() OVER (PARTITION BY job ORDER BY rowid) - 1 AS due
          FROM chaos_rows WHERE job > ?
        ) WHERE n <> due LIMIT 5""",
    "rows of a job that is not there": """
        SELECT DISTINCT job FROM chaos_rows WHERE job NOT IN (SELECT id FROM laneway_jobs) LIMIT 5""",
    "landed_rows is not the number of rows (job, landed_rows, rows)": """
        SELECT id, landed_rows, (SELECT COUNT(*) FROM chaos_rows WHERE job = id) AS found
        FROM laneway_jobs WHERE id > ? AND kind <> 'restart' AND landed_rows <> found LIMIT 5""",
    "a job is done without all of its rows (job, rows, found)": """
        SELECT id, json_extract(payload, '$.rows') AS due,
               (SELECT COUNT(*) FROM chaos_rows WHERE job = id) AS found
        FROM laneway_jobs WHERE id > ? AND state = 'done' AND found <> due LIMIT 5""",
    "a job has failed (job, state, reason)": """
        SELECT id, state, reason FROM laneway_jobs
        WHERE state NOT IN ('queued', 'pending', 'leased', 'running', 'done', 'cancelled') LIMIT 5""",
    "a row in flight has no fence or no lease (job)": f"""
        SELECT id FROM laneway_jobs WHERE state IN {IN_FLIGHT}
        AND (fence IS NULL OR lease_expires_at IS NULL OR run_id IS NULL) LIMIT 5""",
    "a row that is not in flight has a fence or a lease (job)": f"""
        SELECT id FROM laneway_jobs WHERE state NOT IN {IN_FLIGHT}
        AND (fence IS NOT NULL OR lease_expires_at IS NOT NULL) LIMIT 5""",
    "an ended attempt has no receipt (job, attempt)": f"""
        SELECT a.job_id, a.number FROM laneway_attempts a JOIN laneway_jobs j ON j.id = a.job_id
        LEFT JOIN laneway_receipts r ON r.attempt_id = a.id
        WHERE r.attempt_id IS NULL AND NOT (j.state IN {IN_FLIGHT} AND j.claims = a.number) LIMIT 5""",
    "an attempt in flight has a receipt (job, attempt)": f"""
        SELECT a.job_id, a.number FROM laneway_attempts a JOIN laneway_jobs j ON j.id = a.job_id
        JOIN laneway_receipts r ON r.attempt_id = a.id
        WHERE j.state IN {IN_FLIGHT} AND j.claims = a.number LIMIT 5""",
    "a receipt has no attempt (attempt)": """
        SELECT attempt_id FROM laneway_receipts
        WHERE attempt_id NOT IN (SELECT id FROM laneway_attempts) LIMIT 5""",
    "a claim has no attempt, or an attempt no claim (job, claims, attempts)": """
        SELECT id, claims, found FROM (
          SELECT j.id, claims, (SELECT COUNT(*) FROM laneway_attempts a WHERE a.job_id = j.id) AS found
          FROM laneway_jobs j
        ) WHERE claims <> found LIMIT 5""",
    "more than one run has not ended (runs)": """
        SELECT COUNT(*) FROM laneway_runs WHERE stopped_at IS NULL HAVING COUNT(*) > 1""",
    "the counts of states are wrong (state, counted, found)": """
        SELECT c.state, c.jobs, (SELECT COUNT(*) FROM laneway_jobs j WHERE j.state = c.state) AS found
        FROM laneway_counts c WHERE c.jobs <> found LIMIT 5""",
}
"""What is never there, whatever died and when, with the query that finds it; `?` is the last settled job."""


def wrongs(db: sqlite3.Connection, settled: int, *, whole: bool) -> Iterator[str]:
    """Yield all that is wrong with a store, be it that it cannot be read; see the two below."""
    try:
        yield from violations(db, settled)
        yield from damage(db, whole=whole)
    except sqlite3.Error as error:
        yield f"the store cannot be read: {error}"


def violations(db: sqlite3.Connection, settled: int) -> Iterator[str]:
    """Yield what is wrong with its rows.

    Args:
        db: a connection that only reads.
        settled: jobs up to this id had ended, and were right, at an earlier look; 0 looks at all.
    """
    for wrong, query in RULES.items():
        if found := db.execute(query, (settled,) * query.count("?")).fetchall():
            yield f"{wrong}: {', '.join(str(tuple(row)) for row in found)}"


def damage(db: sqlite3.Connection, *, whole: bool) -> Iterator[str]:
    """Yield what SQLite finds broken in the file: `whole` also compares each index with its table."""
    check = "integrity_check" if whole else "quick_check"
    if (said := [row[0] for row in db.execute(f"PRAGMA {check}")]) != ["ok"]:
        yield f"{check}: {said[:5]}"
    if broken := db.execute("PRAGMA foreign_key_check").fetchall():
        yield f"foreign_key_check: {broken[:5]}"


def last_settled(db: sqlite3.Connection, settled: int) -> int:
    """Return the id up to which all jobs have ended, or `settled`."""
    query = "SELECT MIN(id) - 1 FROM laneway_jobs WHERE id > ? AND state NOT IN ('done', 'cancelled')"
    (first_open,) = db.execute(query, (settled,)).fetchone()
    return int(first_open) if first_open is not None else settled


def open_store(home: Path) -> sqlite3.Connection:
    """Open a connection that only reads, without any code of the project."""
    return sqlite3.connect(f"{(home / 'store.db').absolute().as_uri()}?mode=ro", uri=True, timeout=10.0)
