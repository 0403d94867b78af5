"""The store for writers from outside: short control writes, each in a transaction of its own."""

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TypeVar

from landing.connect import open_writer, reachable, store_path, translated
from landing.disk import refuse_network
from landing.migrate import create
from landing.snapshot import check_writable, no_store
from landing.transaction import Operation, committing
from landing.turnstile import begin_in_turn

Reply = TypeVar("Reply")


class Store:
    """A home folder's store, as the command line and other processes write to it.

    Args:
        home: the folder itself.
        now: the clock, microseconds UTC.
        create_missing: make the folder and the store where they are missing.

    Raises:
        StoreError: the store is not there (`NoStore`), or cannot be made or reached.
    """

    def __init__(self, home: Path, now: Callable[[], int], *, create_missing: bool = False) -> None:
        self.home = home
        self._now = now
        self._path = store_path(home)
        if create_missing:
            create(home, now())
            return
        with reachable(self._path):
            if not self._path.is_file():
                raise no_store(home)
        refuse_network(home)

    def write(self, operation: Operation[Reply]) -> Reply:
        """Apply one operation in a transaction of its own, waiting up to 30 s for the write lock.

        Raises:
            StoreError: what the operation raises, or why the store could not be written.
        """
        with translated(self._path), closing(open_writer(self._path)) as db:
            check_writable(db, self.home)
            with reachable(self._path):
                begin_in_turn(db, self.home)
            with committing(db, self._now) as tx:
                return operation.apply(tx)
