"""Jobs of an earlier queue file come into the store, slice by slice; the file itself is only read.

queued, done, deferred, failed --> the same    running --> queued (requeued) | failed (orphaned)
a cell that holds what nobody stored there --> failed, `unreadable: COLUMN`

Each row is noted as it is copied, by what never changes of it: an import that was killed, runs beside
another, or goes over the same file or a copy again, adds what is not there yet, no row twice (SPEC C96, U32).
"""

import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from landing.cells import mapping
from landing.enqueue import group_id
from landing.ledger import add_event
from landing.oldqueue import BEFORE_ALL, OldQueue, Row, Slice
from landing.sql import attempt as attempt_sql
from landing.sql import importing as sql
from landing.sql import queue as queue_sql
from landing.text import clean
from landing.transaction import Operation, Transaction
from policies.identity import Request, exclusive_of, identity_of
from policies.job import WAITING, State, Unique
from policies.options import Options, readable_options

LISTED: Final = 1000
"""Unreadable rows that the answer lists; all of them are counted."""

NAMED: Final = 100

STRANGE: Final = Options(retry_safe=False)
"""What is known of a kind that nobody has declared here: nothing is safe."""

REQUEUED: Final = "requeued"
ORPHANED: Final = "orphaned"
UNREADABLE: Final = "unreadable"
EXISTING: Final = "existing"


@dataclass(frozen=True, slots=True)
class Degraded:
    """A row that could not be read: its number in the old file, its job here, and the first bad column."""

    row: int
    job: int
    column: str


@dataclass(frozen=True, slots=True)
class Imported:
    """What became of the rows.

    Attributes:
        counts: how many are queued, done, failed or deferred as they were, were running and are `requeued` or
            `orphaned`, are `unreadable`, or `existing` because the same is here for ever already.
        degraded: the first 1,000 of those that are unreadable.
        strangers: kinds of rows that wait and that nobody has declared here, the first 100.
    """

    counts: Mapping[str, int]
    degraded: tuple[Degraded, ...]
    strangers: tuple[str, ...] = ()


NOTHING: Final = Imported({}, ())


@dataclass(frozen=True, slots=True)
class CopySlice:
    """Copy the rows of a slice that have not been copied; `before` is what came of all before it."""

    path: Path
    rows: Slice
    before: Imported

    def apply(self, tx: Transaction) -> Imported:
        """Return what has become of all rows so far."""
        copying = Copying(tx, self.before)
        for row in self.rows.rows:
            if tx.run(sql.NOTE_COPIED, (row.mark,)):
                copying.add(row)
        if copying.counts and not self.rows.more:
            add_event(tx, None, None, "imported", {"path": str(self.path), **copying.counts})
        return Imported(dict(copying.counts), tuple(copying.degraded), tuple(copying.strangers))


def bring_in(old: OldQueue, write: Callable[[Operation[Any]], Any], pause: Callable[[], object]) -> Imported:
    """Copy what has not been copied before, a slice at a time. No supervisor may still work on the file.

    Args:
        old: the file.
        write: applies an operation in a transaction of its own.
        pause: called between slices: others have their turn.

    Raises:
        StoreError: the file cannot be read, or the store not be written; what came before that stays.
    """
    last, found, more = BEFORE_ALL, NOTHING, True
    while more:
        rows = old.after(last)
        found = write(CopySlice(old.path, rows, found))
        last, more = rows.last(last), rows.more
        if more:
            pause()
    return found


class Copying:
    """One slice under way: what has become of the rows so far."""

    def __init__(self, tx: Transaction, before: Imported) -> None:
        self.tx = tx
        self.counts: Counter[str] = Counter(before.counts)
        self.degraded = list(before.degraded)
        self.strangers = dict.fromkeys(before.strangers)
        self.declared: dict[str, Options] = {}
        self.groups: dict[tuple[Any, ...], int] = {}

    def add(self, row: Row) -> None:
        """Insert one job as what becomes of it; one that nobody knows the age of begins to wait now."""
        cells, limits = row.cells, self.options(row.cells["kind"])
        cells["created_at"] = cells["created_at"] or self.tx.now
        outcome, placed = place(row, limits, self.tx.now)
        request = Request(cells["kind"], cells["payload"], None, cells["tier"], cells["num_ctx"])
        identity = identity_of(request, limits.unique or "") if row.bad is None else None
        if limits.unique == Unique.FOREVER and self.tx.one(queue_sql.SAME_EVER, (identity,)):
            self.counts[EXISTING] += 1
            return
        own = {
            "group": self.group(cells),
            "identity": identity,
            "exclusive": exclusive_of(cells["kind"], cells["payload"], limits.exclusive_by),
        }
        added = self.tx.one(sql.ADD, cells | placed | own)
        assert added is not None
        self.counts[outcome] += 1
        if limits is STRANGE and placed["state"] in WAITING and len(self.strangers) < NAMED:
            self.strangers[cells["kind"]] = None
        if outcome == State.DONE and cells["result"] is not None:
            self.tx.run(attempt_sql.SET_RESULT, {"job": added["id"], "body": json.dumps(cells["result"])})
        if row.bad is not None:
            add_event(self.tx, added["id"], None, UNREADABLE, {"row": row.number, "column": row.bad})
            if len(self.degraded) < LISTED:
                self.degraded.append(Degraded(row.number, added["id"], row.bad))

    def options(self, kind: str) -> Options:
        """Return the limits of a kind; of one that nobody has declared here it is unknown what is safe."""
        if kind not in self.declared:
            found = self.tx.one(queue_sql.KIND, (kind,))
            options = (
                STRANGE if found is None else readable_options(mapping(found["options"]) or {}, Options())
            )
            self.declared[kind] = options
        return self.declared[kind]

    def group(self, cells: Mapping[str, Any]) -> int:
        """Return the id of a row's group."""
        key = cells["kind"], cells["priority"], cells["tier"], cells["num_ctx"]
        if key not in self.groups:
            self.groups[key] = group_id(self.tx, cells)
        return self.groups[key]


def place(row: Row, limits: Options, now: int) -> tuple[str, dict[str, Any]]:
    """Say what becomes of a row: its name, and the cells that tell so.

    Who ran it is gone (SPEC U3): a kind that may run again goes back in line, any other has failed (SPEC U6).
    """
    cells = row.cells
    ended = cells["finished_at"] or cells["started_at"] or cells["created_at"]
    waits = dict.fromkeys(("reason", "started_at", "finished_at", "watch", "watch_key", "wake_at"))
    over = waits | {"started_at": cells["started_at"], "finished_at": ended}
    if row.bad is not None:
        failed = {"state": State.FAILED, "reason": f"unreadable: {row.bad}", "finished_at": now}
        return UNREADABLE, over | failed
    match cells["state"]:
        case "done":
            return State.DONE, over | {"state": State.DONE, "reason": "done"}
        case "failed":
            return State.FAILED, over | {"state": State.FAILED, "reason": clean(cells["error"] or "failed")}
        case "deferred":
            parked = {"state": State.DEFERRED, "watch": "deferred", "watch_key": str(now), "wake_at": now}
            return State.DEFERRED, waits | parked | {"reason": clean(cells["error"] or "deferred")}
        case "running" if limits.retry_safe:
            return REQUEUED, waits | {"state": State.QUEUED, "reason": ORPHANED}
        case "running":
            text = f"orphaned by unclean exit of run #{cells['claimed_by_run'] or '?'}"
            return ORPHANED, over | {"state": State.FAILED, "reason": text, "finished_at": now}
        case _:
            return State.QUEUED, waits | {"state": State.QUEUED}
