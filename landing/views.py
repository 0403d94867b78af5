"""What people ask of a store, as plain dicts; each bounded, none of them writes (SPEC C95, C97)."""

import json
import sqlite3
from typing import Any

from landing import sql
from landing.errors import JobNotFound


def rows(db: sqlite3.Connection, statement: str, args: Any = ()) -> list[dict[str, Any]]:
    """Run a SELECT and return its rows as dicts."""
    cursor = db.execute(statement, args)
    names = [column[0] for column in cursor.description]
    return [dict(zip(names, row, strict=True)) for row in cursor]


def job(db: sqlite3.Connection, job_id: int) -> dict[str, Any]:
    """Return one job's row with its result.

    Raises:
        JobNotFound: no job has this id.
    """
    found = rows(db, sql.JOB, (job_id,))
    if not found:
        raise JobNotFound(str(job_id), f"no job #{job_id}")
    return found[0]


def jobs(
    db: sqlite3.Connection, *, state: str | None = None, kind: str | None = None, before: int | None = None, limit: int = 50
) -> list[dict[str, Any]]:
    """Return jobs, newest first, `limit` 1 to 1000; `before` is the id of the last one of the page before."""
    page = {"state": state, "kind": kind, "before": before or 2**62, "limit": max(1, min(limit, 1000))}
    return rows(db, sql.JOBS if state is None else sql.JOBS_IN_STATE, page)


def attempts(db: sqlite3.Connection, job_id: int) -> list[dict[str, Any]]:
    """Return a job's attempts, first to last, each with its receipt's fields (None while it is under way)."""
    found = rows(db, sql.ATTEMPTS, (job_id,))
    for row in found:
        for name in ("error", "exit", "kill"):
            row[name] = json.loads(row[name]) if row[name] else None
    return found


def events(db: sqlite3.Connection, job_id: int) -> list[dict[str, Any]]:
    """Return a job's first 200 events, oldest first."""
    found = rows(db, sql.EVENTS, (job_id,))
    for row in found:
        row["detail"] = json.loads(row["detail"]) if row["detail"] else None
    return found


def counts(db: sqlite3.Connection) -> dict[str, int]:
    """Return how many jobs are in each state that has any; the same cost at any depth."""
    return dict(db.execute(sql.COUNTS).fetchall())


def kinds(db: sqlite3.Connection) -> dict[str, dict[str, Any]]:
    """Return the declared kinds with their app and options."""
    return {row["kind"]: row | {"options": json.loads(row["options"])} for row in rows(db, sql.KINDS)}


def last_run(db: sqlite3.Connection) -> dict[str, Any] | None:
    """Return the newest run's row, or None when nobody ever ran here."""
    found = rows(db, sql.LAST_RUN)
    return found[0] if found else None


def in_flight(db: sqlite3.Connection) -> list[dict[str, Any]]:
    """Return at most 64 leased or running jobs."""
    return rows(db, sql.IN_FLIGHT_JOBS)


def waiting(db: sqlite3.Connection) -> list[dict[str, Any]]:
    """Return the kinds that have queued jobs: the time the oldest has waited since, how many (counted to 1,000)."""
    return rows(db, sql.WAITING_GROUPS)


def pending(db: sqlite3.Connection) -> list[dict[str, Any]]:
    """Return pending jobs grouped by kind and reason, each with the next wake; looks at 1,000 rows at most."""
    return rows(db, sql.PENDING)


def ended_since(db: sqlite3.Connection, since: int) -> dict[str, int]:
    """Return how many attempts have ended since `since` (microseconds UTC) by outcome; counts 10,000 at most."""
    return dict(db.execute(sql.ENDED_SINCE, {"since": since}).fetchall())


def has_migrated(db: sqlite3.Connection, app: str) -> bool:
    """Tell whether an application's tables are here."""
    return bool(rows(db, sql.APP_MIGRATIONS, (app,)))


def data_version(db: sqlite3.Connection) -> int:
    """Return a number that changes when another connection has committed."""
    return int(db.execute("PRAGMA data_version").fetchone()[0])
