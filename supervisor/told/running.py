"""What the jobs in flight are at, as plain values: how far, how fast, how long since a batch, how large.

row of the job, its run's row --> facts <-- /proc (`memory`)
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from policies.job import MICROS
from supervisor.told.gates import number, yielding
from supervisor.told.memory import sizes

RATED_SECONDS: Final = 1.0
"""An attempt that is younger has no rate worth telling."""
FIRST: Final = ("start_deadline", "batch_deadline")
"""What bounds the wait for an attempt's first batch: the first of them that is set."""
LATER: Final = FIRST[1:]


def running(
    in_flight: list[dict[str, Any]], now: int, run: Mapping[str, Any] | None
) -> Iterator[dict[str, Any]]:
    """Yield the facts of each job in flight; `run` is the row of the run that lives, None for none."""
    asked = yielding((run or {}).get("told") or {})
    found = sizes((job["pid"] for job in in_flight), run["pid"]) if run and in_flight else {}
    for job in in_flight:
        facts = running_facts(job, now, found.get(job["pid"]), live=run is not None)
        yield facts | {"yielding": asked.get(str(job["id"]))}


def running_facts(row: dict[str, Any], now: int, size: int | None, *, live: bool) -> dict[str, Any]:
    """Return what one job is at; `size` is the bytes that its processes hold, None where nobody can tell.

    Where no supervisor lives, nothing lands and no limit runs.

    `rate` is rows a second of this attempt alone, over `rate_s`, its time so far. `batch_s` is how long ago
    its last batch landed, or it began where none has; `batch_limit` names the deadline that this runs
    toward, and `batch_limit_s` is that in seconds, 0 for none.
    """
    started, options = row["started_at"], row["options"]
    for_s = None if started is None else since(started, now)
    is_first = live and row["landed_before"] == row["landed_seq"]
    limits = [(name, number(options.get(name))) for name in (FIRST if is_first else LATER)]
    limit, limit_s = next((one for one in limits if one[1]), (None, 0))
    landed = new_rows(row) if live and for_s is not None and for_s >= RATED_SECONDS else None
    is_timed = live and started is not None and row["landed_at"] is not None
    return {
        "id": row["id"],
        "kind": row["kind"],
        "state": "cancelling" if row["cancel_requested_at"] else row["state"],
        "attempt": row["claims"],
        "rows": row["landed_rows"],
        "batches": row["landed_seq"],
        "done": row["done"],
        "total": row["total"],
        "for_s": for_s,
        "rate": None if landed is None or not for_s else round(landed / for_s, 2),
        "rate_s": None if landed is None else for_s,
        "batch_s": since(row["landed_at"], now) if is_timed else None,
        "batch_limit": limit,
        "batch_limit_s": limit_s,
        **memory_facts(size, options),
    }


def new_rows(row: Mapping[str, Any]) -> int | None:
    """Return how many rows of a job its attempt has landed, None where nobody can tell."""
    before = row["rows_before"]
    return row["landed_rows"] - before if before is not None and before <= row["landed_rows"] else None


def memory_facts(size: int | None, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a job holds, and the limit that it is held to (0: none), in MB.

    Where nobody sees its processes, nobody holds them to a limit: on a thread there are none.
    """
    if size is None:
        return {"memory_mb": None, "memory_limit_mb": 0}
    most = number(options.get("memory_limit")) or 0
    return {"memory_mb": round(size / 1e6, 2), "memory_limit_mb": round(most / 1e6, 2)}


def since(then: int, now: int) -> float:
    """Return seconds from one time to another, both microseconds UTC; 0 where the clock was set back."""
    return round(max(0, now - then) / MICROS, 1)
