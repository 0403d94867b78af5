"""Reading a store: a connection that cannot write, on a schema that this version knows.

Every command that only looks comes through here, so this file loads nothing that writes.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

from landing import sql
from landing.connect import open_reader, reachable, store_path, translated
from landing.errors import NoStore, SchemaNewer

SCHEMA: Final = 1
"""The schema that this version writes."""


@contextmanager
def snapshot(home: Path) -> Iterator[sqlite3.Connection]:
    """Open the store of `home` for reading; see `landing.views` for what to ask it.

    Raises:
        NoStore: there is none.
        StoreError: it cannot be read, or is newer than this version.
    """
    path = store_path(home)
    with reachable(path):
        if not path.is_file():
            raise no_store(home)
    with translated(path), closing(open_reader(path)) as db:
        check_store(db, home)
        yield db


def version(db: sqlite3.Connection) -> int:
    """Return the schema number of a store, 0 for an empty file."""
    known = db.execute(sql.HAS_SCHEMA).fetchone()
    row = db.execute(sql.SCHEMA).fetchone() if known else None
    return int(row[0]) if row else 0


def check_version(db: sqlite3.Connection, path: Path) -> int:
    """Return the schema number.

    Raises:
        SchemaNewer: the store is from a newer version than this one.
    """
    if (found := version(db)) > SCHEMA:
        raise SchemaNewer(
            str(path), f"{path} has schema {found}, this version knows {SCHEMA}; upgrade laneway"
        )
    return found


def check_store(db: sqlite3.Connection, home: Path) -> None:
    """Make sure that there are tables, and that this version knows them.

    Raises:
        NoStore: the first writer has not come further than the file.
        SchemaNewer: the store is from a newer version than this one.
    """
    if check_version(db, store_path(home)) == 0:
        raise no_store(home)


def no_store(home: Path) -> NoStore:
    """Return the error for a home without a store, which a command that reads never makes."""
    return NoStore(str(home), f"no store in {home}; enqueue or index something there first")


def store_size(home: Path) -> tuple[int, int]:
    """Return the bytes of the store file and of its WAL; stat only, the files are never opened.

    Raises:
        StoreError: there is no store file to look at.
    """
    path = store_path(home)
    with reachable(path):
        return path.stat().st_size, wal_size(path)


def wal_size(path: Path) -> int:
    """Return the bytes of a store's WAL, 0 when the last one who closed the store has folded it back."""
    try:
        return path.with_name(path.name + "-wal").stat().st_size
    except FileNotFoundError:
        return 0
