"""A store that an older version made: read by everybody, upgraded at once or not at all, no cell changed."""

import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from landing import views
from landing.connect import open_reader, open_writer, store_path
from landing.errors import SchemaNewer, SchemaOlder
from landing.migrate import create, upgrade
from landing.runs import CloseRun
from landing.snapshot import SCHEMA, check_writable, snapshot, version
from landing.store import Store
from policies.job import IN_FLIGHT, State
from tests.landing.stand import KINDS, START, Stand

ROOT = Path(__file__).resolve().parent.parent.parent
LATER = START + 1
ADD_RUN = """
INSERT INTO laneway_runs (pid, boot, version, marker, started_at, clean) VALUES (7, 'b', '0', 'm', ?, ?)"""
ADD_KIND = """
INSERT INTO laneway_kinds (kind, app, options, registered_at) VALUES ('embed', 'app', '{}', ?)"""
ADD_JOB = """
INSERT INTO laneway_jobs (key, kind, tag, state, group_id, priority, payload, created_at, waiting_since,
                          fence, run_id, lease_expires_at, claims, landed_seq, mark, digest,
                          finished_at, spent, wake_at)
VALUES (?, 'embed', 't', ?, 1, 50, '{{}}', ?, ?, ?, ?, ?, 1, 3, 'm', x'01',
        {odd}, COALESCE({odd}, 0), {odd})"""
ADD_ATTEMPT = """
INSERT INTO laneway_attempts (job_id, number, run_id, pid, fence, claimed_at, landed_seq)
VALUES (?, 1, 3, 7, 'f', ?, 0)"""
ADD_RECEIPT = """
INSERT INTO laneway_receipts (attempt_id, job_id, outcome, finished_at, log)
VALUES (?, ?, 'failed', ?, x'80')"""
ODD_CELLS = ("x'00ff'", "'no number'", "NULL", "-1", "1e300")


@contextmanager
def version_of(schema: int) -> Iterator[None]:
    """Be the version that wrote this schema."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("landing.migrate.SCHEMA", schema)
        patch.setattr("landing.snapshot.SCHEMA", schema)
        yield


@pytest.fixture(params=range(1, SCHEMA), ids="schema {}".format)
def schema(request: pytest.FixtureRequest) -> int:
    """Every schema before this version's."""
    number: int = request.param
    return number


@pytest.fixture
def old(home: Path, schema: int) -> Path:
    """An older store with something in every table: jobs in every state, and garbage in cells."""
    with version_of(schema):
        create(home, START)
    with closing(open_writer(store_path(home))) as db:
        db.execute("BEGIN")
        db.executemany(ADD_RUN, [(START, clean) for clean in (1, 2, 0)])
        db.execute(ADD_KIND, (START,))
        db.execute("INSERT INTO laneway_groups VALUES (1, 'embed', 50, '', 0)")
        for n, state in enumerate(State, 1):
            lease = ("f", 3, START) if state in IN_FLIGHT else (None, None, None)
            odd = ODD_CELLS[n % len(ODD_CELLS)]
            db.execute(ADD_JOB.format(odd=odd), (f"k{n}", state, START, START + n, *lease))
            db.execute(ADD_ATTEMPT, (n, START))
            if state not in IN_FLIGHT:
                db.execute(ADD_RECEIPT, (n, n, START))
            db.execute("INSERT INTO laneway_events (at, job_id, name) VALUES (?, ?, 'e')", (START, n))
        db.execute("INSERT INTO laneway_dependencies VALUES (2, 1, 1)")
        db.execute("INSERT INTO laneway_results VALUES (6, '1')")
        db.execute("INSERT INTO laneway_app_migrations VALUES ('app', 1, 'd', ?)", (START,))
        db.execute("COMMIT")
    return home


def shape(home: Path) -> list[tuple[object, ...]]:
    with closing(open_reader(store_path(home))) as db:
        return db.execute(
            "SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY type, name"
        ).fetchall()


def cells(home: Path) -> dict[str, list[tuple[object, ...]]]:
    """Return every cell of every control table, named by column."""
    with closing(open_reader(store_path(home))) as db:
        db.text_factory = bytes
        names = db.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'laneway_%'")
        found = {}
        for name in sorted(bytes(name).decode() for (name,) in names):
            columns = [row[1].decode() for row in db.execute(f"PRAGMA table_info ({name})")]
            rows = db.execute(f"SELECT * FROM {name} ORDER BY {', '.join('12'[: len(columns)])}").fetchall()
            found[name] = [tuple(zip(columns, row, strict=True)) for row in rows]
    return found


def test_the_store_of_the_tests_has_something_in_every_table_and_state(old: Path, schema: int) -> None:
    with snapshot(old) as db:
        assert version(db) == schema
        assert set(views.counts(db)) == set(State)
    assert all(cells(old).values())


def test_an_upgraded_store_has_exactly_the_shape_of_a_fresh_one(old: Path, tmp_path: Path) -> None:
    """C96, U32, FIELD E9."""
    create(tmp_path / "fresh", START)
    upgrade(old, LATER)
    assert shape(old) == shape(tmp_path / "fresh")
    for pragma in ("auto_vacuum", "journal_mode", "user_version", "application_id"):
        with (
            closing(open_reader(store_path(old))) as ours,
            closing(open_reader(store_path(tmp_path / "fresh"))) as fresh,
        ):
            asked = f"PRAGMA {pragma}"
            assert ours.execute(asked).fetchall() == fresh.execute(asked).fetchall()


def test_an_upgrade_changes_no_cell_but_the_schemas_number(old: Path) -> None:
    """C96, U32: also those that hold garbage; new columns come with their default."""
    before = cells(old)
    upgrade(old, LATER)
    after = cells(old)
    assert before.keys() <= after.keys()
    assert after["laneway_meta"] == [(("name", b"schema"), ("value", str(SCHEMA).encode()))]
    assert dict(after["laneway_events"].pop())["name"] == b"migrated"
    for name in before.keys() - {"laneway_meta"}:
        for old_row, new_row in zip(before[name], after[name], strict=True):
            assert new_row[: len(old_row)] == old_row
            assert {cell for _, cell in new_row[len(old_row) :]} <= {0, None}


def test_an_attempt_of_before_has_no_world(old: Path) -> None:
    """C96, C97: neither while the store is old, nor after its upgrade."""
    for _ in range(2):
        with snapshot(old) as db:
            found = [attempt for job in views.jobs(db) for attempt in views.attempts(db, job["id"])]
        assert [attempt["world"] for attempt in found] == [None] * len(State)
        upgrade(old, LATER)


def test_opening_again_changes_nothing(old: Path) -> None:
    """C96, U32."""
    upgrade(old, LATER)
    with closing(open_reader(store_path(old))) as db:
        seen = views.data_version(db)
        upgrade(old, LATER + 1)
        create(old, LATER + 1)
        assert views.data_version(db) == seen


def test_an_upgraded_store_recovers_and_works(old: Path) -> None:
    """C96: a row without a lease or of a dead run is not lost, and nothing is declared dead by it."""
    upgrade(old, LATER)
    stand = Stand(old)
    stand.now = LATER
    opened = stand.open_run()
    assert (opened.run, opened.dead) == (4, (3,))
    assert len(opened.settled) == len(IN_FLIGHT)
    assert stand.look(loaded=KINDS, run=opened.run).claimed is not None


DIES = """
import os, signal, sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from landing import migrate
migrate.add_event = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
migrate.upgrade(Path(sys.argv[2]), 1)
"""


def test_an_upgrade_that_is_killed_in_the_middle_leaves_the_old_version(old: Path) -> None:
    """C96, K1: one transaction."""
    before = shape(old), cells(old)
    died = subprocess.run([sys.executable, "-c", DIES, str(ROOT), str(old)], timeout=30, check=False)
    assert died.returncode == -signal.SIGKILL
    assert (shape(old), cells(old)) == before
    upgrade(old, LATER)
    with snapshot(old) as db:
        assert version(db) == SCHEMA


def test_a_script_that_fails_half_way_leaves_the_old_version(old: Path) -> None:
    """K1."""
    before = shape(old), cells(old)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "landing.migrate.scripts",
            lambda: [
                "",
                *["CREATE TABLE IF NOT EXISTS x (y)"] * (SCHEMA - 2),
                "INSERT INTO nowhere VALUES (1)",
            ],
        )
        with pytest.raises(Exception, match="nowhere"):
            upgrade(old, LATER)
    assert (shape(old), cells(old)) == before


def test_an_old_store_is_read_and_not_written_before_it_is_upgraded(old: Path, schema: int) -> None:
    """C97, K7: whoever holds the supervisor's lock upgrades it, nobody else."""
    store = Store(old, lambda: LATER, create_missing=True)
    with snapshot(old) as db:
        assert len(views.jobs(db)) == len(State)
        with pytest.raises(
            SchemaOlder, match=f"has schema {schema}, this version writes {SCHEMA}"
        ) as refused:
            check_writable(db, old)
    assert (refused.value.code, "\n" in str(refused.value)) == ("schema_older", False)
    with pytest.raises(SchemaOlder):
        store.write(CloseRun(1))
    upgrade(old, LATER)
    store.write(CloseRun(1))


def test_the_older_version_does_not_touch_an_upgraded_store(old: Path, schema: int) -> None:
    """A15, U32."""
    upgrade(old, LATER)
    with version_of(schema), pytest.raises(SchemaNewer, match=f"this version knows {schema}"):
        Store(old, lambda: LATER).write(CloseRun(1))


def test_run_ids_only_grow_whatever_is_deleted(stand: Stand, tmp_path: Path) -> None:
    """C98: greater than any stamp on disk, also in a copy, also when the newest rows are gone."""
    newest = [stand.open_run().run for _ in range(3)][-1]
    with closing(open_writer(store_path(stand.home))) as db:
        db.execute("DELETE FROM laneway_runs")
    shutil.copytree(stand.home, tmp_path / "copy")
    for home in (stand.home, tmp_path / "copy"):
        assert Stand(home).open_run().run == newest + 1
