"""Stored cells that need not hold what this version writes: garbage degrades its own row, nothing else.

A claim asks `unreadable`, a view takes `shown`; all other code reads numbers through `whole`.
"""

import json
import sqlite3
from typing import Any, Final

from landing.text import clean, lenient
from policies.payload import MARK_LIMIT, is_payload

LARGEST: Final = 2**53
"""Counts and times beyond it (the year 2255) are garbage."""

KEY_LIMIT: Final = 64 << 10
SHOWN: Final = 1000
COUNTS: Final = frozenset(
    {
        *("priority", "num_ctx", "created_at", "waiting_since", "claims", "failures", "deferrals", "awake"),
        *("landed_seq", "landed_rows", "spent", "claimed_at", "at", "number", "pid", "jobs", "oldest"),
        "attempts",
    }
)
NUMBERS: Final = frozenset(
    {
        *("max_cost", "started_at", "finished_at", "stopped_at", "run_id", "lease_expires_at"),
        *("cancel_requested_at", "done", "total", "wake_at", "landed_at", "rows_before"),
    }
)


def whole(value: Any, default: int) -> int:
    """Return a stored whole number, or `default` for anything else."""
    return value if is_whole(value) else default


def text(value: Any) -> str:
    """Return a stored text, "" for anything else."""
    return value if isinstance(value, str) else ""


def is_whole(value: Any) -> bool:
    """Tell whether a cell holds a whole number that code can count on."""
    return type(value) is int and -LARGEST <= value <= LARGEST


def mapping(value: Any) -> dict[str, Any] | None:
    """Return the JSON object that a cell holds, or None."""
    try:
        found = json.loads(value) if isinstance(value, str) else None
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def unreadable(row: sqlite3.Row, kind: str) -> str | None:
    """Name the first cell of a claimed row that an attempt cannot do without and cannot use, or None.

    `kind` is that of its group. What a default can stand in for (options, awake) is not asked.
    """
    good = {
        "kind": row["kind"] == kind,
        "payload": is_payload(row["payload"]),
        "key": is_text(row["key"], KEY_LIMIT),
        "failures": is_whole(row["failures"]) and row["failures"] >= 0,
        "landed_seq": is_whole(row["landed_seq"]) and row["landed_seq"] >= 0,
        "mark": is_text(row["mark"], MARK_LIMIT),
        "skip": is_whole(row["skip"]) and row["skip"] >= 0,
        "digest": isinstance(row["digest"], bytes) and len(row["digest"]) <= 16,
    }
    return next((name for name, is_good in good.items() if not is_good), None)


def is_text(value: Any, limit: int) -> bool:
    """Tell whether a cell is empty or holds text of at most `limit` characters."""
    return value is None or (isinstance(value, str) and len(value) <= limit)


def shown(name: str, value: Any) -> Any:
    """Return a cell as people may see it: a number that is none becomes 0 or None, a blob becomes text."""
    if name in COUNTS:
        return whole(value, 0)
    if name in NUMBERS:
        return value if is_whole(value) else None
    return lenient(value) if isinstance(value, bytes) and name != "digest" else value


def shown_json(value: Any, limit: int) -> str:
    """Return a cell as JSON text; what is none, or too long, becomes a JSON string of its beginning."""
    return value if is_payload(value, limit) else json.dumps(clean(str(value)[:SHOWN]))
