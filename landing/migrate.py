"""Schemas by number, forward only: the store's own and an application's.

Scripts run statement by statement inside one transaction, so a store is at one
version or at the next, never between (CONTRACTS K1).
"""

import hashlib
import re
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Final

from landing.connect import (
    WAIT_SECONDS,
    is_trouble,
    make_home,
    open_writer,
    reachable,
    store_path,
    translated,
)
from landing.disk import refuse_network
from landing.errors import MigrationChanged, SchemaNewer, StoreBusy, StoreError
from landing.flock import Flock
from landing.guard import Writer, guarded
from landing.ledger import add_event
from landing.snapshot import SCHEMA, check_version, version
from landing.sql import schema as sql
from landing.transaction import Refused, Transaction, committing, harmless, refuse_if_denied

INIT_LOCK: Final = "init.lock"
INIT_TRY_SECONDS: Final = 0.02
INIT_TRIES: Final = int(WAIT_SECONDS / INIT_TRY_SECONDS)
WHY_NONE: Final = "which the store must be free to prune"
COMMENTS: Final = re.compile(r"(?:\s|--[^\n]*|(?>/\*.*?(?:\*/|\Z)))*", re.DOTALL)


def scripts() -> list[str]:
    """Return the store's own scripts, version 1 first."""
    folder = files("landing") / "migrations"
    return [(folder / f"{number:04}.sql").read_text("utf-8") for number in range(1, SCHEMA + 1)]


def create(home: Path, now: int) -> None:
    """Make the store where there is none; the first writer does it, the others wait (CONTRACTS K7).

    A store that is there is left at the schema that it has; see `upgrade`.

    Raises:
        StoreError: the home cannot be made or is no place for a store, or the file is no store of ours.
    """
    path = store_path(home)
    refuse_network(home)
    make_home(home)
    with reachable(path), init_lock(home), closing(open_writer(path, fresh=True)) as db, translated(path):
        if check_version(db, path) == 0:
            migrate(db, path, now)


def upgrade(home: Path, now: int) -> None:
    """Bring a store's control tables to this version's schema. Only the lock holder may (CONTRACTS K7).

    Raises:
        StoreError: there is no store, or it is newer than this version.
    """
    path = store_path(home)
    with reachable(path), init_lock(home), closing(open_writer(path)) as db, translated(path):
        migrate(db, path, now)


@contextmanager
def init_lock(home: Path) -> Iterator[None]:
    """Hold the lock under which the control tables are made.

    Raises:
        StoreBusy: another process has held it for 30 s.
    """
    path = home / INIT_LOCK
    with closing(Flock(path)) as lock:
        if not any(is_taken(lock) for _ in range(INIT_TRIES)):
            text = f"{path}: another process has been making the store for too long; fuser {path} says which"
            raise StoreBusy(str(path), text)
        yield


def is_taken(lock: Flock) -> bool:
    """Try once to take a lock; wait a moment when another has it."""
    if lock.take():
        return True
    threading.Event().wait(INIT_TRY_SECONDS)
    return False


def migrate(db: Writer, path: Path, now: int) -> None:
    """Run the scripts that a store lacks, all in one transaction; nothing happens when it has them all."""
    if check_version(db, path) == SCHEMA:
        return
    db.execute("BEGIN IMMEDIATE")
    with committing(db, lambda: now) as tx:
        found = version(db)
        for script in scripts()[found:]:
            run_script(tx, script)
        if found < SCHEMA:
            tx.run(sql.SET_SCHEMA, (str(SCHEMA),))
            add_event(tx, None, None, "migrated", {"schema": SCHEMA, "from": found})


def run_script(tx: Transaction, script: str) -> None:
    """Run each statement of a script inside the transaction that is open.

    Raises:
        Refused: a statement would end the transaction or write what the store keeps; it was not run.
    """
    for statement in statements(script):
        try:
            tx.run(harmless(statement))
        except sqlite3.Error as error:
            refuse_if_denied(tx.db, error)
            raise
        tx.must_be_open()


def statements(script: str) -> Iterator[str]:
    """Split a script at the semicolons that end statements, also those with triggers."""
    part = ""
    for piece in script.split(";"):
        part += piece
        if not sqlite3.complete_statement(part + ";"):
            part += ";"
            continue
        if not only_comments(part):
            yield part + ";"
        part = ""
    if not only_comments(part):
        yield part


def only_comments(text: str) -> bool:
    """Tell whether nothing but white space and comments is left."""
    return COMMENTS.fullmatch(text) is not None


@dataclass(frozen=True, slots=True)
class MigrateApp:
    """Run an application's scripts that this store has not seen. Only the lock holder may apply it."""

    app: str
    scripts: Sequence[str]

    def apply(self, tx: Transaction) -> int:
        """Return how many scripts ran.

        Raises:
            MigrationChanged: a script that ran before reads differently now.
            SchemaNewer: more scripts ran here than this version of the application has.
            StoreError: a script does not run, or leaves a table that refers to one of the store's;
                names the number.
        """
        ran = {row["number"]: row["digest"] for row in tx.all(sql.APP_MIGRATIONS, (self.app,))}
        if len(ran) > len(self.scripts):
            raise SchemaNewer(
                self.app,
                f"app {self.app!r}: migration {len(ran)} ran here, this version lacks it; upgrade the app",
            )
        found, made_by = references(tx), dict[tuple[str, str], int]()
        for number, script in enumerate(self.scripts, 1):
            digest = hashlib.blake2b(script.encode(), digest_size=16).hexdigest()
            if number not in ran:
                before = references(tx)
                self.run(tx, number, script, digest)
                made_by |= dict.fromkeys(references(tx) - before, number)
            elif ran[number] != digest:
                raise MigrationChanged(
                    self.app,
                    f"app {self.app!r}: migration {number} ran here and reads differently now; add a new one",
                )
        if left := references(tx) - found:
            table, parent = one = min(left)
            raise StoreError(
                self.app,
                f"app {self.app!r}: migration {made_by[one]} makes table {table!r} refer to {parent},"
                f" {WHY_NONE}; keep the id in a plain column",
            )
        return len(self.scripts) - len(ran)

    def run(self, tx: Transaction, number: int, script: str, digest: str) -> None:
        """Run one script and write down that it ran."""
        try:
            with guarded(tx.db):
                run_script(tx, script)
        except (sqlite3.Error, Refused) as error:
            if isinstance(error, sqlite3.Error) and is_trouble(error):
                raise
            text = f"app {self.app!r}: migration {number} does not run: {error}"
            raise StoreError(self.app, text) from error
        tx.run(sql.ADD_APP_MIGRATION, {"app": self.app, "number": number, "digest": digest, "now": tx.now})


@dataclass(frozen=True, slots=True)
class RefuseReferences:
    """Refuse a table that refers to one of the store's own, once the applications have migrated."""

    def apply(self, tx: Transaction) -> None:
        """Look at every table.

        Raises:
            StoreError: names one, and what to do.
        """
        for table, parent in sorted(references(tx)):
            text = f"table {table!r} refers to {parent}, {WHY_NONE}"
            raise StoreError(table, f"{text}; add a migration that makes it a plain column")


def references(tx: Transaction) -> set[tuple[str, str]]:
    """Return (table, table of the store) for each foreign key of an application to a control table.

    With one the store could prune nothing any more, or its prunes would delete what has landed.
    """
    return {(row["child"], row["parent"]) for row in tx.all(sql.REFERENCES)}
