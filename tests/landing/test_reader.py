"""Reads of a compute half: a snapshot, a second, and always an answer."""

import queue
import sqlite3
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from landing.reader import Queries, Reader, Unanswered
from landing.transaction import Transaction
from tests.landing.stand import PATIENCE, Stand

FOREVER = "WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT COUNT(*) FROM n"


class Asking:
    """A reader thread on a clock turned by hand."""

    def __init__(self, stand: Stand) -> None:
        self.now = 0.0
        self.reader = Reader(stand.home, lambda: self.now, lambda then, answer: then(answer))

    def ask(
        self, fn: Callable[..., Any], finish: Callable[[Any], Any] = lambda value: value, **args: Any
    ) -> Any:
        reply: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.reader.submit(fn, args, finish, reply.put)
        return reply.get(timeout=PATIENCE)


@pytest.fixture
def asking(stand: Stand) -> Iterator[Asking]:
    asking = Asking(stand)
    yield asking
    assert asking.reader.close(PATIENCE)


def kinds(db: Queries, like: str = "%") -> list[tuple[Any, ...]]:
    return db.query("SELECT kind FROM laneway_kinds WHERE kind LIKE ? ORDER BY kind", (like,))


def test_a_read_gets_its_arguments_and_returns_its_rows(asking: Asking) -> None:
    """C127, C153."""
    assert asking.ask(kinds, like="e%") == [("embed",)]
    assert asking.ask(kinds, len) == 4


def test_a_read_sees_what_has_landed_when_it_begins_and_nothing_later(stand: Stand, asking: Asking) -> None:
    """K13."""

    def before_and_after(db: Queries) -> tuple[int, int]:
        def count() -> int:
            return int(db.query("SELECT COUNT(*) FROM laneway_jobs")[0][0])

        before = count()
        stand.enqueue()
        return before, count()

    assert asking.ask(before_and_after) == (0, 0)
    assert asking.ask(lambda db: db.query("SELECT COUNT(*) FROM laneway_jobs")) == [(1,)]


def test_a_read_that_does_not_end_is_stopped_after_a_second(asking: Asking) -> None:
    """K8."""
    clock = iter([0.0, 1.0] + [1.001] * 10_000_000)
    asking.reader._monotonic = lambda: next(clock)
    assert asking.ask(lambda db: db.query(FOREVER)) == Unanswered("the read took longer than 1 s")
    asking.reader._monotonic = lambda: 0.0
    assert asking.ask(kinds, len) == 4


def test_a_read_that_does_not_end_is_stopped_after_a_second_on_the_real_clock(stand: Stand) -> None:
    """K8."""
    import time

    asking = Asking(stand)
    asking.reader._monotonic = time.monotonic
    began = time.monotonic()
    assert isinstance(asking.ask(lambda db: db.query(FOREVER)), Unanswered)
    assert 1 <= time.monotonic() - began < 3
    assert asking.reader.close(PATIENCE)


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM laneway_kinds",
        "INSERT INTO notes VALUES (1, 2, 3)",
        "CREATE TABLE x (y)",
        "PRAGMA user_version = 5",
        "DROP TABLE notes",
    ],
)
@pytest.mark.parametrize("trick", ["SELECT 1", "PRAGMA query_only = OFF", "COMMIT", "ROLLBACK"])
def test_a_read_cannot_write_whatever_it_tries_first(
    stand: Stand, asking: Asking, trick: str, statement: str
) -> None:
    """C127, K13."""

    def write(db: Queries) -> None:
        db.query(trick)
        db.query(statement)

    answer = asking.ask(write)
    assert isinstance(answer, Unanswered)
    assert "readonly" in answer.text
    assert asking.ask(kinds, len) == 4
    assert stand.notes() == []


def raising(error: BaseException) -> Callable[[Any], Any]:
    def fn(_: Any) -> Any:
        raise error

    return fn


@pytest.mark.parametrize(
    ("fn", "said"),
    [
        (lambda db: db.query("SELECT * FROM nowhere"), "OperationalError: no such table: nowhere"),
        (lambda db: db.query("SELECT ?"), "binding"),
        (lambda db: db.query("SELECT ?", (2**64,)), "OverflowError"),
        (lambda db: db.nothing, "AttributeError"),
        (raising(ValueError("no")), "ValueError: no"),
        (raising(SystemExit(3)), "SystemExit"),
        (raising(KeyboardInterrupt()), "KeyboardInterrupt"),
    ],
    ids=lambda value: value if isinstance(value, str) else "fn",
)
def test_every_error_is_an_answer_and_the_next_read_works(
    asking: Asking, fn: Callable[..., Any], said: str
) -> None:
    """C153."""
    answer = asking.ask(fn)
    assert isinstance(answer, Unanswered)
    assert answer.text.startswith("the read failed: ")
    assert said in answer.text
    assert asking.ask(kinds, len) == 4


def test_an_error_while_the_answer_is_encoded_is_an_answer_too(asking: Asking) -> None:
    """C153."""
    assert asking.ask(kinds, raising(TypeError("not data"))) == Unanswered(
        "the read failed: TypeError: not data"
    )


def test_a_read_with_wrong_arguments_is_answered(asking: Asking) -> None:
    """C153."""
    assert "unexpected keyword argument" in asking.ask(kinds, shape="round").text


def test_nothing_of_sqlite3_is_reachable_by_a_public_name(asking: Asking) -> None:
    """K13."""
    assert asking.ask(lambda db: [name for name in dir(db) if not name.startswith("_")]) == ["query"]


def test_reads_keep_no_snapshot_when_they_are_over(stand: Stand, asking: Asking) -> None:
    """K8: one that stayed would pin the WAL."""
    asking.ask(kinds)
    asking.ask(raising(ValueError()))
    assert asking.reader._db.in_transaction is False

    class Fold:
        def apply(self, tx: Transaction) -> Any:
            return None

    stand.write(Fold())
    stand.enqueue()
    with sqlite3.connect(stand.home / "store.db") as db:
        assert db.execute("PRAGMA wal_checkpoint(RESTART)").fetchone()[0] == 0
    db.close()


def test_closing_says_whether_the_thread_came_back(stand: Stand) -> None:
    """K11."""
    asking, opened = Asking(stand), threading.Event()
    asking.reader.submit(lambda _: opened.wait(PATIENCE), {}, bool, print)
    assert not asking.reader.close(0.01)
    opened.set()
    assert asking.reader.close(PATIENCE)


class Unprintable(Exception):
    """An error whose text cannot be had."""

    def __str__(self) -> str:
        return self.nothing  # type: ignore[attr-defined, no-any-return]

    __repr__ = __str__


class Mute(BaseException):
    """An error that runs code whatever is asked of it."""

    def __getattribute__(self, name: str) -> Any:
        raise SystemExit(9)

    def __str__(self) -> str:
        raise SystemExit(9)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (Unprintable, "Unprintable"),
        (lambda: Unprintable("why"), "Unprintable: why"),
        (Mute, "Mute"),
        (lambda: ValueError("\ud800\0"), r"ValueError: \ud800\x00"),
    ],
    ids=["unprintable", "with args", "mute", "surrogate"],
)
def test_a_read_whose_error_has_no_text_is_answered_and_the_next_read_works(
    asking: Asking, make: Callable[[], BaseException], said: str
) -> None:
    """C153: no hook of its class is run for it."""

    def fn(_: Any) -> Any:
        raise make()

    assert asking.ask(fn) == Unanswered(f"the read failed: {said}")
    assert asking.ask(kinds, fn) == Unanswered(f"the read failed: {said}")
    assert asking.ask(kinds, len) == 4


def test_an_answer_that_says_why_there_is_none_can_be_sent(asking: Asking) -> None:
    """C153."""
    assert asking.ask(kinds, lambda _: Unanswered("no\ud800")) == Unanswered(r"no\ud800")
