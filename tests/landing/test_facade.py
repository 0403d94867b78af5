"""What a lander can and cannot do (CONTRACTS K1)."""

import re
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from typing import Any

import pytest

from landing.batches import Landed, LanderRaised
from landing.errors import StoreFull
from landing.transaction import CommitLost, Facade, Refused, Transaction, harmless
from policies.payload import PayloadRefused
from tests.landing.stand import Stand, land

CONTROL = [
    "COMMIT",
    "commit",
    "  END TRANSACTION",
    "ROLLBACK",
    "BEGIN IMMEDIATE",
    "SAVEPOINT s",
    "RELEASE s",
    "; COMMIT",
    ";;\t;COMMIT",
    "-- innocent\nCOMMIT",
    "--\n--\n\tCOMMIT",
    "/* innocent */COMMIT",
    "/*/ still a comment */ COMMIT",
    "/**/-- x\n/* SELECT */ ROLLBACK",
    "\ufeffCOMMIT",
    "\x0cCOMMIT",
    "ATTACH ':memory:' AS other",
    "DETACH main",
    "PRAGMA synchronous = OFF",
    "VACUUM",
    "EXPLAIN PRAGMA query_only = 1",
    "explain query plan SELECT 1",
]
Lander = Callable[[Any, Any, Any], object]


def landing_with(stand: Stand, lander: Lander) -> BaseException | None:
    """Land one batch through `lander` and return what it raised."""
    claimed = stand.running()
    try:
        stand.land(claimed, 1, (claimed.job, 1, "a"), lander=lander)
    except LanderRaised as raised:
        return raised.cause
    return None


@pytest.mark.parametrize("sql", CONTROL)
@pytest.mark.parametrize("verb", ["execute", "executemany", "query"])
def test_a_lander_that_would_control_the_transaction_changes_nothing(
    stand: Stand, sql: str, verb: str
) -> None:
    """K1."""

    def lander(db: Facade, view: object, rows: Any) -> None:
        db.execute("INSERT INTO notes VALUES (1, 1, 'before')")
        getattr(db, verb)(sql, [] if verb == "executemany" else ())

    assert isinstance(landing_with(stand, lander), Refused)
    assert stand.notes() == []


@pytest.mark.parametrize("sql", CONTROL)
def test_what_the_facade_refuses_sqlite_would_have_run(sql: str) -> None:
    """K1: each trick is one that SQLite understands."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
        try:
            db.execute(sql)
        except sqlite3.OperationalError as error:
            assert re.match("cannot|no such|database main", str(error))  # noqa: PT017 - understood, out of place
    with pytest.raises(Refused):
        harmless(sql)


def test_a_refusal_that_the_lander_swallows_still_lets_nothing_through(stand: Stand) -> None:
    """K1."""

    def lander(db: Facade, view: object, rows: Any) -> None:
        with suppress(Refused):
            db.execute("COMMIT")
        db.execute("INSERT INTO notes VALUES (1, 1, 'once')")

    assert landing_with(stand, lander) is None
    assert stand.notes() == [(1, 1, "once")]


def test_a_rollback_hidden_in_a_conflict_clause_lands_nothing_after_it_either(stand: Stand) -> None:
    """K1: outside the transaction each statement would commit by itself."""

    def lander(db: Facade, view: object, rows: Any) -> None:
        db.execute("CREATE TABLE IF NOT EXISTS pairs (x UNIQUE)")
        db.execute("INSERT INTO pairs VALUES (1)")
        with suppress(sqlite3.IntegrityError):
            db.execute("INSERT OR ROLLBACK INTO pairs VALUES (1)")
        with suppress(CommitLost):
            db.execute("INSERT INTO notes VALUES (1, 1, 'outside')")
        with suppress(CommitLost):
            db.enqueue("embed")

    claimed = stand.running()
    with pytest.raises(LanderRaised) as raised:
        stand.land(claimed, 1, ("x", "y", "z"), lander=lander)
    assert isinstance(raised.value.cause, CommitLost)
    assert stand.notes() == []
    assert stand.row(claimed.job)["landed_seq"] == 0
    assert stand.query("SELECT COUNT(*) FROM laneway_jobs") == [(1,)]


def test_two_statements_in_one_string_are_refused(stand: Stand) -> None:
    """K1."""
    cause = landing_with(stand, lambda db, view, rows: db.execute("SELECT 1; COMMIT"))
    assert isinstance(cause, sqlite3.Warning | sqlite3.ProgrammingError)
    assert stand.notes() == []


@pytest.mark.parametrize("sql", ["", "   ", "-- nothing", "/* open", "1"])
def test_what_is_no_statement_is_refused(sql: str) -> None:
    with pytest.raises(Refused, match="may not run here"):
        harmless(sql)


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO t VALUES ('COMMIT')",
        "select 1",
        "WITH a AS (SELECT 1) DELETE FROM t",
        "CREATE TRIGGER t AFTER INSERT ON a BEGIN SELECT 1; END",
        "/* a */ REPLACE INTO t VALUES (1)",
        "committee",
    ],
)
def test_ordinary_statements_pass(sql: str) -> None:
    assert harmless(sql) == sql


def test_nothing_of_sqlite3_is_reachable_by_a_public_name(stand: Stand) -> None:
    """K1."""
    seen: list[object] = []

    def lander(db: Facade, view: object, rows: Any) -> None:
        public = [name for name in dir(db) if not name.startswith("_")]
        assert public == ["enqueue", "execute", "executemany", "query"]
        answers = [
            db.execute("INSERT INTO notes VALUES (?, ?, ?)", (1, 1, "a")),
            db.executemany("INSERT INTO notes VALUES (?, ?, ?)", [(1, 2, "b"), (1, 3, "c")]),
            db.query("SELECT seq FROM notes ORDER BY seq"),
            db.query("SELECT :x", {"x": 5}),
            db.enqueue("embed", {"n": 1}),
        ]
        seen.extend(answers)
        assert not hasattr(db, "executescript")
        assert not hasattr(db, "commit")
        with pytest.raises(AttributeError):
            db.extra = 1  # type: ignore[attr-defined]

    assert landing_with(stand, lander) is None
    assert seen[:4] == [1, 2, [(1,), (2,), (3,)], [(5,)]]
    assert stand.row(int(str(seen[4])))["payload"] == '{"n":1}'


def test_a_job_that_a_lander_enqueues_is_there_only_if_the_batch_is(stand: Stand) -> None:
    """K1, U14."""

    def lander(db: Facade, view: object, rows: Any) -> None:
        assert db.enqueue("scan") > 0
        raise ValueError("after all, no")

    assert isinstance(landing_with(stand, lander), ValueError)
    assert stand.query("SELECT COUNT(*) FROM laneway_jobs WHERE kind = 'scan'") == [(0,)]


def test_a_payload_that_is_not_json_is_refused_in_the_lander_too(stand: Stand) -> None:
    """K15."""
    assert isinstance(
        landing_with(stand, lambda db, view, rows: db.enqueue("scan", float("nan"))), PayloadRefused
    )


def test_the_stores_own_trouble_is_never_taken_for_the_landers(stand: Stand) -> None:
    """K1: also where the lander swallows it."""

    class Tight:
        def __init__(self, lander: Lander) -> None:
            self.batch = land(claimed, 1, [("x", "y", "z")], lander)

        def apply(self, tx: Transaction) -> Landed:
            pages = tx.one("PRAGMA page_count")
            assert pages is not None
            tx.run(f"PRAGMA max_page_count = {pages[0] + 1}")
            return self.batch.apply(tx)

    def greedy(db: Facade, view: object, rows: Any) -> None:
        db.execute("INSERT INTO notes VALUES (1, 1, zeroblob(1000000))")

    def quiet(db: Facade, view: object, rows: Any) -> None:
        with suppress(sqlite3.Error):
            greedy(db, view, rows)

    claimed = stand.running()
    for lander in (greedy, quiet):
        with pytest.raises(StoreFull, match="the disk is full"):
            stand.write(Tight(lander))
    assert stand.row(claimed.job)["landed_seq"] == 0
