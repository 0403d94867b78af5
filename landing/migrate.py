"""Schemas by number, forward only: the store's own and an application's.

Scripts run statement by statement inside one transaction, so a store is at one
version or at the next, never between (CONTRACTS K1).
"""

import fcntl
import hashlib
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Final

from landing import sql
from landing.connect import make_home, open_writer, store_path, translated
from landing.errors import MigrationChanged, SchemaNewer, StoreError
from landing.transaction import Transaction

SCHEMA: Final = 1
INIT_LOCK: Final = "init.lock"


def scripts() -> list[str]:
    """Return the store's own scripts, version 1 first."""
    folder = files("landing") / "migrations"
    return [(folder / f"{number:04}.sql").read_text("utf-8") for number in range(1, SCHEMA + 1)]


def create(home: Path, now: int) -> None:
    """Make the store where there is none; the first writer does it, the others wait (CONTRACTS K7).

    Raises:
        StoreError: the home cannot be made, or the file is no store of ours.
    """
    make_home(home)
    with init_lock(home):
        db = open_writer(store_path(home))
        try:
            with translated(store_path(home)):
                migrate(db, store_path(home), now)
        finally:
            db.close()


@contextmanager
def init_lock(home: Path) -> Iterator[None]:
    """Hold the lock under which the control tables are made."""
    fd = os.open(home / INIT_LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def version(db: sqlite3.Connection) -> int:
    """Return the schema number of a store, 0 for an empty file."""
    known = db.execute("SELECT 1 FROM sqlite_master WHERE name = 'laneway_meta'").fetchone()
    row = db.execute(sql.SCHEMA).fetchone() if known else None
    return int(row[0]) if row else 0


def check_version(db: sqlite3.Connection, path: Path) -> int:
    """Return the schema number.

    Raises:
        SchemaNewer: the store is from a newer version than this one.
    """
    if (found := version(db)) > SCHEMA:
        raise SchemaNewer(str(path), f"{path} has schema {found}, this version knows {SCHEMA}; upgrade laneway")
    return found


def migrate(db: sqlite3.Connection, path: Path, now: int) -> None:
    """Bring the control tables to this version's schema; nothing happens when they are there."""
    if check_version(db, path) == SCHEMA:
        return
    db.execute("BEGIN IMMEDIATE")
    try:
        for number, script in enumerate(scripts(), 1):
            if number > version(db):
                run_script(db, script)
                db.execute(sql.SET_SCHEMA, (str(number),))
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


def run_script(db: sqlite3.Connection, script: str) -> None:
    """Run each statement of a script inside the transaction that is open."""
    for statement in statements(script):
        db.execute(statement)
        if not db.in_transaction:
            raise StoreError("migration", f"a migration ended its transaction: {statement[:80]!r}")


def statements(script: str) -> Iterator[str]:
    """Split a script at the semicolons that end statements, also those with triggers."""
    part = ""
    for piece in script.split(";"):
        part += piece
        if sqlite3.complete_statement(part + ";") or not part.strip():
            if part.strip():
                yield part + ";"
            part = ""
        else:
            part += ";"
    if only_comments(part):
        return
    yield part


def only_comments(text: str) -> bool:
    """Tell whether nothing but white space and line comments is left."""
    return all(not line.strip() or line.strip().startswith("--") for line in text.splitlines())


@dataclass(frozen=True, slots=True)
class MigrateApp:
    """Run an application's scripts that this store has not seen. Only the lock holder may apply it."""

    app: str
    scripts: Sequence[str]

    def apply(self, tx: Transaction) -> int:
        """Return how many scripts ran.

        Raises:
            MigrationChanged: a script that ran before reads differently now.
            StoreError: a script does not run; names the number.
        """
        ran = {row["number"]: row["digest"] for row in tx.all(sql.APP_MIGRATIONS, (self.app,))}
        for number, script in enumerate(self.scripts, 1):
            digest = hashlib.blake2b(script.encode(), digest_size=16).hexdigest()
            if number not in ran:
                self.run(tx, number, script, digest)
            elif ran[number] != digest:
                raise MigrationChanged(
                    self.app, f"app {self.app!r}: migration {number} ran here before and reads differently now; add a new one"
                )
        return len(self.scripts) - len(ran)

    def run(self, tx: Transaction, number: int, script: str, digest: str) -> None:
        """Run one script and write down that it ran."""
        try:
            run_script(tx.db, script)
        except sqlite3.Error as error:
            raise StoreError(self.app, f"app {self.app!r}: migration {number} does not run: {error}") from error
        tx.run(sql.ADD_APP_MIGRATION, {"app": self.app, "number": number, "digest": digest, "now": tx.now})
