"""Connections: what each sets, and that nothing of sqlite3 gets out of the room."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from landing.connect import open_reader, open_writer, store_path, translate, translated
from landing.errors import JobNotFound, NoStore, StoreBroken, StoreBusy, StoreError, StoreFull
from landing.snapshot import snapshot
from landing.store import Store
from landing.transaction import Transaction
from tests.landing.stand import START, Stand


def pragma(db: sqlite3.Connection, name: str) -> object:
    return db.execute(f"PRAGMA {name}").fetchone()[0]


def test_every_writer_has_wal_full_foreign_keys_and_no_checkpoints_of_its_own(stand: Stand) -> None:
    """A3, K8."""
    for _ in range(2):
        with closing(open_writer(store_path(stand.home))) as db:
            assert pragma(db, "journal_mode") == "wal"
            assert pragma(db, "synchronous") == 2
            assert pragma(db, "foreign_keys") == 1
            assert pragma(db, "wal_autocheckpoint") == 0
            assert pragma(db, "busy_timeout") == 30_000
            assert (pragma(db, "fullfsync"), pragma(db, "checkpoint_fullfsync")) == (1, 1)


def test_freed_pages_can_be_given_back_from_the_first_table_on(stand: Stand) -> None:
    with closing(open_writer(store_path(stand.home))) as db:
        assert pragma(db, "auto_vacuum") == 2


def test_a_pragma_that_does_not_take_is_an_error(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    """A3: each is read back."""
    monkeypatch.setattr("landing.connect.PRAGMAS", (("cache_size", "-100", -200),))
    with pytest.raises(StoreError, match="PRAGMA cache_size is -100"):
        open_writer(store_path(stand.home))


def test_foreign_keys_hold(stand: Stand) -> None:
    """A3."""
    with closing(open_writer(store_path(stand.home))) as db, pytest.raises(sqlite3.IntegrityError):
        db.execute("INSERT INTO laneway_results VALUES (999, '{}')")


@pytest.mark.parametrize("trick", ["SELECT 1", "PRAGMA query_only = OFF", "PRAGMA writable_schema = ON"])
def test_a_reader_cannot_write_whatever_it_is_told(stand: Stand, trick: str) -> None:
    """C97."""
    with closing(open_reader(store_path(stand.home))) as db:
        db.execute(trick)
        for write in ("DELETE FROM laneway_kinds", "CREATE TABLE x (y)", "PRAGMA user_version = 9"):
            with pytest.raises(sqlite3.OperationalError, match="readonly"):
                db.execute(write)


def test_a_reader_sees_what_a_dead_writer_committed_and_nobody_has_folded_back(home: Path) -> None:
    """K8: a crash leaves a WAL and no shared memory."""
    Stand(home)
    kept = {}
    with closing(open_writer(store_path(home))) as db:
        db.execute("INSERT INTO laneway_kinds VALUES ('last', 'app', '{}', 1, 0)")
        kept = {file: file.read_bytes() for file in home.glob("store.db*") if not file.name.endswith("-shm")}
    for file in home.glob("store.db*"):
        file.unlink()
    for file, content in kept.items():
        file.write_bytes(content)
    with closing(open_reader(store_path(home))) as db:
        assert db.execute("SELECT 1 FROM laneway_kinds WHERE kind = 'last'").fetchall() == [(1,)]


def test_there_is_no_reader_of_nothing(home: Path) -> None:
    with pytest.raises(NoStore):
        open_reader(store_path(home))


class Run:
    """An operation that runs one statement."""

    def __init__(self, sql: str, *args: object) -> None:
        self.sql, self.args = sql, args

    def apply(self, tx: Transaction) -> int:
        return tx.run(self.sql, self.args)


@pytest.mark.parametrize(
    "operation",
    [
        Run("nonsense"),
        Run("SELECT * FROM nowhere"),
        Run("INSERT INTO laneway_results VALUES (999, '{}')"),
        Run("INSERT INTO laneway_groups (id) VALUES (1)"),
        Run("SELECT ?", 2**64),
        Run("SELECT ?", "\ud800"),
        Run("SELECT ?", {}),
        Run("SELECT ?"),
    ],
    ids=lambda run: ascii((run.sql, run.args)),
)
def test_no_error_of_sqlite_leaves_the_store(stand: Stand, operation: Run) -> None:
    """A4, A5."""
    with pytest.raises(StoreError) as refused:
        stand.write(operation)
    assert refused.value.code == "database_error"
    assert refused.value.subject == str(store_path(stand.home))
    assert stand.enqueue() > 0


def test_an_error_at_commit_rolls_back_and_is_the_stores_own(stand: Stand) -> None:
    """A2, A4: a deferred constraint fails only there."""

    class Deferred:
        def apply(self, tx: Transaction) -> None:
            tx.run("PRAGMA defer_foreign_keys = ON")
            tx.run("INSERT INTO laneway_kinds VALUES ('ghost', 'app', '{}', 1, 0)")
            tx.run("INSERT INTO laneway_results VALUES (999, '{}')")

    with pytest.raises(StoreError, match="FOREIGN KEY"):
        stand.write(Deferred())
    assert stand.query("SELECT * FROM laneway_kinds WHERE kind = 'ghost'") == []
    assert stand.enqueue() > 0


def test_what_an_operation_raises_rolls_everything_back_and_lets_the_lock_go(stand: Stand) -> None:
    """A2."""

    class Failing:
        def apply(self, tx: Transaction) -> None:
            tx.run("INSERT INTO laneway_kinds VALUES ('ghost', 'app', '{}', 1, 0)")
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine") as kept:
        stand.write(Failing())
    assert kept.value.__traceback__ is not None  # which holds the frames, and so the cursors, alive
    assert stand.query("SELECT * FROM laneway_kinds WHERE kind = 'ghost'") == []
    assert stand.enqueue() > 0


def test_errors_while_reading_are_the_stores_own_and_the_callers_are_its_own(stand: Stand) -> None:
    """A4."""
    with pytest.raises(StoreError, match="no such table"), snapshot(stand.home) as db:
        db.execute("SELECT * FROM nowhere")
    with pytest.raises(BrokenPipeError), snapshot(stand.home):
        raise BrokenPipeError


def test_a_damaged_store_is_broken(stand: Stand) -> None:
    """A4."""
    path = store_path(stand.home)
    page = stand.query("SELECT rootpage FROM sqlite_master WHERE name = 'laneway_jobs'")[0][0]
    with path.open("r+b") as file:
        file.seek((page - 1) * 4096)
        file.write(b"\xff" * 4096)
    with pytest.raises(StoreBroken, match="malformed"):
        stand.enqueue()


def sqlite_error(code: int) -> sqlite3.Error:
    error = sqlite3.OperationalError("it went wrong")
    error.sqlite_errorcode = code
    return error


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (sqlite3.SQLITE_BUSY, StoreBusy),
        (sqlite3.SQLITE_BUSY_SNAPSHOT, StoreBusy),
        (sqlite3.SQLITE_FULL, StoreFull),
        (sqlite3.SQLITE_IOERR_FSYNC, StoreBroken),
        (sqlite3.SQLITE_IOERR_WRITE, StoreBroken),
        (sqlite3.SQLITE_CORRUPT_INDEX, StoreBroken),
        (sqlite3.SQLITE_NOTADB, StoreBroken),
        (sqlite3.SQLITE_ERROR, StoreError),
        (sqlite3.SQLITE_LOCKED, StoreError),
    ],
)
def test_errors_are_told_apart_by_their_code(code: int, kind: type[StoreError]) -> None:
    """A4, K1."""
    named = translate(sqlite_error(code), Path("p"))
    assert type(named) is kind
    assert named.code == "database_error"


def test_an_error_without_a_code_is_still_translated() -> None:
    """A4: sqlite3 raises some itself."""
    with pytest.raises(StoreError, match="p: closed"), translated(Path("p")):
        raise sqlite3.ProgrammingError("closed")


def test_an_unknown_job_is_also_a_key_error_with_a_plain_line() -> None:
    """C95."""
    assert issubclass(JobNotFound, KeyError)
    assert str(JobNotFound(7)) == "no job #7"


def test_a_store_whose_tables_are_not_made_yet_is_no_store(home: Path) -> None:
    """K7: the first writer may have come no further than the file."""
    home.mkdir()
    store_path(home).touch()
    with pytest.raises(NoStore):
        Store(home, lambda: START).write(Run("SELECT 1"))
    with pytest.raises(NoStore), snapshot(home):
        pass
