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

Args = Sequence[Any] | Mapping[str, Any]
Reply_co = TypeVar("Reply_co", covariant=True)

REFUSED: Final = frozenset(
    {"BEGIN", "COMMIT", "END", "ROLLBACK", "SAVEPOINT", "RELEASE", "ATTACH", "DETACH", "PRAGMA", "VACUUM"}
)
FIRST_WORD: Final = re.compile(r"(?:\s|--[^\n]*\n|/\*.*?\*/)*([A-Za-z]+)", re.DOTALL)


class CommitLost(Exception):
    """An operation ended the transaction that it ran in; nothing of the group counts."""


class Refused(Exception):
    """A statement would control the transaction that it runs in."""


@dataclass(slots=True)
class Transaction:
    """An open BEGIN IMMEDIATE on `db`; `now` is microseconds UTC, read once when it began.

    `trouble` is the store's own error (full, broken) that a lander met; it is never
    the lander's fault, also where the lander swallowed it.
    """

    db: sqlite3.Connection
    now: int
    trouble: sqlite3.Error | None = None

    def one(self, sql: str, args: Args = ()) -> sqlite3.Row | None:
        """Run a statement and return its first row; it is run to its end, as RETURNING needs."""
        rows = self.all(sql, args)
        return rows[0] if rows else None

    def all(self, sql: str, args: Args = ()) -> list[sqlite3.Row]:
        """Run a statement and return all rows."""
        with closing(self.db.cursor()) as cursor:
            cursor.row_factory = sqlite3.Row
            return cursor.execute(sql, args).fetchall()

    def run(self, sql: str, args: Args = ()) -> int:
        """Run a statement and return how many rows it changed."""
        return self.db.execute(sql, args).rowcount

    def must_be_open(self) -> None:
        """Raise CommitLost when something inside has committed or rolled back."""
        if not self.db.in_transaction:
            raise CommitLost("the transaction was ended by something inside it")


@contextmanager
def committing(db: sqlite3.Connection, now: Callable[[], int]) -> Iterator[Transaction]:
    """Commit the transaction that BEGIN IMMEDIATE has opened; roll it back whatever is raised (SPEC A2).

    Raises:
        CommitLost: it is not open any more at the end.
    """
    try:
        tx = Transaction(db, now())
        yield tx
        tx.must_be_open()
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


class Operation(Protocol[Reply_co]):
    """Something to do inside one transaction; it may be rolled back and applied again."""

    def apply(self, tx: Transaction) -> Reply_co:
        """Do it and return the answer, which counts only once COMMIT has returned."""


def harmless(sql: str) -> str:
    """Return a statement that leaves its transaction alone.

    Raises:
        Refused: it begins, ends, attaches or reconfigures; comments before the word hide nothing.
    """
    word = FIRST_WORD.match(sql)
    if word is None or word[1].upper() in REFUSED:
        said = word[1].upper() if word else repr(sql[:80])
        raise Refused(f"{said} may not run here: the transaction belongs to the store")
    return sql


class Facade:
    """What a lander writes through; see `supervisor.api.Landing` for the promises."""

    __slots__ = ("_enqueue", "_seen", "_tx")

    def __init__(self, tx: Transaction, enqueue: Callable[[str, Any], int]) -> None:
        self._tx = tx
        self._enqueue = enqueue
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
        self._tx.must_be_open()
        return self._enqueue(kind, payload)

    def _run(self, run: Callable[..., sqlite3.Cursor], sql: str, args: Any) -> sqlite3.Cursor:
        """Run a harmless statement, only while the transaction is open: outside it would commit by itself."""
        if sql not in self._seen:
            self._seen.add(harmless(sql))
        self._tx.must_be_open()
        try:
            return run(sql, args)
        except sqlite3.Error as error:
            if is_trouble(error):
                self._tx.trouble = error
            raise
