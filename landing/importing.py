"""Queue files of an earlier shape: their jobs are copied into the store, the files themselves only read.

queued, done, deferred, failed --> the same    running --> queued (requeued) | failed (orphaned)
a cell that holds what nobody stored there --> failed, `unreadable: COLUMN`

A file is known again by its first row, and remembered with the last row that was copied: to import it again
adds only what has come since (SPEC C96, U32).
"""

import json
import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from landing.cells import is_whole, mapping
from landing.connect import open_reader, translated
from landing.enqueue import group_id
from landing.errors import StoreError
from landing.ledger import add_event
from landing.sql import attempt as attempt_sql
from landing.sql import importing as sql
from landing.sql import queue as queue_sql
from landing.text import clean
from landing.times import micros
from landing.transaction import Transaction
from policies.identity import Request, digest, exclusive_of, identity_of
from policies.job import Priority, State, Unique
from policies.options import NAME_LIMIT, Options, readable_options
from policies.payload import MARK_LIMIT, is_payload

COLUMNS: Final = (
    *("kind", "tier", "num_ctx", "priority", "state", "payload", "result", "error", "attempts", "checkpoint"),
    *("created_at", "started_at", "finished_at", "claimed_by_run"),
)
"""What is copied. A lease is not: it began and ended with a claim of a supervisor that is gone (SPEC C94)."""

TIMES: Final = frozenset({"created_at", "started_at", "finished_at"})
NUMBERS: Final = frozenset({"num_ctx", "priority", "attempts", "claimed_by_run"})
DEFAULTS: Final[Mapping[str, Any]] = {
    "kind": "unreadable",
    "tier": "",
    "num_ctx": 0,
    "priority": Priority.DEFAULT,
    "state": "failed",
    "payload": "null",
    "attempts": 0,
}
"""What an empty cell stands for; for the others it stands for itself."""

NEEDED: Final = frozenset({"kind", "state", "payload"})
OLD_STATES: Final = frozenset({"queued", "running", "done", "failed", "deferred"})
BEFORE_ALL: Final = -(2**63)
LISTED: Final = 1000
"""Unreadable rows that the answer lists; all of them are counted."""

REQUEUED: Final = "requeued"
ORPHANED: Final = "orphaned"
UNREADABLE: Final = "unreadable"
EXISTING: Final = "existing"


class NotAQueue(StoreError, ValueError):
    """The file holds no queue of an earlier shape."""

    code = "not_a_queue"


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
    """

    counts: Mapping[str, int]
    degraded: tuple[Degraded, ...]


class Row(NamedTuple):
    """A row of the old file with each cell read; `bad` is the first column that held garbage."""

    cells: dict[str, Any]
    bad: str | None


@dataclass(frozen=True, slots=True)
class Import:
    """Copy the jobs of a queue file into the store. No supervisor may still work on that file."""

    path: Path

    def apply(self, tx: Transaction) -> Imported:
        """Copy what has not been copied before, row by row, so that any number fits in memory.

        Raises:
            NoStore: there is no such file.
            NotAQueue: it has no table of jobs.
            StoreError: it cannot be read.
        """
        copying = Copying(tx)
        with opened(self.path) as (db, there):
            name = f"imported {source_of(db)}"
            seen = tx.one(sql.SEEN, (name,))
            last = int(seen["value"]) if seen is not None else BEFORE_ALL
            for cells in db.execute(sql.old_rows(COLUMNS, there), (last,)):
                last = cells["row"]
                copying.add(last, read(cells))
        if copying.counts:
            tx.run(sql.SEE, {"name": name, "value": str(last)})
            add_event(tx, None, None, "imported", {"path": str(self.path), **copying.counts})
        return Imported(dict(copying.counts), tuple(copying.degraded))


class Copying:
    """One import under way: what has become of its rows so far."""

    def __init__(self, tx: Transaction) -> None:
        self.tx = tx
        self.counts: Counter[str] = Counter()
        self.degraded: list[Degraded] = []
        self.declared: dict[str, Options] = {}
        self.groups: dict[tuple[Any, ...], int] = {}

    def add(self, number: int, row: Row) -> None:
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
        if outcome == State.DONE and cells["result"] is not None:
            self.tx.run(attempt_sql.SET_RESULT, {"job": added["id"], "body": json.dumps(cells["result"])})
        if row.bad is not None:
            add_event(self.tx, added["id"], None, UNREADABLE, {"row": number, "column": row.bad})
            if len(self.degraded) < LISTED:
                self.degraded.append(Degraded(number, added["id"], row.bad))

    def options(self, kind: str) -> Options:
        """Return the limits of a kind; of one that nobody has declared here it is unknown what is safe."""
        if kind not in self.declared:
            found = self.tx.one(queue_sql.KIND, (kind,))
            base = Options(retry_safe=found is not None)
            self.declared[kind] = readable_options(mapping(found["options"]) or {}, base) if found else base
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
    waits = {"reason": None, "started_at": None, "finished_at": None, "watch": None, "wake_at": None}
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
            parked = {"state": State.DEFERRED, "watch": "deferred", "wake_at": now}
            return State.DEFERRED, waits | parked | {"reason": clean(cells["error"] or "deferred")}
        case "running" if limits.retry_safe:
            return REQUEUED, waits | {"state": State.QUEUED, "reason": ORPHANED}
        case "running":
            text = f"orphaned by unclean exit of run #{cells['claimed_by_run'] or '?'}"
            return ORPHANED, over | {"state": State.FAILED, "reason": text, "finished_at": now}
        case _:
            return State.QUEUED, waits | {"state": State.QUEUED}


def read(found: sqlite3.Row) -> Row:
    """Read each cell; what cannot be read becomes what a row without that cell would have."""
    cells, bad = {}, None
    for name in COLUMNS:
        cells[name], is_good = cell(name, found[name])
        if not is_good and bad is None:
            bad = name
    return Row(cells, bad)


def cell(name: str, value: Any) -> tuple[Any, bool]:
    """Return a cell as it is stored here, and whether it held what belongs there."""
    default = DEFAULTS.get(name)
    if value is None:
        return default, name not in {"kind", "state"}
    if name in TIMES:
        time = micros(value) if isinstance(value, str) else None
        return (default if time is None else time), time is not None
    if name in NUMBERS:
        good = is_whole(value) and (value >= 0 or name == "priority")
    elif name == "payload":
        good = is_payload(value)
    elif not isinstance(value, str):
        good = False
    elif name in {"kind", "tier"}:
        good = value.isprintable() and (name == "tier" or value != "") and len(value) <= NAME_LIMIT
    else:
        good = {"state": value in OLD_STATES, "checkpoint": len(value) <= MARK_LIMIT}.get(name, True)
    return (value if good else default), good


def utf8(raw: bytes) -> str | bytes:
    """Read a text cell; bytes that are no text stay bytes, and are garbage."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw


@contextmanager
def opened(path: Path) -> Iterator[tuple[sqlite3.Connection, frozenset[str]]]:
    """Open an old file so that it cannot be written; with it come the columns of its table of jobs."""
    with translated(path), closing(open_reader(path)) as db:
        db.row_factory = sqlite3.Row
        db.text_factory = utf8
        db.execute("BEGIN")
        there = frozenset(row["name"] for row in db.execute(sql.OLD_COLUMNS))
        if not there >= NEEDED:
            raise NotAQueue(str(path), f"{path} is no queue of an earlier version: it has no table of jobs")
        yield db, there


def source_of(db: sqlite3.Connection) -> str:
    """Return what a file is known again by, wherever it lies: its first row never changes."""
    row = db.execute(sql.FIRST).fetchone()
    return digest(*map(repr, row or ()))
