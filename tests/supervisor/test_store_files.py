"""The store's files under a run: application code opens none, and who takes them away ends it."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from supervisor.store_files import guard, refuse, release, torn
from tests.supervisor.serving import House, kill_session, wait_for

APP = str(Path(__file__).with_name("store_files_lanes.py"))
NAMES = ("store.db", "store.db-wal", "store.db-shm")


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path, workers=1, app=APP)


@pytest.fixture
def run(house: House) -> Iterator[subprocess.Popen[str]]:
    """A run of its own process that has done one job."""
    process = house.start()
    try:
        ends(house, house.enqueue("quick"), "done")
        yield process
    finally:
        kill_session(process)


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Path]:
    file = tmp_path / "store.db"
    file.write_bytes(b"kept")
    held = guard([file, tmp_path / "store.db-wal"])
    yield file
    release(held)


def ends(house: House, job: int, state: str) -> None:
    wait_for(lambda: house.job(job)["state"] == state)


@pytest.mark.parametrize(
    ("kind", "name"),
    [*(("opens", name) for name in NAMES), ("opens_in_its_thread", "store.db"), ("copies", "store.db")],
)
def test_who_opens_a_file_of_the_store_in_the_process_of_a_run_is_refused_and_the_run_goes_on(
    house: House, tmp_path: Path, run: subprocess.Popen[str], kind: str, name: str
) -> None:
    """K1, K11: the locks hold, so what other processes write meanwhile is seen and done."""
    file = house.home / name
    job = house.enqueue(kind, {"file": str(file), "to": str(tmp_path / "copy")})
    ends(house, job, "failed")
    (attempt,) = house.attempts(job)
    assert f"{file} must not be opened in the supervisor's process" in attempt["error"]["message"]
    if kind == "opens":
        assert house.query("SELECT * FROM items WHERE job = ?", job) == []
    for _ in range(10):
        ends(house, house.enqueue("quick"), "done")
        assert file.exists()
    assert house.query("PRAGMA integrity_check") == [("ok",)]
    assert house.query("SELECT count(*), count(DISTINCT job) FROM items WHERE job != ?", job) == [(55, 11)]
    run.terminate()
    _out, err = run.communicate(timeout=30)
    assert run.returncode == 0, err


def end_by(run: subprocess.Popen[str], file: Path) -> None:
    _out, err = run.communicate(timeout=30)
    assert run.returncode == 4, err
    [line] = [line for line in err.splitlines() if line.startswith("error: ")]
    assert line.startswith(f"error: {file} was removed or replaced while this run used it")
    assert "Traceback" not in err


@pytest.mark.parametrize("busy", [False, True])
@pytest.mark.parametrize("name", NAMES[1:])
def test_a_run_whose_wal_or_index_is_removed_ends_with_one_line_and_loses_nothing(
    house: House, run: subprocess.Popen[str], name: str, busy: bool
) -> None:
    """K1: noticed within a second, and before a commit; what was acknowledged is there at the next start."""
    jobs = [house.enqueue("quick") for _ in range(50 if busy else 1)]
    if not busy:
        ends(house, jobs[0], "done")
    (house.home / name).unlink()
    end_by(run, house.home / name)
    assert house.serve().ended == "idle"
    assert {house.job(job)["state"] for job in jobs} == {"done"}
    assert house.query("PRAGMA integrity_check") == [("ok",)]
    assert house.query("SELECT count(*) FROM items") == [(5 * (len(jobs) + 1),)]


@pytest.mark.parametrize("name", NAMES[1:])
def test_a_run_whose_wal_or_index_is_replaced_ends_with_one_line(
    house: House, run: subprocess.Popen[str], name: str
) -> None:
    """K1."""
    (house.home / name).unlink()
    (house.home / name).touch()
    end_by(run, house.home / name)


def test_a_guarded_file_is_refused_by_every_name_and_every_way_of_python(
    guarded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link, again = tmp_path / "link", tmp_path / "again"
    link.symlink_to(guarded)
    again.hardlink_to(guarded)
    monkeypatch.chdir(tmp_path)
    for name in (guarded, str(guarded), os.fsencode(guarded), "store.db", link, again):
        for way in (lambda name: open(name).close(), lambda name: os.close(os.open(name, os.O_RDONLY))):
            with pytest.raises(PermissionError, match=r"store\.db must not be opened .* use db\.query in a"):
                way(name)
    with pytest.raises(PermissionError):
        refuse(guarded)


def test_what_is_not_guarded_may_be_opened(guarded: Path, tmp_path: Path) -> None:
    """A file of the same name elsewhere, a descriptor, another process, or what was moved away."""
    (tmp_path / "other").mkdir()
    other = tmp_path / "other" / "store.db"
    other.write_bytes(b"free")
    assert other.read_bytes() == b"free"
    read, write = os.pipe()
    os.close(write)
    open(read, "rb").close()
    for bad in ("a\0b", tmp_path / "missing", object()):
        refuse(bad)
    reads = [sys.executable, "-c", f"print(open({str(guarded)!r}).read())"]
    assert subprocess.check_output(reads) == b"kept\n"
    guarded.rename(tmp_path / "moved")
    assert (tmp_path / "moved").read_bytes() == b"kept", "it is no store's any more"


def test_what_was_released_may_be_opened(tmp_path: Path) -> None:
    file = tmp_path / "store.db"
    file.touch()
    release(guard([file]))
    assert file.read_bytes() == b""


def test_a_copy_of_the_process_holds_no_locks_and_may_open_it(guarded: Path) -> None:
    if (pid := os.fork()) == 0:
        try:
            os._exit(0 if guarded.read_bytes() == b"kept" else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_a_file_is_torn_when_it_is_not_the_one_that_is_held_and_its_store_is_there(tmp_path: Path) -> None:
    store, wal = tmp_path / "store.db", tmp_path / "store.db-wal"
    store.touch()
    fd = os.open(wal, os.O_RDWR | os.O_CREAT)
    held = {fd: wal}
    try:
        assert torn(store, held) == ""
        wal.unlink()
        assert torn(store, held) == f"{wal} was removed or replaced while this run used it"
        wal.touch()
        assert torn(store, held)
        store.unlink()
        assert torn(store, held) == "", "that the store is gone is told first"
    finally:
        os.close(fd)
    store.touch()
    assert torn(store, held) == "", "that it was closed is told by others"
