"""A store that an older version left: read as it is, upgraded by whoever may, then as a fresh one is."""

import fcntl
import os
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from landing.connect import make_home, open_writer, store_path
from landing.errors import JobNotFound, SchemaOlder
from landing.migrate import INIT_LOCK, create, migrate, run_script, scripts
from landing.snapshot import SCHEMA, snapshot, version
from landing.transaction import committing
from supervisor import sensors
from supervisor.client import Client, JobRef
from supervisor.lock import SupervisorLock
from supervisor.told.status import status
from tests.supervisor.serving import wait_for


def older_store(home: Path, number: int) -> None:
    """Make a store as the version that knew `number` scripts left it."""
    make_home(home)
    with closing(open_writer(store_path(home))) as db:
        db.execute("BEGIN IMMEDIATE")
        with committing(db, lambda: 1) as tx:
            for script in scripts()[:number]:
                run_script(tx, script)
            tx.run("INSERT INTO laneway_meta VALUES ('schema', ?)", (str(number),))
            tx.run(
                "INSERT INTO laneway_kinds (kind, app, options, registered_at) VALUES ('embed', 'a', '{}', 1)"
            )


def shape(home: Path) -> tuple[int, list[tuple[Any, ...]]]:
    """Return a store's version, and what is in it: tables with their columns, indexes, triggers."""
    with snapshot(home) as db:
        items = db.execute("SELECT type, name, sql FROM sqlite_master ORDER BY type, name").fetchall()
        columns = [
            db.execute(f"PRAGMA table_info ({name})").fetchall() for kind, name, _ in items if kind == "table"
        ]
        return version(db), [*((kind, name) for kind, name, _ in items), *columns]


CHANGES: dict[str, Callable[[Client], object]] = {
    "enqueue": lambda client: client.enqueue("embed"),
    "cancel": lambda client: client.cancel(1),
    "retry": lambda client: client.retry(1),
    "skip": lambda client: client.skip(1),
    "prune": lambda client: client.prune(0),
}


@pytest.mark.parametrize("number", range(1, SCHEMA))
@pytest.mark.parametrize("change", CHANGES)
def test_whatever_writes_first_upgrades_an_older_store_to_the_shape_of_a_fresh_one(
    change: str, number: int, tmp_path: Path
) -> None:
    """K7, FIELD E9: from every historical version."""
    old, fresh = tmp_path / "old", tmp_path / "fresh"
    older_store(old, number)
    create(fresh, 1)
    assert Client(old).kinds().keys() == {"embed"}
    assert shape(old)[0] == number, "looking upgrades nothing"
    try:
        CHANGES[change](Client(old))
    except JobNotFound:
        assert change in {"cancel", "retry", "skip"}, "the store was written, the job is not there"
    assert shape(old) == shape(fresh)
    assert shape(old)[0] == SCHEMA
    SupervisorLock(old, sensors.monotonic, threading.Event().wait).release()


def test_under_an_older_supervisor_nothing_is_upgraded_and_the_error_says_what_to_do(tmp_path: Path) -> None:
    """K7, E9: its tables stay as it knows them."""
    older_store(tmp_path, 1)
    lock = SupervisorLock(tmp_path, sensors.monotonic, threading.Event().wait)
    try:
        for change in CHANGES.values():
            with pytest.raises(SchemaOlder, match="the supervisor that runs here is older: restart it"):
                change(Client(tmp_path))
        assert shape(tmp_path)[0] == 1
    finally:
        lock.release()


def test_somebody_elses_upgrade_under_way_is_waited_for(tmp_path: Path) -> None:
    """K7: the one who holds the lock for it also holds init.lock."""
    older_store(tmp_path, 1)
    lock = SupervisorLock(tmp_path, sensors.monotonic, threading.Event().wait)
    init = os.open(tmp_path / INIT_LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(init, fcntl.LOCK_EX)
    answers: list[JobRef] = []
    writer = threading.Thread(target=lambda: answers.append(Client(tmp_path).enqueue("embed")))
    writer.start()
    wait_for(lambda: openings(tmp_path / INIT_LOCK) == 2)
    with closing(open_writer(store_path(tmp_path))) as db:
        migrate(db, store_path(tmp_path), 1)
    os.close(init)
    writer.join(20)
    lock.release()
    assert [answer.id for answer in answers] == [1]


def openings(path: Path) -> int:
    """Count the descriptors of this process that are this file."""
    return sum(os.path.realpath(f"/proc/self/fd/{fd}") == str(path) for fd in os.listdir("/proc/self/fd"))


def test_status_works_on_a_store_of_the_first_schema(tmp_path: Path) -> None:
    """C97: reading asks for no column that came later."""
    older_store(tmp_path, 1)
    with closing(open_writer(store_path(tmp_path))) as db:
        db.execute(
            "INSERT INTO laneway_runs (pid, boot, version, marker, started_at, clean)"
            " VALUES (1, '', '', '', 1, 1)"
        )
    facts = status(tmp_path)
    assert (facts["supervisor"]["run"], facts["supervisor"]["stale"]) == (1, 0)
    assert Client(tmp_path).jobs(kind="embed", tag="a", state="queued") == []
    assert Client(tmp_path).prunable(0) == 0
