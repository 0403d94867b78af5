"""Schemas: made once, by one, statement by statement, and never backward."""

import fcntl
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from landing.connect import open_private, open_writer, store_path
from landing.errors import MigrationChanged, SchemaNewer, StoreBusy, StoreError, StoreFull
from landing.migrate import (
    INIT_LOCK,
    INIT_TRIES,
    INIT_TRY_SECONDS,
    MigrateApp,
    create,
    migrate,
    only_comments,
    statements,
)
from landing.snapshot import SCHEMA, snapshot, version
from landing.transaction import Transaction
from tests.landing.stand import START, Stand

ROOT = Path(__file__).resolve().parent.parent.parent
FIRST = "CREATE TABLE one (x)"
SECOND = "ALTER TABLE one ADD COLUMN y; INSERT INTO one VALUES (1, 'a;b')"


def tables(stand: Stand) -> set[str]:
    return {name for (name,) in stand.query("SELECT name FROM sqlite_master WHERE type = 'table'")}


def test_a_fresh_store_is_at_this_versions_schema(home: Path) -> None:
    create(home, START)
    with snapshot(home) as db:
        assert version(db) == SCHEMA == 4
        assert db.execute("SELECT at, name, detail FROM laneway_events").fetchall() == [
            (START, "migrated", '{"schema": 4, "from": 0}')
        ]


def test_creating_again_changes_nothing(home: Path) -> None:
    stand = Stand(home).furnish()
    job = stand.enqueue()
    before = stand.query("SELECT sql FROM sqlite_master ORDER BY name")
    create(home, START + 1)
    assert stand.query("SELECT sql FROM sqlite_master ORDER BY name") == before
    assert stand.query("SELECT COUNT(*) FROM laneway_events") == [(1,)]
    assert stand.row(job)["state"] == "queued"


def test_a_newer_store_is_refused_by_every_way_in(stand: Stand) -> None:
    with closing(open_writer(store_path(stand.home))) as db:
        db.execute("UPDATE laneway_meta SET value = '9' WHERE name = 'schema'")
    for act in (
        lambda: create(stand.home, START),
        stand.enqueue,
        lambda: snapshot(stand.home).__enter__(),
    ):
        with pytest.raises(SchemaNewer, match="has schema 9, this version knows 4; upgrade laneway"):
            act()


def test_tables_are_made_under_the_init_lock(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """K7."""
    held = []

    def watched(*args: object) -> None:
        with closing(os.fdopen(open_private(home / INIT_LOCK))) as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                held.append(True)
        migrate(*args)

    monkeypatch.setattr("landing.migrate.migrate", watched)
    create(home, START)
    assert held == [True]


def test_a_lock_that_nobody_lets_go_is_not_waited_for_for_ever(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K7: a stopped process may hold it."""
    assert INIT_TRIES * INIT_TRY_SECONDS == 30
    monkeypatch.setattr("landing.migrate.INIT_TRIES", 3)
    home.mkdir()
    with closing(os.fdopen(open_private(home / INIT_LOCK))) as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(StoreBusy) as refused:
            create(home, START)
    assert str(refused.value) == (
        f"{home}/init.lock: another process has been making the store for too long;"
        f" fuser {home}/init.lock says which"
    )
    create(home, START)


def test_who_comes_while_the_tables_are_made_waits_for_it(home: Path) -> None:
    """K7."""
    home.mkdir()
    held = os.fdopen(open_private(home / INIT_LOCK))
    fcntl.flock(held, fcntl.LOCK_EX)
    with closing(held), ThreadPoolExecutor(1) as pool:
        made = pool.submit(create, home, START)
        with pytest.raises(TimeoutError):
            made.result(0.1)
        fcntl.flock(held, fcntl.LOCK_UN)
        made.result(20)
    with snapshot(home) as db:
        assert version(db) == SCHEMA


def test_what_another_has_made_since_the_first_look_is_not_made_again(
    stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K7."""
    monkeypatch.setattr("landing.migrate.check_version", lambda *_: 0)
    create(stand.home, START)
    assert stand.query("SELECT COUNT(*) FROM laneway_events") == [(1,)]


def test_a_full_disk_is_not_the_scripts_fault(stand: Stand) -> None:
    """K1: the lander waits for room, and the app is not refused."""

    class Tight:
        def apply(self, tx: Transaction) -> int:
            pages = tx.one("PRAGMA page_count")
            assert pages is not None
            tx.run(f"PRAGMA max_page_count = {pages[0]}")
            return MigrateApp("other", [FIRST, "INSERT INTO one VALUES (zeroblob(100000))"]).apply(tx)

    with pytest.raises(StoreFull):
        stand.write(Tight())


RACER = """
import sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from landing.enqueue import Enqueue, Register
from landing.store import Store
from policies.options import Options
sys.stdin.read(1)
store = Store(Path(sys.argv[2]), lambda: 1, create_missing=True)
store.write(Register("app", {"k": Options()}))
print(store.write(Enqueue(kind="k", payload="{}")).id)
"""


def test_eight_first_writers_at_once_make_one_store(home: Path) -> None:
    """K7."""
    command = [sys.executable, "-c", RACER, str(ROOT), str(home)]
    racers = [
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for _ in range(8)
    ]
    try:
        for racer in racers:
            racer.stdin.write("g")
            racer.stdin.flush()
        ends = [racer.communicate(timeout=50) for racer in racers]
    finally:
        for racer in racers:
            racer.kill()
    assert [err for _, err in ends] == [""] * 8
    assert sorted(int(out) for out, _ in ends) == list(range(1, 9))
    with snapshot(home) as db:
        assert db.execute("SELECT COUNT(*) FROM laneway_events").fetchone() == (1,)


def test_an_apps_scripts_run_once_each_in_order(stand: Stand) -> None:
    assert stand.write(MigrateApp("other", [FIRST])) == 1
    assert stand.write(MigrateApp("other", [FIRST])) == 0
    assert stand.write(MigrateApp("other", [FIRST, SECOND])) == 1
    assert stand.query("SELECT * FROM one") == [(1, "a;b")]
    assert stand.query("SELECT number, applied_at FROM laneway_app_migrations WHERE app = 'other'") == [
        (1, START),
        (2, START),
    ]


def test_apps_number_their_scripts_apart(stand: Stand) -> None:
    stand.write(MigrateApp("a", ["CREATE TABLE a (x)"]))
    stand.write(MigrateApp("b", ["CREATE TABLE b (x)"]))
    assert {"a", "b"} <= tables(stand)


def test_a_script_that_was_edited_after_it_ran_is_refused(stand: Stand) -> None:
    stand.write(MigrateApp("other", [FIRST]))
    with pytest.raises(MigrationChanged, match="migration 1 ran here and reads differently now") as refused:
        stand.write(MigrateApp("other", [FIRST + " -- better", SECOND]))
    assert refused.value.code == "migration_changed"
    assert stand.query("SELECT COUNT(*) FROM one") == [(0,)]


def test_an_app_older_than_its_tables_is_refused(stand: Stand) -> None:
    stand.write(MigrateApp("other", [FIRST, SECOND]))
    with pytest.raises(SchemaNewer, match="migration 2 ran here, this version lacks it"):
        stand.write(MigrateApp("other", [FIRST]))


def test_a_script_that_fails_in_the_middle_leaves_nothing(stand: Stand) -> None:
    """A2."""
    with pytest.raises(StoreError, match="app 'other': migration 2 does not run: no such table: nowhere"):
        stand.write(MigrateApp("other", [FIRST, "CREATE TABLE two (x); INSERT INTO nowhere VALUES (1)"]))
    assert {"one", "two"}.isdisjoint(tables(stand))
    assert stand.query("SELECT * FROM laneway_app_migrations WHERE app = 'other'") == []


@pytest.mark.parametrize(
    "ending",
    [
        "COMMIT",
        "end",
        "/* x */ ROLLBACK",
        "-- x\n COMMIT",
        "SAVEPOINT s",
        "BEGIN",
        "VACUUM",
        "PRAGMA foreign_keys = 0",
    ],
)
def test_a_script_that_would_end_its_transaction_is_refused_before_it_does(stand: Stand, ending: str) -> None:
    """K1."""
    with pytest.raises(StoreError, match=r"migration 1 does not run: .* may not run here"):
        stand.write(MigrateApp("other", [f"{FIRST}; {ending}; CREATE TABLE two (x)"]))
    assert {"one", "two"}.isdisjoint(tables(stand))


@pytest.mark.parametrize(
    ("script", "parts"),
    [
        ("", []),
        (" \n;;\n", []),
        ("-- only; words\n", []),
        ("/* only; words */ -- and more", []),
        ("A; B", ["A;", "B;"]),
        ("A; B;\n-- the end", ["A;", "B;"]),
        ("INSERT INTO t VALUES ('a;b', 'it''s;')", ["INSERT INTO t VALUES ('a;b', 'it''s;');"]),
        ('CREATE TABLE "x;y" ([a;b], `c;d`); Z', ['CREATE TABLE "x;y" ([a;b], `c;d`);', "Z;"]),
        ("A -- not; here\n, B; C", ["A -- not; here\n, B;", "C;"]),
        ("A /* nor; here */; C", ["A /* nor; here */;", "C;"]),
        (
            "CREATE TRIGGER t DELETE ON a BEGIN DELETE FROM b; SELECT CASE 1 WHEN 2 THEN 3 END; END; Z;",
            [
                "CREATE TRIGGER t DELETE ON a BEGIN DELETE FROM b; SELECT CASE 1 WHEN 2 THEN 3 END; END;",
                "Z;",
            ],
        ),
    ],
)
def test_a_script_is_cut_at_the_semicolons_that_end_statements(script: str, parts: list[str]) -> None:
    """K1."""
    assert [part.strip() for part in statements(script)] == parts


def test_what_is_left_unfinished_is_not_swallowed() -> None:
    assert list(statements("INSERT INTO t VALUES ('a; b")) == ["INSERT INTO t VALUES ('a; b;"]


PIECES = st.lists(
    st.sampled_from(["SELECT 1", "SELECT ';'", "SELECT /* ; */ 2", "SELECT 3 -- ;\n", "-- ;\n", "  ", "\n"]),
    max_size=8,
)


@given(PIECES)
def test_no_statement_is_lost_or_cut(pieces: list[str]) -> None:
    """K1."""
    cut = list(statements(";".join(pieces)))
    assert sum(part.count("SELECT") for part in cut) == sum(piece.count("SELECT") for piece in pieces)
    assert all(part.count("SELECT") == 1 for part in cut)


def test_only_comments_means_only_comments() -> None:
    assert only_comments(" -- a\n/* b */\n--")
    assert not only_comments("-- a\nSELECT 1")
    assert not only_comments("/* a */ x")
