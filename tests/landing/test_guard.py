"""What an application's SQL cannot do to the store, however it is put (CONTRACTS K1)."""

import sqlite3
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from landing.batches import Landed, LanderRaised, RowsRefused
from landing.errors import StoreError
from landing.lander import Raised
from landing.migrate import MigrateApp
from landing.sql import attempt as sql
from landing.transaction import CommitLost, Facade, Refused
from tests.landing.stand import Stand, keep_notes, land, lander_thread, one_group, standing


def cause_of(stand: Stand, lander: Any) -> BaseException | None:
    claimed = stand.running()
    try:
        stand.land(claimed, 1, (claimed.job, 1, "a"), lander=lander)
    except LanderRaised as raised:
        return raised.cause
    return None


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE laneway_jobs SET state = 'done'",
        "DELETE FROM LANEWAY_JOBS",
        "INSERT INTO laneway_meta VALUES ('pruning', '1')",
        "WITH x AS (SELECT 1) UPDATE laneway_jobs SET reason = 'x'",
        "DROP TABLE laneway_jobs",
        "ALTER TABLE laneway_jobs ADD COLUMN x",
        "DROP INDEX laneway_jobs_heads",
        "DROP TRIGGER laneway_jobs_counted",
        "CREATE INDEX mine ON laneway_jobs (id)",
        "CREATE TABLE laneway_mine (x)",
        "CREATE TEMP TABLE laneway_jobs (x)",
        "CREATE TEMP VIEW laneway_jobs AS SELECT 1",
        "CREATE TRIGGER mine AFTER UPDATE ON laneway_jobs BEGIN SELECT 1; END",
        "CREATE TEMP TRIGGER mine AFTER UPDATE ON laneway_jobs BEGIN SELECT 1; END",
        sql.ADD_EVENT,
    ],
)
def test_the_stores_own_tables_can_only_be_read(stand: Stand, statement: str) -> None:
    """K1, U14: also with the text of a statement that the store has prepared for itself."""

    def lander(db: Facade, view: object, rows: Any) -> None:
        db.query("SELECT COUNT(*) FROM laneway_jobs")
        db.enqueue("scan")
        args = {"now": 1, "job": 1, "run": 1, "name": "x", "detail": None} if ":now" in statement else ()
        db.execute(statement, args)

    stand.cancel(stand.leased("once").job)  # the store has prepared ADD_EVENT on another connection too
    cause = cause_of(stand, lander)
    assert isinstance(cause, Refused)
    assert "belongs to the store" in str(cause)
    assert stand.query("SELECT COUNT(*) FROM laneway_jobs WHERE kind = 'scan'") == [(0,)]


def test_a_trigger_of_the_application_cannot_write_them_for_it(stand: Stand) -> None:
    """K1."""

    def lander(db: Facade, view: object, rows: Any) -> None:
        db.execute(
            "CREATE TRIGGER sly AFTER INSERT ON notes BEGIN UPDATE laneway_jobs SET state = 'done'; END"
        )
        keep_notes(db, view, rows)

    assert isinstance(cause_of(stand, lander), Refused)


@pytest.mark.parametrize("reach", ["commit", "rollback", "COMMIT", "SAVEPOINT s", "PRAGMA query_only = 1"])
def test_the_connection_itself_refuses_while_the_lander_runs(stand: Stand, reach: str) -> None:
    """K1: by a private name too."""

    def lander(db: Facade, view: object, rows: Any) -> None:
        keep_notes(db, view, rows)
        raw: sqlite3.Connection = db._tx.db
        if reach.islower():
            getattr(raw, reach)()
        else:
            raw.execute(reach)

    cause = cause_of(stand, lander)
    assert isinstance(cause, sqlite3.DatabaseError)
    assert cause.sqlite_errorcode == sqlite3.SQLITE_AUTH
    assert stand.notes() == []


def test_the_connection_cannot_be_closed_by_the_lander(stand: Stand) -> None:
    """K1."""
    cause = cause_of(stand, lambda db, view, rows: db._tx.db.close())
    assert isinstance(cause, sqlite3.ProgrammingError)
    assert "belongs to the store" in str(cause)


def test_full_text_search_temporary_tables_and_schema_changes_work(stand: Stand) -> None:
    """K1: what an application needs."""
    stand.write(
        MigrateApp(
            "app",
            [
                "CREATE TABLE notes (job INTEGER, seq INTEGER, text TEXT)",
                "CREATE VIRTUAL TABLE words USING fts5 (text);"
                "CREATE TABLE own (id INTEGER PRIMARY KEY, laneway_job INTEGER);"
                "CREATE INDEX own_job ON own (laneway_job);"
                "CREATE TRIGGER own_told AFTER INSERT ON own BEGIN INSERT INTO words VALUES ('told'); END",
            ],
        )
    )
    seen = []

    def lander(db: Facade, view: object, rows: Any) -> None:
        db.executemany("INSERT INTO words VALUES (?)", [(str(n),) for n in range(300)])
        db.execute("INSERT INTO words (words) VALUES ('optimize')")
        db.execute("INSERT INTO words (words) VALUES ('rebuild')")
        db.execute("INSERT INTO own (laneway_job) VALUES (1)")
        db.execute("UPDATE own SET laneway_job = 2")
        db.execute("CREATE TEMP TABLE scratch AS SELECT * FROM own")
        db.execute("ALTER TABLE own ADD COLUMN more")
        db.execute("DROP TABLE scratch")
        seen.extend(db.query("SELECT COUNT(*) FROM words WHERE words MATCH 'told'"))
        seen.extend(db.query("SELECT COUNT(*) FROM pragma_table_info('own')"))

    assert cause_of(stand, lander) is None
    assert seen == [(1,), (3,)]


def test_a_migration_that_touches_the_stores_tables_does_not_run(stand: Stand) -> None:
    """K1."""
    with pytest.raises(StoreError, match="migration 1 does not run: laneway_jobs belongs to the store"):
        stand.write(MigrateApp("other", ["DROP TABLE laneway_jobs"]))


def test_a_facade_is_dead_after_its_batch(stand: Stand) -> None:
    """K1."""
    kept: list[Facade] = []
    assert cause_of(stand, lambda db, view, rows: kept.append(db)) is None

    def lander(db: Facade, view: object, rows: Any) -> None:
        for use in (lambda: kept[0].execute("DELETE FROM notes"), lambda: kept[0].enqueue("scan")):
            with pytest.raises(Refused, match="a batch that is over"):
                use()

    stand.finish(stand.running("scan"))
    claimed = stand.running("once")
    assert stand.land(claimed, 1, (1, 2, 3), lander=lander) is Landed.LANDED


def test_a_statement_is_a_plain_str(stand: Stand) -> None:
    """K1: one of a class of its own could say that it was seen before."""

    class Known(str):
        __slots__ = ()

        def __hash__(self) -> int:
            return hash("SELECT 1")

        def __eq__(self, other: object) -> bool:
            return True

    def lander(db: Facade, view: object, rows: Any) -> None:
        db.query("SELECT 1")
        db.execute(Known("COMMIT"))

    assert isinstance(cause_of(stand, lander), Refused)


def test_a_lander_that_ended_the_transaction_fails_by_that_and_the_others_land(stand: Stand) -> None:
    """K1: its answer is its own failure, never stale, even where it did commit."""
    good, bad = stand.running("embed"), stand.running("scan")

    def commits(db: Facade, view: object, rows: Any) -> None:
        keep_notes(db, view, rows)
        db._tx.db.guard.on = False
        db._tx.db.commit()
        raise ValueError("after that")

    with lander_thread(stand.home, monotonic=standing) as thread:
        with one_group(thread):
            lost = thread.post(land(bad, 1, [(bad.job, 1, "a")], commits))
            late = thread.post(land(good, 1, [(good.job, 1, "b")]))
        answer = lost.get(timeout=20)
        assert isinstance(answer, Raised)
        assert isinstance(answer.error, LanderRaised)
        assert isinstance(answer.error.cause, CommitLost)
        assert late.get(timeout=20) is Landed.LANDED
        alone = thread.ask(land(good, 2, [(good.job, 2, "b")], commits))
        assert isinstance(alone.error.cause, CommitLost)


class Hostile(BaseException):
    """An error whose every hook raises."""

    def __str__(self) -> str:
        raise SystemExit(9)

    __repr__ = __str__

    def __getattribute__(self, name: str) -> Any:
        raise SystemExit(9)


@pytest.mark.parametrize(
    "make",
    [lambda: Hostile("x"), lambda: SystemExit(3), lambda: ValueError("\ud800")],
    ids=["hostile", "exit", "text"],
)
def test_whatever_decoding_raises_the_rows_are_refused_and_the_thread_lives(
    stand: Stand, make: Callable[[], BaseException]
) -> None:
    """K1, K3: types that an application declares run its code."""
    claimed = stand.running()

    def rows() -> Any:
        raise make()

    batch = land(claimed, 1, [1])
    object.__setattr__(batch, "rows", rows)
    with lander_thread(stand.home) as thread:
        answer = thread.ask(batch)
        assert isinstance(answer.error, RowsRefused)
        assert "the rows do not decode" in str(answer.error)
        str(answer.error).encode()
        hostile = thread.ask(land(claimed, 1, [1], lambda *_: rows()))
        assert isinstance(hostile.error, LanderRaised)
        assert thread.ask(land(claimed, 1, [(1, 1, "a")])) is Landed.LANDED


def test_what_the_lander_swallows_stays_refused(stand: Stand) -> None:
    """K1."""

    def lander(db: Facade, view: object, rows: Any) -> None:
        with suppress(Refused):
            db.execute("DELETE FROM laneway_receipts")
        keep_notes(db, view, rows)

    assert cause_of(stand, lander) is None
    assert len(stand.notes()) == 1
