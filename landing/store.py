"""The store for everybody but the lander: short control writes, and reading snapshots."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from landing.connect import open_reader, open_writer, store_path, translated
from landing.errors import NoStore
from landing.migrate import check_version, create
from landing.transaction import Operation, Transaction
from landing.turnstile import at_turnstile

Reply = TypeVar("Reply")


class Store:
    """A home folder's store, as the command line and other processes use it.

    Args:
        home: the folder; `create=True` makes it and the store where they are missing.
        now: the clock, microseconds UTC.
    """

    def __init__(self, home: Path, now: Callable[[], int], *, create_missing: bool = False) -> None:
        self.home = home
        self._now = now
        self._path = store_path(home)
        if create_missing:
            create(home, now())
        elif not self._path.is_file():
            raise NoStore(str(home), f"no store in {home}; enqueue or run something there first")

    def write(self, operation: Operation[Reply]) -> Reply:
        """Apply one operation in a transaction of its own, waiting up to 30 s for the write lock.

        Raises:
            StoreError: what the operation raises, or why the store could not be written.
        """
        with translated(self._path), at_turnstile(self.home):
            db = open_writer(self._path)
            try:
                check_version(db, self._path)
                db.execute("BEGIN IMMEDIATE")
                answer = operation.apply(Transaction(db, self._now()))
                db.execute("COMMIT")
            finally:
                db.close()
        return answer

    @contextmanager
    def read(self) -> Iterator[sqlite3.Connection]:
        """Open a connection that cannot write; see `landing.views` for what to ask it.

        Raises:
            StoreError: the store cannot be read, or is newer than this version.
        """
        with translated(self._path):
            db = open_reader(self._path)
            try:
                check_version(db, self._path)
                yield db
            finally:
                db.close()


def store_size(home: Path) -> tuple[int, int]:
    """Return the bytes of the store file and of its WAL; stat only, the files are never opened."""
    path = store_path(home)
    wal = path.with_name(path.name + "-wal")
    return path.stat().st_size, wal.stat().st_size if wal.exists() else 0
