"""A queue file of an earlier shape, which is only read: its rows, slice by slice, with each cell checked.

old file --after(row)--> Slice: rows that fit into one short transaction --landing.importing--> jobs
"""

import re
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from landing.cells import is_whole
from landing.connect import open_reader, translated
from landing.errors import StoreError
from landing.sql import importing as sql
from landing.times import micros
from policies.identity import digest
from policies.job import MICROS, Priority
from policies.options import NAME_LIMIT
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

LASTING: Final = ("kind", "tier", "num_ctx", "payload", "created_at")
"""What never changes of a row, however far an earlier version went on with it."""

NEEDED: Final = frozenset({"kind", "state", "payload"})
SINCE_1970: Final = re.compile(r"\d{9,10}(\.\d+)?", re.ASCII)
"""Seconds as a text column holds them; a year is no such text."""
SECONDS: Final = (10**8, 9 * 10**9)
"""Between 1973 and 2255: what else is a number is another unit, or no time."""
OLD_STATES: Final = frozenset({"queued", "running", "done", "failed", "deferred"})
BEFORE_ALL: Final = -(2**63)
"""Less than the number of any row."""

ROWS: Final = 500
BYTES: Final = 4 << 20
"""What a slice holds at most, or one row: whoever else writes waits for no more than one of them."""


class NotAQueue(StoreError, ValueError):
    """The file holds no queue of an earlier shape."""

    code = "not_a_queue"


class Row(NamedTuple):
    """A row of the old file with each cell read.

    `number` is its rowid, `bad` the first column of garbage, `mark` what it is known again by, wherever its
    file lies, and whatever else is in it.
    """

    number: int
    cells: dict[str, Any]
    bad: str | None
    mark: str


class Slice(NamedTuple):
    """Rows that follow each other; `more` says that there are others behind them."""

    rows: tuple[Row, ...]
    more: bool

    def last(self, before: int) -> int:
        """Return the number of its last row; that of the row before it where it has none."""
        return self.rows[-1].number if self.rows else before


@dataclass(frozen=True, slots=True)
class OldQueue:
    """An open file.

    Attributes:
        path: where it lies now.
        db: a connection that cannot write, in one snapshot.
        columns: those that its table of jobs has.
    """

    path: Path
    db: sqlite3.Connection
    columns: frozenset[str]

    def after(self, number: int) -> Slice:
        """Return the rows behind that one, as many as fit into a slice.

        Raises:
            StoreError: they cannot be read.
        """
        rows, size = list[Row](), 0
        with translated(self.path):
            for found in self.db.execute(sql.old_rows(COLUMNS, self.columns), (number, ROWS + 1)):
                size += sum(len(cell) for cell in found if isinstance(cell, str | bytes))
                if rows and (len(rows) == ROWS or size > BYTES):
                    return Slice(tuple(rows), more=True)
                rows.append(read(found))
        return Slice(tuple(rows), more=False)


def read(found: sqlite3.Row) -> Row:
    """Read each cell; what cannot be read becomes what a row without that cell would have."""
    cells, bad = {}, None
    for name in COLUMNS:
        cells[name], is_good = cell(name, found[name])
        if not is_good and bad is None:
            bad = name
    mark = digest(found["row"], *(repr(found[name]) for name in LASTING))
    return Row(found["row"], cells, bad, mark)


def cell(name: str, value: Any) -> tuple[Any, bool]:
    """Return a cell as it is stored here, and whether it held what belongs there."""
    default = DEFAULTS.get(name)
    if value is None:
        return default, name not in {"kind", "state"}
    if name in TIMES:
        time = time_of(value)
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


def time_of(value: Any) -> int | None:
    """Return the microseconds UTC that a cell says, as text or as seconds since 1970; None for no time."""
    if isinstance(value, str):
        if not SINCE_1970.fullmatch(value):
            return micros(value)
        value = float(value)
    is_seconds = type(value) in {int, float} and SECONDS[0] <= value <= SECONDS[1]
    return round(value * MICROS) if is_seconds else None


def utf8(raw: bytes) -> str | bytes:
    """Read a text cell; bytes that are no text stay bytes, and are garbage."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw


@contextmanager
def opened(path: Path) -> Iterator[OldQueue]:
    """Open an old file so that it cannot be written.

    Raises:
        NoStore: there is no such file.
        NotAQueue: it is no database, or has no table of jobs with the columns that are needed.
        StoreError: it cannot be read.
    """
    with closing(open_reader(path)) as db:
        with translated(path):
            db.row_factory = sqlite3.Row
            db.text_factory = utf8
            db.execute("BEGIN")
            columns = columns_of(db, path)
        yield OldQueue(path, db, columns)


def columns_of(db: sqlite3.Connection, path: Path) -> frozenset[str]:
    """Return the columns of a file's table of jobs.

    Raises:
        NotAQueue: saying what it lacks.
        sqlite3.Error: it cannot be read.
    """
    try:
        columns = frozenset(row["name"] for row in db.execute(sql.OLD_COLUMNS))
    except sqlite3.DatabaseError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_NOTADB:
            raise
        raise NotAQueue(str(path), f"{path} is no SQLite database; name a queue file to import") from None
    if not columns >= NEEDED:
        missing = sorted(NEEDED - columns)
        those = f"column{'s' if missing[1:] else ''} {', '.join(missing)}"
        lacks = f"its table jobs has no {those}" if columns else "it has no table jobs"
        raise NotAQueue(str(path), f"{path} is no queue of an earlier version: {lacks}")
    return columns
