"""One job's story as plain values: what `show --json` prints and the screen is made from.

row + attempts with receipts + events  ->  id, key, kind, state ... waits, attempts, landed, events
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from landing import views
from landing.snapshot import snapshot
from policies.job import ENDED, IN_FLIGHT, WAITING, State
from policies.transitions import TRANSITIONS, Move
from supervisor import sensors
from supervisor.lock import is_live
from supervisor.told.plan import plan
from supervisor.told.reasons import (
    GUESSES,
    NO_CHILD,
    UNTIL,
    Wait,
    closed_gates,
    in_words,
    of_kind,
    why_queued,
)
from supervisor.told.status import by_kind, stopped_now, stopping_since
from supervisor.told.units import iso

if TYPE_CHECKING:
    from sqlite3 import Connection

RETRIABLE: Final = TRANSITIONS[Move.RESUME][0]
"""States from which a retry leads to another attempt."""


def story(home: Path, job: int) -> dict[str, Any]:
    """Return all that is known of a job as JSON values; times are ISO text in UTC.

    Raises:
        NoStore: there is no store here.
        JobNotFound: no such job.
    """
    with snapshot(home) as db:
        row = views.job(db, job)
        attempts, events = views.attempts(db, job), views.events(db, job)
        holding = waits_now(db, row, live=is_live(home))
        discard = views.discard(db, job)
        declared = views.kinds(db).get(row["kind"], {}).get("options", {})
    return {
        "id": row["id"],
        "key": row["key"],
        "kind": row["kind"],
        "tag": row["tag"],
        "state": row["state"],
        "reason": row["reason"],
        "priority": row["priority"],
        "tier": row["tier"],
        "payload": json.loads(row["payload"]),
        "result": json.loads(row["result"]) if row["result"] else None,
        "created_at": iso(row["created_at"]),
        "finished_at": iso(row["finished_at"]),
        "limits": json.loads(row["options"]) if row["options"] else {},
        "progress": {"done": row["done"], "total": row["total"]},
        "failures": row["failures"],
        "max_attempts": declared.get("max_attempts"),
        "unique": declared.get("unique"),
        "exclusive_by": declared.get("exclusive_by") or None,
        "deferrals": row["deferrals"],
        "waits": holding,
        "plan": next_plan(row, discard, declared.get("resume")),
        "attempts": [attempt_story(one, row) for one in attempts],
        "landed": {
            "batches": row["landed_seq"],
            "rows": row["landed_rows"],
            "mark": row["mark"],
            "discards": discard["possible"],
        },
        "events": [event_story(one) for one in events],
    }


def next_plan(
    row: Mapping[str, Any], discard: Mapping[str, bool], resume: str | None
) -> dict[str, Any] | None:
    """Say what the next attempt does with what has landed; None where nothing has, or none can come."""
    begun = row["landed_rows"] or row["mark"] is not None
    if not begun or row["state"] not in WAITING | RETRIABLE:
        return None
    return plan(row, discard, resume)._asdict()


def waits_now(db: "Connection", row: Mapping[str, Any], *, live: bool) -> list[dict[str, Any]]:
    """Return every reason that holds a job now: those of its kind before its own."""
    kind, run, holds = row["kind"], views.last_run(db), views.holds(db)
    serving = run if live and run is not None and not run["clean"] else {}
    loaded = serving.get("kinds") or []
    closed = list(of_kind(kind, holds, declared := views.declared(db)))
    not_loaded = "kind_not_loaded" if loaded and kind in declared - set(loaded) else ""
    found = waits(
        row,
        sensors.now_micros(),
        live=live,
        running=len(views.in_flight(db)),
        ending=stopping_since(db, run, live=live) is not None,
        stopped=by_kind(stopped_now(db, run, live=live)).get(kind, not_loaded),
    )
    if row["state"] not in WAITING:
        return found
    closed += closed_gates(serving, kind)
    if closed and not not_loaded:
        found = [one for one in found if one["reason"] not in GUESSES]
    elif kind in loaded:
        found = [NO_CHILD._asdict() if one["reason"] == "kind_not_loaded" else one for one in found]
    return [*(one._asdict() for one in closed), *found]


def waits(
    row: Mapping[str, Any], now: int, *, live: bool, running: int, ending: bool = False, stopped: str = ""
) -> list[dict[str, Any]]:
    """Return why a job itself waits: each reason's name, its words, until when if that is known."""
    found: list[tuple[str, str | None]] = []
    if row["state"] in {State.PENDING, State.DEFERRED}:
        found.append((row["reason"] or row["state"], iso(row["wake_at"])))
    elif row["state"] == State.QUEUED and live:
        waited = now - row["waiting_since"]
        why = why_queued(live=live, running=running, waited=waited, ending=ending, stopped=stopped)
        found += [] if why == "queued" else [(why, UNTIL.get(why))]
    if not live and row["state"] in IN_FLIGHT:
        found.append(("orphaned", None))
    if not live and row["state"] not in ENDED:
        found.append(("no_supervisor", None))
    return [Wait(why, in_words(why, running), until)._asdict() for why, until in found]


def attempt_story(attempt: Mapping[str, Any], row: Mapping[str, Any]) -> dict[str, Any]:
    """Return one attempt; its outcome is None while it is under way."""
    under_way = attempt["outcome"] is None
    started = row["started_at"] if under_way and attempt["number"] == row["claims"] else attempt["started_at"]
    return {
        "number": attempt["number"],
        "claimed_at": iso(attempt["claimed_at"]),
        "started_at": iso(started),
        "finished_at": iso(attempt["finished_at"]),
        "outcome": attempt["outcome"],
        "code": attempt["error_code"],
        "error": attempt["error"],
        "exit": attempt["exit"],
        "kill": attempt["kill"],
        "world": attempt["world"],
        "spent": attempt["spent"],
        "log": attempt["log"],
        "run": attempt["run_id"],
    }


def event_story(event: Mapping[str, Any]) -> dict[str, Any]:
    """Return one event of a job."""
    return {"at": iso(event["at"]), "name": event["name"], "run": event["run_id"], "detail": event["detail"]}
