"""What an application's SQL may not do on the write connection, asked by SQLite itself as it prepares.

The authorizer is set once, because setting one expires every prepared statement; it says yes to
everything but while an application's code runs (CONTRACTS K1). A statement is asked about when it
is prepared, not each time it runs, so a batch of rows costs what one row costs.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

PREFIX: Final = "laneway_"
CONTROL: Final = {
    sqlite3.SQLITE_TRANSACTION: "the transaction",
    sqlite3.SQLITE_SAVEPOINT: "a savepoint",
    sqlite3.SQLITE_ATTACH: "ATTACH",
    sqlite3.SQLITE_DETACH: "DETACH",
}
TABLE_WRITES: Final = frozenset(
    getattr(sqlite3, f"SQLITE_{name}")
    for name in (
        *("INSERT", "UPDATE", "DELETE", "ALTER_TABLE"),
        *(f"{verb}_{what}" for verb in ("CREATE", "DROP") for what in ("TABLE", "VIEW", "INDEX", "TRIGGER")),
        *(f"CREATE_TEMP_{what}" for what in ("TABLE", "VIEW", "INDEX", "TRIGGER")),
        *("DROP_TEMP_TRIGGER", "CREATE_VTABLE", "DROP_VTABLE"),
    )
)
READ_PRAGMAS: Final = frozenset({"data_version", "page_size", "page_count", "encoding"})
"""What FTS5 and R*Tree ask their own connection, without an argument."""

LOOK_PRAGMAS: Final = frozenset({"table_info", "table_xinfo", "index_list", "index_info", "foreign_key_list"})
"""What a SELECT over a table-valued pragma asks, with one."""


class Guard:
    """The authorizer. `on` while an application's code runs; `said` is why it last refused."""

    __slots__ = ("on", "said")

    def __init__(self) -> None:
        self.on = False
        self.said = ""

    def __call__(
        self, action: int, first: str | None, second: str | None, _database: str | None, _source: str | None
    ) -> int:
        """Answer SQLite: SQLITE_OK or SQLITE_DENY."""
        if not self.on or (said := refusal(action, first, second)) is None:
            return sqlite3.SQLITE_OK
        self.said = said
        return sqlite3.SQLITE_DENY


def refusal(action: int, first: str | None, second: str | None) -> str | None:
    """Say why an application may not do this, or None. The names are those that SQLite's authorizer gets."""
    if action in CONTROL:
        return f"{CONTROL[action]} may not run here: the transaction belongs to the store"
    if action == sqlite3.SQLITE_PRAGMA:
        name = (first or "").lower()
        if name in LOOK_PRAGMAS or (name in READ_PRAGMAS and second is None):
            return None
        return f"PRAGMA {name} may not run here: the connection belongs to the store"
    if action in TABLE_WRITES:
        names = (
            (first,) if action == sqlite3.SQLITE_UPDATE else (first, second)
        )  # there the second is a column
        ours = next((name for name in names if name and name.lower().startswith(PREFIX)), None)
        return (
            None if ours is None else f"{ours} belongs to the store and may only be read; enqueue through db"
        )
    return None


class Writer(sqlite3.Connection):
    """A connection that may write, with the guard over it."""

    guard: Guard

    def close(self) -> None:
        """Close it, but for an application's code: everything after would find it closed."""
        if self.guard.on:
            raise sqlite3.ProgrammingError("the connection belongs to the store")
        super().close()


@contextmanager
def guarded(db: Writer, *, on: bool = True) -> Iterator[None]:
    """Run an application's code inside (or, with `on=False`, the store's own inside that)."""
    before, db.guard.on = db.guard.on, on
    try:
        yield
    finally:
        db.guard.on = before
