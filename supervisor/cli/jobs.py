"""`supervisor jobs` and `supervisor logs`."""

from typing import Any, Final

from supervisor import sensors
from supervisor.cli.output import page, plain, print_json, short
from supervisor.client import Client
from supervisor.settings.place import find_home
from supervisor.told.units import duration, iso

HEAD: Final = ("ID", "KIND", "STATE", "AGE", "ROWS", "WHY", "PAYLOAD")


def jobs_command(
    *, home: str | None, as_json: bool, state: str | None, kind: str | None, limit: int, before: int | None
) -> int:
    """Print one page of jobs."""
    rows = Client(find_home(home)).jobs(state=state, kind=kind, before=before, limit=limit)
    if as_json:
        print_json([json_row(row) for row in rows])
        return 0
    if not rows:
        print("no jobs" if before is None else f"no jobs below #{before}")
        return 0
    now = sensors.now_micros()
    print("\n".join(page([HEAD, *(cells(row, now) for row in rows)])))
    if len(rows) == limit:
        print(f"more: supervisor jobs --before {rows[-1]['id']}")
    return 0


def cells(row: dict[str, Any], now: int) -> tuple[str, ...]:
    """Return one job's cells."""
    age = duration((now - row["created_at"]) / 1e6)
    why = "" if row["reason"] in {None, row["state"]} else short(row["reason"], 60)
    return (
        str(row["id"]),
        plain(row["kind"]),
        "cancelling" if row["cancel_requested_at"] else row["state"],
        age,
        f"{row['landed_rows']:,}",
        why,
        short(row["payload"], 60),
    )


def json_row(row: dict[str, Any]) -> dict[str, Any]:
    """Return one job as JSON values; its whole story is in `show`."""
    names = ("id", "key", "kind", "tag", "state", "reason", "priority", "claims", "failures")
    return {
        **{name: row[name] for name in names},
        "landed": {"batches": row["landed_seq"], "rows": row["landed_rows"]},
        "progress": {"done": row["done"], "total": row["total"]},
        **{name: iso(row[name]) for name in ("created_at", "started_at", "finished_at", "wake_at")},
    }


def logs_command(*, home: str | None, as_json: bool, job: int) -> int:
    """Print a job's log tail as it is, save what would move a cursor."""
    text = Client(find_home(home)).logs(job)
    if as_json:
        print_json({"id": job, "log": text})
    elif text:
        print(plain(text), end="" if text.endswith("\n") else "\n")
    return 0
