"""The vault and the examples through the real commands: real supervisor, real children, real store."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import sysconfig
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.lanes.vault_store import VaultStore

PROJECT = Path(__file__).resolve().parents[2]
STDLIB = Path(sysconfig.get_path("stdlib"))


def start(home: Path, *words: str, **options: Any) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "supervisor", *words, "--home", str(home)]
    return subprocess.Popen(command, cwd=PROJECT, text=True, stdout=subprocess.PIPE, **options)


def ask(home: Path, *words: str) -> Any:
    with start(home, *words, "--json", stderr=subprocess.PIPE) as command:
        out, err = command.communicate(timeout=50)
    assert command.returncode == 0, err
    return json.loads(out)


def run(home: Path, *words: str) -> None:
    with start(home, "run", "--until-idle", *words, stderr=subprocess.PIPE) as command:
        out, err = command.communicate(timeout=50)
    assert command.returncode == 0, out + err


def query(home: Path, sql: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(f"file:{home}/store.db?mode=ro", uri=True, timeout=10)) as db:
        return db.execute(sql).fetchall()


def test_a_folder_is_indexed_found_and_then_known(tmp_path: Path) -> None:
    """C170, C175, K15."""
    home, notes = tmp_path / "home", tmp_path / "notes"
    notes.mkdir()
    (notes / "clock.md").write_text("# Clocks\n\nA monotonic clock never goes back.\n")
    (notes / "photo.png").write_bytes(b"\x89PNG")
    first = ask(home, "index", str(notes))
    assert (first["outcome"], first["landed"]["rows"]) == ("done", 4)
    assert (first["result"]["indexed"], first["result"]["skipped"]) == (1, {"binary": 1})
    [hit] = ask(home, "search", "monotonic", "clock")
    assert (hit["path"], hit["line"]) == (str((notes / "clock.md").resolve()), 3)
    assert hit["snippet"] == "A monotonic clock never goes back."
    again = ask(home, "index", str(notes))
    assert (again["result"]["indexed"], again["result"]["tombstoned"], again["landed"]["rows"]) == (0, 0, 0)


def test_a_folder_that_is_not_there_fails_the_job_in_one_line(tmp_path: Path) -> None:
    home = tmp_path / "home"
    job = ask(home, "enqueue", "vault_sync", json.dumps({"root": str(tmp_path / "missing")}))["id"]
    run(home, "--app", "supervisor.lanes")
    [attempt] = ask(home, "show", str(job))["attempts"]
    assert attempt["outcome"] == "failed"
    assert attempt["error"]["message"] == f"cannot index {tmp_path}/missing: No such file or directory"


def test_an_index_run_that_is_killed_half_way_ends_as_a_fresh_one(tmp_path: Path) -> None:
    """C124, K4."""
    home, root = tmp_path / "home", STDLIB / "asyncio"
    ask(home, "enqueue", "vault_sync", json.dumps({"root": str(root)}))
    with start(home, "run", "--app", "supervisor.lanes", stderr=subprocess.DEVNULL) as supervisor:
        wait_for_rows(home, supervisor)
        supervisor.send_signal(signal.SIGKILL)
    run(home, "--app", "supervisor.lanes")
    fresh = VaultStore()
    fresh.sync(root)
    chunks = query(home, "SELECT digest, n, first, last, text FROM vault_chunks")
    assert len(chunks) == len(fresh.chunks())
    assert set(chunks) == fresh.chunks()
    assert query(
        home, "SELECT count(*) FROM vault_documents WHERE digest IS NOT NULL AND incoming IS NULL"
    ) == [(len(fresh.documents()),)]


def wait_for_rows(home: Path, supervisor: "subprocess.Popen[str]") -> None:
    """Return as soon as a batch has landed."""
    until = time.monotonic() + 30
    while time.monotonic() < until and supervisor.poll() is None:
        try:
            if query(home, "SELECT 1 FROM vault_chunks LIMIT 1"):
                return
        except sqlite3.OperationalError:  # the tables are not made yet
            os.sched_yield()
    pytest.fail("nothing landed")


def test_the_notes_example_lands_every_line_once(tmp_path: Path) -> None:
    """C124, K4."""
    home, notes = tmp_path / "home", tmp_path / "notes"
    notes.mkdir()
    (notes / "a.md").write_text("one\ntwo\n")
    (notes / "b.md").write_text("three\n")
    app = str(PROJECT / "examples" / "notes.py")
    ask(home, "enqueue", "index", json.dumps({"root": str(notes)}), "--app", app)
    run(home, "--app", app)
    lines = query(home, "SELECT n, text FROM notes ORDER BY path, n")
    assert lines == [(1, "one"), (2, "two"), (1, "three")]


@pytest.mark.parametrize(("kind", "stack"), [("wedged", True), ("runaway", True), ("deaf", False)])
def test_each_hung_example_is_killed_on_time_with_its_row_landed(
    kind: str, stack: bool, tmp_path: Path
) -> None:
    """C126, K5."""
    app = PROJECT / "examples" / "hung.py"
    job = ask(tmp_path, "enqueue", kind, "--app", str(app))["id"]
    run(tmp_path, "--app", str(app))
    story = ask(tmp_path, "show", str(job))
    [attempt] = story["attempts"]
    assert (attempt["outcome"], attempt["kill"]["survivors"], story["landed"]["rows"]) == ("timed_out", [], 1)
    source = app.read_text().splitlines()
    marked = [n for n, line in enumerate(source, 1) if line.endswith("# hangs here")]
    named = [n for n in marked if f'hung.py", line {n} in {kind}' in attempt["kill"]["stack"]]
    assert len(named) == stack
