"""Each invariant sees what it is for: a store that is right passes, with one thing wrong it does not."""

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from supervisor.client import Client
from tests.chaos.invariants import RULES, last_settled, open_store, violations, wrongs
from tests.chaos.lanes import app
from tests.chaos.processes import APP, alive, seconds_until_gone
from tests.supervisor.serving import House


@pytest.fixture(scope="module")
def right(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The home of a store in which one job of each lane is done and one is queued."""
    house = House(tmp_path_factory.mktemp("right"), app=str(APP))
    for kind in app.lanes:
        house.enqueue(kind, {"rows": 40, "unit": 7})
    assert house.serve().ended == "idle"
    Client(house.home).enqueue("replay", {"rows": 5, "unit": 0})
    return house.home


@pytest.fixture
def home(right: Path, tmp_path: Path) -> Path:
    copy = tmp_path / "home"
    copy.mkdir()
    shutil.copy(right / "store.db", copy)
    return copy


@pytest.fixture
def db(home: Path) -> Iterator[sqlite3.Connection]:
    """A connection that may break anything."""
    with closing(sqlite3.connect(home / "store.db", isolation_level=None)) as db:
        db.execute("PRAGMA ignore_check_constraints = ON")
        for (trigger,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            db.execute(f"DROP TRIGGER {trigger}")
        yield db


def test_a_store_that_is_right_has_no_violation(home: Path) -> None:
    with closing(open_store(home)) as db:
        assert list(wrongs(db, 0, whole=True)) == list(wrongs(db, 0, whole=False)) == []
        assert last_settled(db, 0) == 3
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            db.execute("DELETE FROM chaos_rows")


WRONGS = {
    "repeated or out of order": [
        "INSERT INTO chaos_rows SELECT * FROM chaos_rows WHERE job = 1 AND n = 39",
        "DELETE FROM chaos_rows WHERE job = 2 AND n = 3",
        "UPDATE chaos_rows SET n = CASE n WHEN 1 THEN 2 ELSE 1 END WHERE job = 3 AND n IN (1, 2)",
    ],
    "rows of a job that is not there": ["INSERT INTO chaos_rows VALUES (99, 0, '')"],
    "landed_rows is not": ["UPDATE laneway_jobs SET landed_rows = 39 WHERE id = 1"],
    "done without all": ["DELETE FROM chaos_rows WHERE job = 3 AND n > 30"],
    "a job has failed": ["UPDATE laneway_jobs SET state = 'failed' WHERE id = 1"],
    "in flight has no fence": ["UPDATE laneway_jobs SET state = 'running' WHERE id = 4"],
    "not in flight has a fence": [
        "UPDATE laneway_jobs SET fence = 'f' WHERE id = 4",
        "UPDATE laneway_jobs SET lease_expires_at = 1 WHERE id = 1",
    ],
    "attempt has no receipt": ["DELETE FROM laneway_receipts WHERE job_id = 2"],
    "in flight has a receipt": [
        "UPDATE laneway_jobs SET state = 'leased', fence = 'f', lease_expires_at = 1 WHERE id = 2"
    ],
    "a receipt has no attempt": ["DELETE FROM laneway_attempts WHERE job_id = 2"],
    "a claim has no attempt": [
        "UPDATE laneway_jobs SET claims = 2 WHERE id = 3",
        "DELETE FROM laneway_attempts WHERE job_id = 2",
    ],
    "more than one run": [
        "INSERT INTO laneway_runs (pid, boot, version, marker, started_at) VALUES (1, '', '', '', 1), "
        "(1, '', '', '', 1)"
    ],
    "counts of states": ["UPDATE laneway_counts SET jobs = jobs + 1 WHERE state = 'done'"],
}


@pytest.mark.parametrize(("wrong", "statement"), [(w, one) for w, some in WRONGS.items() for one in some])
def test_what_is_wrong_is_seen(home: Path, db: sqlite3.Connection, wrong: str, statement: str) -> None:
    """B25, U10, A20: each by a rule of its own."""
    assert db.execute(statement).rowcount > 0
    with closing(open_store(home)) as looking:
        assert [said for said in violations(looking, 0) if wrong in said]


def test_every_rule_has_its_wrong() -> None:
    assert {rule for rule in RULES if not any(wrong in rule for wrong in WRONGS)} == set()
    assert len(RULES) == len(WRONGS)


def test_a_damaged_file_is_seen(home: Path, db: sqlite3.Connection) -> None:
    (page,) = db.execute("SELECT rootpage FROM sqlite_master WHERE name = 'chaos_rows_job'").fetchone()
    db.close()
    with (home / "store.db").open("r+b") as file:
        file.seek((page - 1) * 4096 + 100)
        file.write(b"\xff" * 2000)
    with closing(open_store(home)) as looking:
        (said,) = wrongs(looking, 0, whole=True)
    assert said == "the store cannot be read: database disk image is malformed"


def test_an_index_that_lacks_a_row_is_seen_by_the_whole_check_alone(
    home: Path, db: sqlite3.Connection
) -> None:
    """The index is made partial behind SQLite's back while a row is added."""
    (index,) = db.execute("SELECT sql FROM sqlite_master WHERE name = 'chaos_rows_job'").fetchone()
    redefine(db, f"{index} WHERE job > 100")
    with closing(sqlite3.connect(home / "store.db", isolation_level=None)) as later:
        later.execute("INSERT INTO chaos_rows VALUES (1, 40, '')")
        redefine(later, index)
    with closing(open_store(home)) as looking:
        assert list(wrongs(looking, 3, whole=False)) == []
        (said,) = wrongs(looking, 3, whole=True)
    assert "missing from index chaos_rows_job" in said


def redefine(db: sqlite3.Connection, index: str) -> None:
    db.execute("PRAGMA writable_schema = ON")
    db.execute("UPDATE sqlite_master SET sql = ? WHERE name = 'chaos_rows_job'", (index,))


def test_rows_of_settled_jobs_are_not_read_again(home: Path, db: sqlite3.Connection) -> None:
    db.execute("DELETE FROM chaos_rows WHERE job = 1 AND n = 3")
    with closing(open_store(home)) as looking:
        assert list(violations(looking, 3)) == []
        assert list(violations(looking, 0))


def test_a_process_with_a_marker_is_seen_until_it_is_gone() -> None:
    """K9: by its environment, whoever its parent is."""
    environ = {**os.environ, "LANEWAY_MARKER": "chaos-test"}
    command = [sys.executable, "-c", "print(flush=True); input()"]
    with subprocess.Popen(
        command, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert alive(["another", "chaos-test"]) == [process.pid]
        assert seconds_until_gone(["chaos-test"], 0.05)[1] == [process.pid]
        process.kill()
        process.wait()
    assert seconds_until_gone(["chaos-test"], 5.0)[1] == []
