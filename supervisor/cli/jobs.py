"""`supervisor jobs` and `supervisor logs`."""

import json
import shlex
from typing import Any, Final

from policies.job import ENDED, IN_FLIGHT
from supervisor import sensors
from supervisor.cli import hints
from supervisor.cli.output import hint, page, plain, print_json, short
from supervisor.client import Client
from supervisor.settings.place import find_home
from supervisor.told.states import state_in_words
from supervisor.told.units import duration, iso

HEAD: Final = ("ID", "KIND", "STATE", "AGE", "ROWS", "WHY", "PAYLOAD")


def jobs_command(
    *, home: str | None, as_json: bool, limit: int, before: int | None, **wanted: str | None
) -> int:
    """Print one page of the jobs of the wanted state, kind and tag."""
    client = Client(find_home(home))
    rows = client.jobs(before=before, limit=limit, **wanted)
    if not rows and (kind := wanted["kind"]) is not None and not client.jobs(kind=kind, limit=1):
        client.check_declared(kind)
    if as_json:
        print_json([json_row(row) for row in rows])
        return 0
    if not rows:
        print("no jobs" if before is None else f"no jobs below #{before}")
        return 0
    now = sensors.now_micros()
    print("\n".join(page([HEAD, *(cells(row, now) for row in rows)])))
    if len(rows) == limit:
        same = [word for name, value in wanted.items() if value for word in (f"--{name}", value)]
        print(f"more: {hints.command(shlex.join(['jobs', *same, '--before', str(rows[-1]['id'])]))}")
    return 0


def cells(row: dict[str, Any], now: int) -> tuple[str, ...]:
    """Return one job's cells."""
    age = duration((now - row["created_at"]) / 1e6)
    why = "" if row["reason"] in {None, row["state"]} else short(row["reason"], 60)
    return (
        str(row["id"]),
        plain(row["kind"]),
        "cancelling" if row["cancel_requested_at"] else state_in_words(row["state"]),
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
        "payload": json.loads(row["payload"]),
        "landed": {"batches": row["landed_seq"], "rows": row["landed_rows"]},
        "progress": {"done": row["done"], "total": row["total"]},
        **{name: iso(row[name]) for name in ("created_at", "started_at", "finished_at", "wake_at")},
    }


def logs_command(*, home: str | None, as_json: bool, job: int) -> int:
    """Print a job's log tail as it is, save what would move a cursor."""
    client = Client(find_home(home))
    text = client.logs(job)
    if as_json:
        print_json({"id": job, "log": text})
    elif text:
        print(plain(text), end="" if text.endswith("\n") else "\n")
    else:
        hint(f"job #{job} {silence(client.job(job)['state'])}")
    return 0


def silence(state: str) -> str:
    """Say why there is no output of a job."""
    if state in IN_FLIGHT:
        return "runs; what it prints can be read when its attempt has ended"
    return "has printed nothing" if state in ENDED else "has not run yet, or has printed nothing so far"
