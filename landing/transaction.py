"""One write transaction and what runs inside it.

`Transaction` is for this room's operations; `Facade` is what a user's lander gets:
it can write rows and enqueue, it cannot commit, attach or reconfigure (CONTRACTS K1).
"""

import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar

from landing.connect import is_trouble
from landing.guard import Writer, guarded
from landing.text import lenient

Args = Sequence[Any] | Mapping[str, Any]
Reply_co = TypeVar("Reply_co", covariant=True)

REFUSED: Final = frozenset(
    {
        *("BEGIN", "COMMIT", "END", "ROLLBACK", "SAVEPOINT", "RELEASE"),
        *("ATTACH", "DETACH", "PRAGMA", "VACUUM", "EXPLAIN"),
    }
)
OWN: Final = frozenset({sqlite3.OperationalError, sqlite3.DatabaseError, sqlite3.IntegrityError})
"""Classes that SQLite's trouble comes in; one derived from them is the application's."""

FIRST_WORD: Final = re.compile(r"(?:\s|--[^\n]*\n|/\*.*?\*/)*([A-Za-z]+)", re.DOTALL)


class CommitLost(Exception):
    """An operation ended the transaction that it ran in; nothing of the group counts."""


class Refused(Exception):
    """A statement would control the transaction that it runs in, or write what the store keeps."""


@dataclass(slots=True)
class Transaction:
    """An open BEGIN IMMEDIATE on `db`; `now` is microseconds UTC, read once when it began.

    `trouble` is the store's own error (full, broken) that a lander met; it is never
    the lander's fault, also where the lander swallowed it.
    """

    db: Writer
    now: int
    trouble: sqlite3.Error | None = None

    def one(self, sql: str, args: Args = ()) -> sqlite3.Row | None:
        """Run a statement and return its first row; it is run to its end, as RETURNING needs."""
        rows = self.all(sql, args)
        return rows[0] if rows else None

    def all(self, sql: str, args: Args = ()) -> list[sqlite3.Row]:
        """Run a statement and return all rows; a text cell that is no UTF-8 comes with escapes."""
        before, self.db.text_factory = self.db.text_factory, lenient
        try:
            with closing(self.db.cursor()) as cursor:
                cursor.row_factory = sqlite3.Row
                return cursor.execute(sql, args).fetchall()
        finally:
            self.db.text_factory = before

    def run(self, sql: str, args: Args = ()) -> int:
        """Run a statement and return how many rows it changed."""
        return self.db.execute(sql, args).rowcount

    def must_be_open(self) -> None:
        """Raise CommitLost when something inside has committed or rolled back."""
        if not self.db.in_transaction:
            raise CommitLost("the transaction was ended by something inside it")


@contextmanager
def committing(db: Writer, now: Callable[[], int]) -> Iterator[Transaction]:
    """Commit the transaction that BEGIN IMMEDIATE has opened; roll it back whatever is raised (SPEC A2).

    Raises:
        CommitLost: it is not open any more at the end.
    """
    try:
        tx = Transaction(db, now())
        yield tx
        tx.must_be_open()
        db.commit()  # not by execute: a COMMIT in the statement cache would be there for applications too
    except BaseException:
        if db.in_transaction:
            db.rollback()
        raise


class Operation(Protocol[Reply_co]):
    """Something to do inside one transaction; it may be rolled back and applied again."""

    def apply(self, tx: Transaction) -> Reply_co:
        """Do it and return the answer, which counts only once COMMIT has returned."""


def harmless(sql: str) -> str:
    """Return a statement that leaves its transaction alone.

    Raises:
        Refused: it begins, ends, attaches or reconfigures; comments before the word hide nothing.
            EXPLAIN is refused because a PRAGMA behind it takes effect while it is prepared.
    """
    if type(sql) is not str:
        raise Refused("a statement is a plain str")
    word = FIRST_WORD.match(sql)
    if word is None or word[1].upper() in REFUSED:
        said = word[1].upper() if word else repr(sql[:80])
        raise Refused(f"{said} may not run here: the transaction belongs to the store")
    return sql


class Facade:
    """What a lander writes through, while its batch lasts; see `supervisor.halves.Landing` for promises."""

    __slots__ = ("_enqueue", "_over", "_seen", "_tx")

    def __init__(self, tx: Transaction, enqueue: Callable[[str, Any], int]) -> None:
        self._tx = tx
        self._enqueue = enqueue
        self._over = False
        self._seen: set[str] = set()

    def execute(self, sql: str, args: Args = (), /) -> int:
        """Run one statement; return the number of changed rows."""
        return self._run(self._tx.db.execute, sql, args).rowcount

    def executemany(self, sql: str, rows: Iterable[Any], /) -> int:
        """Run one statement for each row; return the number of changed rows."""
        return self._run(self._tx.db.executemany, sql, rows).rowcount

    def query(self, sql: str, args: Args = (), /) -> list[tuple[Any, ...]]:
        """Return all rows of a SELECT."""
        return self._run(self._tx.db.execute, sql, args).fetchall()

    def enqueue(self, kind: str, payload: Any = None, /) -> int:
        """Enqueue a job in this transaction; return its id."""
        self._must_be_usable()
        return self._enqueue(kind, payload)

    def _must_be_usable(self) -> None:
        """Outside its batch and its transaction a statement would land in another's, or commit by itself."""
        if self._over:
            raise Refused("this db belonged to a batch that is over; use the one the lander is called with")
        self._tx.must_be_open()

    def _run(self, run: Callable[..., sqlite3.Cursor], sql: str, args: Any) -> sqlite3.Cursor:
        """Run a harmless statement.

        The newline makes it a text of its own: what the store has prepared for itself,
        unguarded, is never found for it in the statement cache.
        """
        if type(sql) is not str or sql not in self._seen:
            self._seen.add(harmless(sql))
        self._must_be_usable()
        try:
            return run(sql + "\n", args)
        except sqlite3.Error as error:
            if type(error) in OWN and is_trouble(error):
                self._tx.trouble = error
            refuse_if_denied(self._tx.db, error)
            raise


def refuse_if_denied(db: Writer, error: sqlite3.Error) -> None:
    """Say in words what the guard has denied.

    Raises:
        Refused: it has.
    """
    if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_AUTH:
        raise Refused(db.guard.said) from error


@contextmanager
def lent(tx: Transaction, enqueue: Callable[[str, Any], int]) -> Iterator[Facade]:
    """Lend the transaction to an application's code: guarded, and dead when it is given back."""

    def trusted(kind: str, payload: Any) -> int:
        with guarded(tx.db, on=False):
            return enqueue(kind, payload)

    facade = Facade(tx, trusted)
    try:
        with guarded(tx.db):
            yield facade
    finally:
        facade._over = True  # noqa: SLF001 - the slot has no public name: a lander could clear it
