"""Reading a store: a connection that cannot write, on a schema that this version knows.

Every command that only looks comes through here, so this file loads nothing that writes.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

from landing.connect import open_reader, reachable, store_path, translated
from landing.errors import NoStore, SchemaNewer, SchemaOlder, StoreBroken
from landing.sql import schema as sql
from landing.text import lenient

SCHEMA: Final = 4
"""The schema that this version writes. It reads every one before it."""


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
        db.text_factory = lenient
        check_store(db, home)
        yield db


def version(db: sqlite3.Connection) -> int:
    """Return the schema number of a store, 0 for an empty file."""
    known = db.execute(sql.HAS_SCHEMA).fetchone()
    row = db.execute(sql.SCHEMA).fetchone() if known else None
    found = row[0] if row else "0"
    try:
        return int(found)
    except ValueError:
        raise StoreBroken("schema", f"the store's schema number is {found!r}, which is none") from None


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


def check_writable(db: sqlite3.Connection, home: Path) -> None:
    """Make sure that the tables are those that this version writes.

    Raises:
        NoStore: the first writer has not come further than the file.
        SchemaOlder: whoever holds the supervisor's lock must upgrade it first.
        SchemaNewer: the store is from a newer version than this one.
    """
    check_store(db, home)
    if (found := version(db)) < SCHEMA:
        text = f"{store_path(home)} has schema {found}, this version writes {SCHEMA}"
        raise SchemaOlder(str(home), f"{text}; the supervisor that runs here is older: restart it")


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


def store_identity(home: Path) -> tuple[int, int] | None:
    """Return (device, inode) of the store file, None where there is none; stat only."""
    try:
        found = store_path(home).stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def same_store(home: Path, identity: tuple[int, int] | None) -> bool:
    """Tell whether the store file is still the one it was, neither removed nor replaced."""
    return identity is not None and store_identity(home) == identity


def wal_size(path: Path) -> int:
    """Return the bytes of a store's WAL, 0 when the last one who closed the store has folded it back."""
    try:
        return path.with_name(path.name + "-wal").stat().st_size
    except FileNotFoundError:
        return 0
