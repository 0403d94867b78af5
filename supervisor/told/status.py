"""What is, and why: the facts of one status, as plain values. Nothing here loads a codec or a screen.

Liveness is the kernel's word (the lock) and the lock file's age, which the loop renews
at least once a second; a slow lander never reads as a dead supervisor (CONTRACTS K10).
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from landing import views
from landing.snapshot import snapshot, store_size
from policies.job import MICROS
from supervisor import sensors
from supervisor.lock import is_live, last_sign_of_life
from supervisor.told.gates import gates, models, number, paused, yielding
from supervisor.told.waiting import Run, waiting_facts

if TYPE_CHECKING:
    from sqlite3 import Connection

STALLED_SECONDS: Final = 5.0
RATED_SECONDS: Final = 1.0
"""An attempt that is younger has no rate worth telling."""
HOUR: Final = 3600 * MICROS
WAL_MB: Final = 128
"""Twice what the lander lets it grow to; only a reader can keep it from being folded back."""


def status(home: Path) -> dict[str, Any]:
    """Return the status of a home: JSON values, times in seconds, sizes in MB.

    Raises:
        NoStore: there is no store here.
        StoreError: it cannot be read.
    """
    now = sensors.now_micros()
    with snapshot(home) as db:
        run, counts, live = views.last_run(db), views.counts(db), is_live(home)
        stopping, held = stopping_since(db, run, live=live), held_now(db, run, live=live)
        row = run if live and run is not None and not run["clean"] else {}
        told, in_flight = row.get("told") or {}, views.in_flight(db)
        asked = yielding(told)
        here = Run(live, row, len(in_flight), ending=stopping is not None, held=by_kind(held))
        facts: dict[str, Any] = {
            "supervisor": supervisor_facts(home, run, now, stopping),
            "jobs": counts,
            "gates": gates(told),
            "models": models(told),
            "paused": paused(told, now),
            "slots": here.slots,
            "running": [running_facts(job, now, asked.get(str(job["id"])), live=live) for job in in_flight],
            "held": held,
            "waiting": waiting_facts(db, now, here),
            "next_wake": next_wake(db, now),
            "last_hour": views.ended_since(db, now - HOUR),
            "last_failed": last_failed(db) if counts.get("failed") else [],
            "survivors": survivors(db, now - HOUR),
        }
        free = views.free_bytes(db)
    size, wal = store_size(home)
    facts["landed"] = landed(facts["running"])
    facts["lanes"] = lanes(facts)
    facts |= {"store_mb": megabytes(size), "free_mb": megabytes(free), "wal_mb": megabytes(wal)}
    reasons = complaints(facts)
    return {"healthy": not reasons, "reasons": reasons, "home": str(home), **facts}


def stopping_since(db: "Connection", run: dict[str, Any] | None, *, live: bool) -> int | None:
    """Return when the run that lives was asked to stop, None if it was not, or none lives."""
    return views.stopping_since(db, run) if live and run is not None and not run["clean"] else None


def held_now(db: "Connection", run: dict[str, Any] | None, *, live: bool) -> list[dict[str, Any]]:
    """Return for which reasons the run that lives claims no more of some kinds."""
    return views.held(db, run) if live and run is not None and not run["clean"] else []


def supervisor_facts(
    home: Path, run: dict[str, Any] | None, now: int, stopping: int | None = None
) -> dict[str, Any]:
    """Say whether a supervisor is up, starting, stopping, stalled, down or died.

    `age_s` counts from its last sign of life, `stopping_s` from when it was asked to stop.
    """
    seen = last_sign_of_life(home)
    age = None if seen is None else max(0.0, round(now / MICROS - seen, 1))
    run = run or {"id": None, "pid": None, "started_at": None, "clean": 1}
    if is_live(home):
        up_or_not = "up" if stopping is None else "stopping"
        state = "starting" if run["clean"] else "stalled" if (age or 0) > STALLED_SECONDS else up_or_not
    else:
        state = "down" if run["clean"] else "died"
    up = round((now - run["started_at"]) / MICROS) if state in {"up", "stopping", "stalled"} else None
    return {
        "state": state,
        "run": run["id"],
        "pid": run["pid"],
        "age_s": age,
        "up_s": up,
        "stopping_s": None if stopping is None else round(max(0, now - stopping) / MICROS, 1),
        "stale": run.get("stale", 0),  # a store of the first schema does not count them
    }


def running_facts(
    row: dict[str, Any], now: int, yields: str | None = None, *, live: bool = True
) -> dict[str, Any]:
    """Return what one job in flight is at; `yields` is why it was asked for its slot.

    Where no supervisor lives, nothing lands and no limit runs.

    `rate` is rows a second over `rate_s`, the attempt so far; None where earlier attempts landed rows, too.
    `batch_s` is how long its first batch has been awaited; when the later ones came is written down nowhere.
    `batch_limit_s` is the limit that holds now, 0 for none.
    """
    started, batches = row["started_at"], row["landed_seq"]
    for_s = None if started is None else round(max(0, now - started) / MICROS, 1)
    is_first = live and row["landed_before"] == batches
    limits = ("start_deadline", "batch_deadline") if is_first else ("batch_deadline",)
    rated = live and row["landed_before"] == 0 and for_s is not None and for_s >= RATED_SECONDS
    return {
        "id": row["id"],
        "kind": row["kind"],
        "state": "cancelling" if row["cancel_requested_at"] else row["state"],
        "attempt": row["claims"],
        "rows": row["landed_rows"],
        "batches": batches,
        "done": row["done"],
        "total": row["total"],
        "for_s": for_s,
        "rate": round(row["landed_rows"] / for_s, 2) if rated and for_s else None,
        "rate_s": for_s if rated else None,
        "batch_s": for_s if is_first else None,
        "batch_limit_s": next(filter(None, (number(row["options"].get(name)) for name in limits)), 0),
        "yielding": yields,
    }


def next_wake(db: "Connection", now: int) -> dict[str, Any] | None:
    """Return which waiting job's time comes first, and in how many seconds."""
    if (row := views.next_wake(db)) is None:
        return None
    due = round(max(0, row["wake_at"] - now) / MICROS, 1)
    return {"id": row["id"], "kind": row["kind"], "reason": row["reason"], "in_s": due}


def by_kind(held: list[dict[str, Any]]) -> dict[str, str]:
    """Return the code of what holds each kind."""
    return {kind: one["code"] for one in held for kind in one["kinds"]}


def last_failed(db: "Connection") -> list[dict[str, Any]]:
    """Return the three newest failed jobs; `code` is the error code of the last attempt."""
    return [
        {
            "id": row["id"],
            "kind": row["kind"],
            "reason": row["reason"],
            "code": views.last_code(db, row["id"]),
        }
        for row in views.jobs(db, state="failed", limit=3)
    ]


def survivors(db: "Connection", since: int) -> list[dict[str, Any]]:
    """Return the jobs that a process or a thread outlived since `since`, and still does, each in words."""
    if not (rows := views.survivors(db, since)):
        return []
    from supervisor.holder import exists  # noqa: PLC0415 - nearly every status does without
    from supervisor.told.kills import alive  # noqa: PLC0415 - likewise; it loads dataclasses

    found = [(row["id"], alive(f"#{row['id']}", row["kill"], exists)) for row in rows]
    return [{"id": job, "pids": left, "text": text} for job, (left, text) in found if left]


def landed(running: list[dict[str, Any]]) -> dict[str, int]:
    """Sum what the jobs in flight have landed; a sum over all jobs would cost more the longer one runs."""
    return {name: sum(job[name] for job in running) for name in ("rows", "batches")}


def lanes(facts: dict[str, Any]) -> dict[str, dict[str, int]]:
    """Count running and waiting jobs of each kind that has any."""
    found: dict[str, dict[str, int]] = {}
    for job in facts["running"]:
        found.setdefault(job["kind"], {"running": 0, "waiting": 0})["running"] += 1
    for group in facts["waiting"]:
        found.setdefault(group["kind"], {"running": 0, "waiting": 0})["waiting"] += group["jobs"]
    return found


def complaints(facts: dict[str, Any]) -> list[str]:
    """Say what is not as it should be, one line each."""
    found, who = [], facts["supervisor"]
    undone = sum(facts["jobs"].get(state, 0) for state in ("pending", "queued", "leased", "running"))
    if who["state"] == "stalled":
        found.append(f"the supervisor (pid {who['pid']}) has not moved for {who['age_s']:g} s")
    if who["state"] == "died":
        found.append(f"run {who['run']} died; the next one recovers")
    elif who["state"] == "down" and undone:
        found.append(f"no supervisor runs, {undone:,} unfinished")
    found += [one["text"] for one in facts["held"]]
    found += [job["text"] for job in facts["survivors"]]
    if facts["wal_mb"] > WAL_MB:
        found.append(
            f"the WAL has grown to {facts['wal_mb']:g} MB: some process keeps an old snapshot of the store;"
            " find who has store.db open (fuser or lsof) and let it end its read transaction"
        )
    return found


def megabytes(size: int) -> float:
    """Return bytes in MB."""
    return round(size / 1e6, 2)
