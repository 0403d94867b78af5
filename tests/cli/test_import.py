"""`supervisor import`: the jobs of a queue file of an earlier version."""

import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

from tests.cli.shell import SQUARES, Shell
from tests.landing.stand import wait_for

ROWS: Final = [
    ("square", "queued", '{"count": 1}'),
    ("square", "running", '{"count": 2}'),
    ("stranger", "running", "{}"),
    ("square", "done", "{}"),
    ("square", "queued", "{"),
]
MORE: Final = """

@app.lane("stranger")
def stranger(job, ctx):
    for n in range(job.payload["count"]):
        yield n, n * n


stranger.lander(land_squares)
"""


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


def test_rows_of_a_kind_that_nobody_has_declared_fail_and_can_be_retried_when_somebody_has(
    project: Shell, old: Path
) -> None:
    """U23, A65, C96, C123, K14: handler_missing; said by import, status, show and run."""
    with closing(sqlite3.connect(old)) as db, db:
        rows = [("stranger", "queued", '{"count": 3}'), ("stranger", "deferred", '{"count": 4}')]
        db.executemany("INSERT INTO jobs (kind, state, payload) VALUES (?, ?, ?)", rows)
    assert project("import", "old.db").lines[-1] == (
        "hint: no application has declared stranger here; a run without it fails them (handler_missing)"
    )
    text = "no application has declared this kind here"
    missing = {"reason": "handler_missing", "text": text, "until": "one that has it runs"}
    groups = [one for one in project("status", "--json").json["waiting"] if one["kind"] == "stranger"]
    for group in groups:
        assert missing in group["reasons"]
        assert "no_supervisor" in [one["reason"] for one in group["reasons"]]
    assert project("show", "6", "--json").json["waits"][0] == missing
    assert f"waits    {text} until one that has it runs" in project("show", "6").out.splitlines()
    done = project("run", "--until-idle")
    assert done.out.endswith("idle: 2 done, 2 failed\n")
    for job in (6, 7):
        assert f"#{job} stranger failed: handler_missing: {text}" in done.out
        [attempt] = project("show", str(job), "--json").json["attempts"]
        assert (attempt["outcome"], attempt["spent"]) == ("failed", 0)
    assert [project("retry", str(job)).code for job in (6, 7)] == [0, 0]
    project.write("squares.py", SQUARES + MORE)
    assert project("run", "--until-idle").code == 0
    assert [project("show", str(job), "--json").json["state"] for job in (6, 7)] == ["done", "done"]


def test_a_kind_that_the_application_has_lost_waits_for_one_that_has_it(project: Shell) -> None:
    """K14: kind_not_loaded, with what ends it."""
    project.write("more.py", SQUARES + MORE)
    project("enqueue", "stranger", '{"count": 3}', "--app", "more.py")
    with project.start("run", stdin=subprocess.DEVNULL) as supervisor:
        wait_for(lambda: project("status", "--json").json["supervisor"]["state"] == "up")
        [wait] = project("show", "1", "--json").json["waits"]
        supervisor.terminate()
        supervisor.communicate(timeout=30)
    assert (wait["reason"], wait["until"]) == ("kind_not_loaded", "an application that has it runs")
    assert project("run", "--until-idle", "--app", "more.py").code == 0
    assert project("show", "1", "--json").json["state"] == "done"


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


def test_what_is_no_time_is_told_with_how_to_write_one(project: Shell, old: Path) -> None:
    """C96, U11: once, however many there are."""
    with closing(sqlite3.connect(old)) as db, db:
        db.execute("ALTER TABLE jobs ADD COLUMN created_at")
        db.executemany(
            "INSERT INTO jobs (kind, state, payload, created_at) VALUES ('square', 'done', '{}', ?)",
            [("yesterday",), ("today",)],
        )
    wanted = 'hint: a time is text as "2026-01-31 23:59:59" (UTC), or seconds since 1970'
    assert project("import", "old.db").lines.count(wanted) == 1


def test_what_is_no_old_queue_is_refused_and_makes_no_store(project: Shell) -> None:
    """C96, K15."""
    with closing(sqlite3.connect(project.folder / "other.db")) as db, db:
        db.execute("CREATE TABLE notes (text TEXT)")
    line = project.refused("import", "other.db", code=2)
    assert line.startswith("other.db is no queue of an earlier version")
    assert project.refused("import", "gone.db", code=2) == "gone.db is not there; name a queue file to import"
    assert project.refused("import", ".", code=2) == ". is no file; name a queue file to import"
    assert line.endswith("it has no table jobs")
    with closing(sqlite3.connect(project.folder / "short.db")) as db, db:
        db.execute("CREATE TABLE jobs (kind TEXT, status TEXT)")
    assert project.refused("import", "short.db", code=2) == (
        "short.db is no queue of an earlier version: its table jobs has no columns payload, state"
    )
    project.write("text.db", "no database")
    assert project.refused("import", "text.db", code=2) == (
        "text.db is no SQLite database; name a queue file to import"
    )
    assert not project.home.exists()
