"""What people ask of a store, as plain dicts; each bounded, none of them writes (SPEC C95, C97).

A cell that holds garbage degrades alone: a number becomes 0 or None, a blob text, JSON that is
none a JSON string of its beginning (payload, result) or None (the others).
"""

import json
import sqlite3
from collections.abc import Iterable, Mapping
from typing import Any, Final

from landing.cells import is_whole, mapping, shown, shown_json, whole
from landing.errors import JobNotFound
from landing.snapshot import version
from landing.sql import ask as sql
from landing.sql import control as control_sql
from landing.sql import schema as schema_sql
from policies.job import ENDED, State, as_id
from policies.payload import PAYLOAD_LIMIT

NEWEST: Final = 2**63 - 1
RESULT_LIMIT: Final = 8 << 20
MOST_PRUNABLE: Final = 1_000_000


def rows(db: sqlite3.Connection, statement: str, args: Any = ()) -> list[dict[str, Any]]:
    """Run a SELECT and return its rows as dicts."""
    cursor = db.execute(statement, args)
    names = [column[0] for column in cursor.description]
    return [{name: shown(name, cell) for name, cell in zip(names, row, strict=True)} for row in cursor]


def job(db: sqlite3.Connection, job_id: int) -> dict[str, Any]:
    """Return one job's row with its result.

    Raises:
        JobNotFound: no job has this id.
    """
    found = rows(db, sql.JOB, (as_id(job_id),))
    if not found:
        raise JobNotFound(job_id)
    row = found[0]
    row["payload"] = shown_json(row["payload"], PAYLOAD_LIMIT)
    row["options"] = None if mapping(row["options"]) is None else row["options"]
    row["result"] = None if row["result"] is None else shown_json(row["result"], RESULT_LIMIT)
    row["skip"] = whole(row["skip"], 0)
    return row


def discard(db: sqlite3.Connection, job_id: int) -> dict[str, bool]:
    """Return whether what a job has landed is to go (`due`), and its lane can remove it (`possible`).

    A store of the first schema knows of no discards.
    """
    found = db.execute(control_sql.DISCARD, (as_id(job_id),)).fetchone() if version(db) > 1 else None
    due, possible = found or (0, 0)
    return {"due": due == 1, "possible": possible == 1}


def last_code(db: sqlite3.Connection, job_id: int) -> str | None:
    """Return the error code of a job's last attempt that has ended, None where it has none."""
    found = db.execute(sql.LAST_CODE, (as_id(job_id),)).fetchone()
    return found[0] if found and isinstance(found[0], str) else None


def jobs(
    db: sqlite3.Connection,
    *,
    state: str | None = None,
    kind: str | None = None,
    tag: str | None = None,
    before: int | None = None,
    limit: int = 50,
) -> list[dict[str, Any]]:
    """Return jobs, newest first, `limit` 1 to 1000; `before` is the id of the last one of the page before."""
    newest = min(NEWEST if before is None else max(before, 0), NEWEST)
    page = {"state": state, "kind": kind, "tag": tag, "before": newest, "limit": max(1, min(limit, 1000))}
    found = rows(db, page_of(state, kind, tag), page)
    return [row | {"payload": shown_json(row["payload"], PAYLOAD_LIMIT)} for row in found]


def ids(
    db: sqlite3.Connection,
    *,
    state: str,
    kind: str | None = None,
    tag: str | None = None,
    after: int = 0,
    limit: int = 200,
) -> list[int]:
    """Return ids of jobs in a state, oldest first; `after` is the last one of the page before."""
    page = {"state": state, "kind": kind, "tag": tag, "after": after, "limit": limit}
    return [job for (job,) in db.execute(sql.IDS if tag is None else sql.IDS_TAGGED, page)]


def page_of(state: str | None, kind: str | None, tag: str | None) -> str:
    """Return the statement that walks the index of the filter that leaves the fewest rows."""
    if tag is not None:
        return sql.JOBS_TAGGED
    if state is not None:
        return sql.JOBS_IN_STATE
    return sql.JOBS if kind is None else sql.JOBS_OF_KIND


def prunable(
    db: sqlite3.Connection,
    before: int,
    states: Iterable[State],
    kind: str | None = None,
    tag: str | None = None,
) -> int:
    """Return how many jobs a Prune of these would delete in the end; counts to 1,000,000."""
    which = {
        "before": before,
        "states": json.dumps(sorted(ENDED.intersection(states))),
        "kind": kind,
        "tag": tag,
        "limit": MOST_PRUNABLE,
    }
    (number,) = db.execute(sql.PRUNABLE_COUNT if tag is None else sql.PRUNABLE_TAGGED_COUNT, which).fetchone()
    return int(number)


def attempts(db: sqlite3.Connection, job_id: int) -> list[dict[str, Any]]:
    """Return a job's last 200 attempts, first to last, with their receipts' fields (None while under way).

    A receipt of schema 1 or 2 knows nothing of its `world`.
    """
    statement = sql.ATTEMPTS if version(db) > 2 else sql.ATTEMPTS_WITHOUT_WORLDS
    found = rows(db, statement, (as_id(job_id),))[::-1]
    for row in found:
        for name in ("error", "exit", "kill", "world"):
            row[name] = mapping(row[name])
    return found


def events(db: sqlite3.Connection, job_id: int) -> list[dict[str, Any]]:
    """Return a job's first 200 events, oldest first."""
    found = rows(db, sql.EVENTS, (as_id(job_id),))
    for row in found:
        row["detail"] = mapping(row["detail"])
    return found


def counts(db: sqlite3.Connection) -> dict[str, int]:
    """Return how many jobs are in each state that has any; the same cost at any depth."""
    return {str(state): whole(jobs, 0) for state, jobs in db.execute(sql.COUNTS)}


def kinds(db: sqlite3.Connection) -> dict[str, dict[str, Any]]:
    """Return the declared kinds with their app and options."""
    return {row["kind"]: row | {"options": mapping(row["options"]) or {}} for row in rows(db, sql.KINDS)}


def routed(db: sqlite3.Connection, kind: str) -> dict[str, Any] | None:
    """Return the options of a kind whose application has a router; None for any other kind."""
    found = rows(db, sql.ROUTED, (kind,))
    return mapping(found[0]["options"]) or {} if found else None


def declared(db: sqlite3.Connection) -> frozenset[str]:
    """Return the names of the declared kinds."""
    return frozenset(row["kind"] for row in rows(db, sql.KIND_NAMES))


def last_run(db: sqlite3.Connection) -> dict[str, Any] | None:
    """Return the newest run's row, or None when nobody ever ran here.

    `kinds` are those that it can run, `told` is how its gates stand; each None where it says nothing.
    """
    found = rows(db, sql.LAST_RUN)
    if not found:
        return None
    run = found[0]
    return run | {"kinds": names(run.get("kinds")), "told": mapping(run.get("told"))}


def names(text: Any) -> list[str] | None:
    """Return the names that a cell holds as a JSON list, or None."""
    found = mapping(f'{{"names": {text}}}') if isinstance(text, str) else None
    listed = (found or {}).get("names")
    return [one for one in listed if isinstance(one, str)] if isinstance(listed, list) else None


def stopping_since(db: sqlite3.Connection, run: Mapping[str, Any]) -> int | None:
    """Return when a run was asked to stop (microseconds UTC), None if it was not.

    Args:
        db: the store.
        run: its row, of a run that lives; only such a one stops.
    """
    (since,) = db.execute(sql.STOPPING_SINCE, {"run": run["id"], "since": run["started_at"]}).fetchone()
    return since if is_whole(since) else None


def held(db: sqlite3.Connection, run: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return for which reasons a run claims no more of some kinds: `code`, `text` and `kinds` of each."""
    told = [mapping(text) for (text,) in db.execute(sql.HELD, {"run": run["id"], "since": run["started_at"]})]
    return [dict(one) for one in told if one is not None and one.keys() >= {"code", "text", "kinds"}]


def in_flight(db: sqlite3.Connection) -> list[dict[str, Any]]:
    """Return at most 64 leased or running jobs, with their limits: their own over those of their kind.

    `landed_before` is the number of the last batch that had landed when the attempt began, or None;
    `rows_before` is how many rows of them there still are, `landed_at` when its last batch landed or it began
    (None where nobody knows), `pid` the process that works (0 for a thread). Schema 4 and later know these.
    """
    statement = sql.IN_FLIGHT_JOBS if version(db) > 3 else sql.IN_FLIGHT_BEFORE
    unknown = {"pid": 0, "rows_before": None, "landed_at": None}
    return [
        unknown
        | row
        | {
            "options": (mapping(row.pop("kind_options")) or {}) | (mapping(row["options"]) or {}),
            "landed_before": row["landed_before"] if is_whole(row["landed_before"]) else None,
        }
        for row in rows(db, statement)
    ]


def waiting(db: sqlite3.Connection) -> list[dict[str, Any]]:
    """Return the kinds with queued jobs: since when the oldest waits, how many (counted to 1,000 a group)."""
    return rows(db, sql.WAITING_GROUPS)


def pending(db: sqlite3.Connection) -> list[dict[str, Any]]:
    """Return pending jobs by kind and reason, each with the next wake; looks at 1,000 rows at most."""
    return rows(db, sql.PENDING)


def deferred(db: sqlite3.Connection) -> list[dict[str, Any]]:
    """Return deferred jobs like pending ones."""
    return rows(db, sql.DEFERRED)


def exclusive(db: sqlite3.Connection) -> dict[str, int]:
    """Return by kind whom its jobs wait for that may not run beside another, of one key each."""
    found = rows(db, sql.EXCLUSIVE) if version(db) > 3 else []
    return {row["kind"]: row["before"] for row in found if is_whole(row["before"])}


def holds(db: sqlite3.Connection) -> dict[str, str]:
    """Return the kinds that are held, each with the reason that was given; before schema 4 none is."""
    found = rows(db, sql.HELD_KINDS) if version(db) > 3 else []
    return {row["kind"]: row["why"] if isinstance(row["why"], str) else "" for row in found}


def next_wake(db: sqlite3.Connection) -> dict[str, Any] | None:
    """Return the waiting job whose time comes first, None where none waits for a time."""
    return next(iter(rows(db, sql.NEXT_WAKE)), None)


def ended_since(db: sqlite3.Connection, since: int) -> dict[str, int]:
    """Return how many attempts ended since `since` (microseconds UTC) by outcome; counts to 10,000."""
    found = rows(db, sql.ENDED_SINCE, {"since": since})
    return {str(row["outcome"]): row["attempts"] for row in found}


def survivors(db: sqlite3.Connection, since: int) -> list[dict[str, Any]]:
    """Return the jobs (`id`) that a process or thread outlived, and the `kill`, since `since` (micros UTC).

    Newest first, at most 20, of the last 1,000 attempts that ended.
    """
    return [row | {"kill": mapping(row["kill"])} for row in rows(db, sql.SURVIVORS, {"since": since})]


def has_migrated(db: sqlite3.Connection, app: str) -> bool:
    """Tell whether an application's tables are here."""
    return bool(rows(db, schema_sql.APP_MIGRATIONS, (app,)))


def free_bytes(db: sqlite3.Connection) -> int:
    """Return how much of the store's file is free pages, which the next rows will fill."""
    pages, size = (int(db.execute(pragma).fetchone()[0]) for pragma in (sql.FREE_PAGES, sql.PAGE_SIZE))
    return pages * size


def data_version(db: sqlite3.Connection) -> int:
    """Return a number that changes when another connection has committed."""
    return int(db.execute("PRAGMA data_version").fetchone()[0])
