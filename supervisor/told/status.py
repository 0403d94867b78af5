"""What is, and why: the facts of one status, as plain values. Nothing here loads a codec or a screen.

Liveness is the kernel's word (the lock) and the lock file's age, which the loop renews
at least once a second; a slow lander never reads as a dead supervisor (CONTRACTS K10).
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from landing import views
from landing.cells import whole
from landing.snapshot import snapshot, store_size
from policies.job import MICROS
from supervisor import sensors
from supervisor.lock import is_live, last_sign_of_life
from supervisor.told.gates import gates, models, paused
from supervisor.told.running import running
from supervisor.told.waiting import Run, waiting_facts

if TYPE_CHECKING:
    from sqlite3 import Connection

STALLED_SECONDS: Final = 5.0
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
        stopping, stopped = stopping_since(db, run, live=live), stopped_now(db, run, live=live)
        row = run if live and run is not None and not run["clean"] else {}
        told, in_flight, holds = row.get("told") or {}, views.in_flight(db), views.holds(db)
        here = Run(
            live,
            row,
            len(in_flight),
            ending=stopping is not None,
            stopped=by_kind(stopped),
            on_threads=on_threads(in_flight),
        )
        facts: dict[str, Any] = {
            "supervisor": supervisor_facts(home, run, now, stopping),
            "jobs": counts,
            "gates": gates(told),
            "models": models(told),
            "paused": paused(told, now),
            "slots": here.slots,
            "running": list(running(in_flight, now, row or None)),
            "claiming_stopped": stopped,
            "held_kinds": [{"kind": kind, "why": why} for kind, why in holds.items()],
            "waiting": waiting_facts(db, now, here, holds),
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


def stopped_now(db: "Connection", run: dict[str, Any] | None, *, live: bool) -> list[dict[str, Any]]:
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
        "stale": whole(run.get("stale"), 0),  # a store of the first schema does not count them
    }


def next_wake(db: "Connection", now: int) -> dict[str, Any] | None:
    """Return which waiting job's time comes first, and in how many seconds."""
    if (row := views.next_wake(db)) is None:
        return None
    due = round(max(0, row["wake_at"] - now) / MICROS, 1)
    return {"id": row["id"], "kind": row["kind"], "reason": row["reason"], "in_s": due}


def on_threads(in_flight: list[dict[str, Any]]) -> frozenset[str]:
    """Return the kinds of jobs in flight that run on a thread of the run."""
    return frozenset(job["kind"] for job in in_flight if job["options"].get("mode") == "inproc")


def by_kind(stopped: list[dict[str, Any]]) -> dict[str, str]:
    """Return why each kind of which no more is claimed is so, by its code."""
    return {kind: one["code"] for one in stopped for kind in one["kinds"]}


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
    elif who["state"] == "down" and undone and not all_held(facts):
        found.append(f"no supervisor runs, {undone:,} unfinished")
    found += [one["text"] for one in facts["claiming_stopped"]]
    found += [job["text"] for job in facts["survivors"]]
    if facts["wal_mb"] > WAL_MB:
        found.append(
            f"the WAL has grown to {facts['wal_mb']:g} MB: some process keeps an old snapshot of the store;"
            " find who has store.db open (fuser or lsof) and let it end its read transaction"
        )
    return found


def all_held(facts: dict[str, Any]) -> bool:
    """Tell whether all that is unfinished waits for somebody to let it go: no run would do any of it."""
    groups = facts.get("waiting", [])
    held = {"held", "kind_held"}
    in_flight = any(facts["jobs"].get(state) for state in ("leased", "running"))
    return bool(groups) and not in_flight and all(one["reason"] in held for one in groups)


def megabytes(size: int) -> float:
    """Return bytes in MB."""
    return round(size / 1e6, 2)
