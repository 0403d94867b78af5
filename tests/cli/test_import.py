"""`supervisor import`: the jobs of a queue file of an earlier version."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

from tests.cli.shell import Shell

ROWS: Final = [
    ("square", "queued", '{"count": 1}'),
    ("square", "running", '{"count": 2}'),
    ("stranger", "running", "{}"),
    ("square", "done", "{}"),
    ("square", "queued", "{"),
]


@pytest.fixture
def old(project: Shell) -> Path:
    path = project.folder / "old.db"
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("CREATE TABLE jobs (id INTEGER PRIMARY KEY, kind TEXT, state TEXT, payload TEXT)")
        db.executemany("INSERT INTO jobs (kind, state, payload) VALUES (?, ?, ?)", ROWS)
    return path


def test_an_old_queue_is_copied_and_what_became_of_each_row_is_told(project: Shell, old: Path) -> None:
    """C96, U3, U6: the application that the settings name says what may run twice."""
    before = old.read_bytes()
    done = project("import", "old.db")
    assert (done.code, done.out.splitlines()[0]) == (0, "5 rows of old.db")
    assert sorted(done.out.splitlines()[1:]) == [
        "  1 done",
        "  1 failed because a cell of theirs cannot be read",
        "  1 failed that were running and may not run twice",
        "  1 queued",
        "  1 queued again that were running",
    ]
    assert done.lines == [
        "hint: row 5: its payload cannot be read, so that it failed as #5 (supervisor show 5)"
    ]
    states = [job["state"] for job in reversed(project("jobs", "--json").json)]
    assert states == ["queued", "queued", "failed", "done", "failed"]
    assert old.read_bytes() == before
    project("run", "--until-idle")
    assert project("show", "2", "--json").json["landed"]["rows"] == 2


def test_what_was_imported_once_is_not_imported_again(project: Shell, old: Path) -> None:
    """C96, K15: --json has the counts and each row that could not be read."""
    first = project("import", "old.db", "--json").json
    assert first == {
        "counts": {"queued": 1, "requeued": 1, "orphaned": 1, "done": 1, "unreadable": 1},
        "degraded": [{"row": 5, "job": 5, "column": "payload"}],
    }
    assert project("import", "old.db").out == "nothing new in old.db\n"
    assert project("import", "old.db", "--json").json == {"counts": {}, "degraded": []}
    assert len(project("jobs", "--json").json) == len(ROWS)


def test_many_rows_that_cannot_be_read_are_counted_and_not_all_named(project: Shell, old: Path) -> None:
    """C96."""
    with closing(sqlite3.connect(old)) as db, db:
        db.executemany("INSERT INTO jobs (kind, state, payload) VALUES ('square', ?, '{}')", [("?",)] * 11)
    done = project("import", "old.db")
    assert len(done.lines) == 11
    assert done.lines[-1] == "hint: and 2 rows more like that: supervisor jobs --state failed"


def test_what_is_no_old_queue_is_refused_and_makes_no_store(project: Shell) -> None:
    """C96, K15."""
    with closing(sqlite3.connect(project.folder / "other.db")) as db, db:
        db.execute("CREATE TABLE notes (text TEXT)")
    line = project.refused("import", "other.db", code=2)
    assert line.startswith("other.db is no queue of an earlier version")
    assert project.refused("import", "gone.db", code=2) == "gone.db is not there; name a queue file to import"
    assert project.refused("import", ".", code=2) == ". is no file; name a queue file to import"
    project.write("text.db", "no database")
    assert project.refused("import", "text.db", code=4) == "text.db: file is not a database"
    assert not project.home.exists()
