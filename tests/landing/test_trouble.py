"""A locked, full or broken store: the lander waits with one notice, or ends with one."""

import os
import queue
import resource
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from landing.batches import Landed
from landing.connect import open_writer, store_path
from landing.enqueue import Enqueue
from landing.errors import StoreBroken, StoreBusy
from landing.faults import COMMIT, trouble
from landing.lander import Lander, Raised
from landing.snapshot import wal_size
from landing.transaction import Transaction
from tests.landing.stand import PATIENCE, Gate, Stand, Thread, keep_notes, land, lander_thread

ROOT = Path(__file__).resolve().parent.parent.parent
ENQUEUE = Enqueue(kind="embed", payload="{}")


class Tries:
    """Counts how often the lander begins a transaction."""

    def __init__(self, lander: Lander) -> None:
        self.seen: queue.SimpleQueue[str] = queue.SimpleQueue()
        lander._db.set_trace_callback(lambda sql: self.seen.put(sql) if sql.startswith("BEGIN") else None)

    def wait_for(self, number: int) -> None:
        for _ in range(number):
            self.seen.get(timeout=PATIENCE)


@pytest.fixture
def locked(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Thread, Any]]:
    """A lander whose store somebody else keeps locked."""
    monkeypatch.setattr("landing.lander.BUSY_MILLISECONDS", 20)
    with closing(open_writer(store_path(stand.home))) as other, lander_thread(stand.home) as thread:
        other.execute("BEGIN IMMEDIATE")
        yield thread, other


def test_a_locked_store_is_waited_for_with_one_notice(stand: Stand, locked: tuple[Thread, Any]) -> None:
    """K1, K7."""
    thread, other = locked
    tries = Tries(thread.lander)
    replies = [thread.post(ENQUEUE) for _ in range(3)]
    notice = thread.notices.get(timeout=PATIENCE)
    assert (notice.code, notice.fatal) == ("store_busy", False)
    assert "kept the store locked" in notice.text
    assert "going on by itself when it can" in notice.text
    tries.wait_for(6)
    assert thread.notices.empty()
    other.execute("ROLLBACK")
    assert [reply.get(timeout=PATIENCE).outcome for reply in replies] == ["created"] * 3
    assert thread.notices.empty()
    assert len(stand.query("SELECT id FROM laneway_jobs")) == 3


def test_each_trouble_has_its_own_notice(locked: tuple[Thread, Any]) -> None:
    """K1."""
    thread, other = locked
    for _ in range(2):
        reply = thread.post(ENQUEUE)
        thread.notices.get(timeout=PATIENCE)
        other.execute("ROLLBACK")
        reply.get(timeout=PATIENCE)
        assert thread.notices.empty()
        other.execute("BEGIN IMMEDIATE")
    other.execute("ROLLBACK")


def test_when_closing_has_run_out_of_patience_the_waiting_ends(locked: tuple[Thread, Any]) -> None:
    """K11."""
    thread, _ = locked
    reply = thread.post(ENQUEUE)
    thread.notices.get(timeout=PATIENCE)
    assert not thread.lander.close(0.01)
    answer = reply.get(timeout=PATIENCE)
    assert isinstance(answer, Raised)
    assert isinstance(answer.error, StoreBusy)


def test_a_store_made_read_only_is_waited_for_with_one_notice(
    stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K1: no attempt fails of it."""
    monkeypatch.setattr("landing.lander.WAITS", (0.01,))
    claimed = stand.running()
    with lander_thread(stand.home) as thread:
        thread.ask(ENQUEUE)
        thread.lander._db.execute("PRAGMA query_only = ON")
        tries = Tries(thread.lander)
        replies = [thread.post(land(claimed, 1, [(claimed.job, 1, "a")])), thread.post(ENQUEUE)]
        notice = thread.notices.get(timeout=PATIENCE)
        assert (notice.code, notice.fatal) == ("store_readonly", False)
        assert "read-only" in notice.text
        tries.wait_for(5)
        assert thread.notices.empty()
        thread.lander._db.execute("PRAGMA query_only = OFF")
        assert replies[0].get(timeout=PATIENCE) is Landed.LANDED
        assert replies[1].get(timeout=PATIENCE).outcome == "created"
        assert thread.notices.empty()
    assert stand.notes() == [(claimed.job, 1, "a")]


def test_a_lander_that_swallows_it_lands_nothing_while_the_store_is_read_only(
    stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K1: the store's own trouble is never the lander's fault."""
    monkeypatch.setattr("landing.lander.WAITS", (0.01,))
    claimed = stand.running()

    def careless(db: Any, view: Any, rows: Any) -> None:
        db._tx.db.execute(f"PRAGMA query_only = {'OFF' if mended.is_set() else 'ON'}")
        with suppress(Exception):
            keep_notes(db, view, rows)

    mended = threading.Event()
    monkeypatch.setattr("landing.guard.refusal", lambda *_: None)
    with lander_thread(stand.home) as thread:
        reply = thread.post(land(claimed, 1, [(claimed.job, 1, "a")], careless))
        assert thread.notices.get(timeout=PATIENCE).code == "store_readonly"
        mended.set()
        thread.lander._db.execute("PRAGMA query_only = OFF")
        assert reply.get(timeout=PATIENCE) is Landed.LANDED
    assert stand.notes() == [(claimed.job, 1, "a")]


def test_a_second_kind_of_trouble_is_named_too(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    """K1: one warning each, until something lands again."""
    monkeypatch.setattr("landing.lander.WAITS", (0.01,))
    kinds = iter(["full", "full", "readonly", "full", "readonly"])

    def reach(point: str) -> None:
        if point == COMMIT and (kind := next(kinds, None)) is not None:
            raise trouble(kind)

    with lander_thread(stand.home, reach=reach) as thread:
        assert thread.ask(ENQUEUE).outcome == "created"
        codes = [thread.notices.get(timeout=PATIENCE).code for _ in range(2)]
        assert thread.notices.empty()
    assert codes == ["store_full", "store_readonly"]
    assert len(stand.query("SELECT id FROM laneway_jobs")) == 1


class Counting:
    """An operation that writes `size` bytes and counts how often it is applied."""

    def __init__(self, size: int = 1) -> None:
        self.size, self.times = size, 0

    def apply(self, tx: Transaction) -> None:
        self.times += 1
        tx.run("INSERT INTO notes VALUES (1, 1, zeroblob(?))", (self.size,))


class Unwritable:
    """Put a read-only descriptor under every one that this process holds on a file."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.fds = [int(link.name) for link in Path("/proc/self/fd").iterdir() if points_to(link, file)]

    def __enter__(self) -> None:
        assert self.fds
        self.kept = [os.dup(fd) for fd in self.fds]
        readable = os.open(self.file, os.O_RDONLY)
        for fd in self.fds:
            os.dup2(readable, fd)
        os.close(readable)

    def __exit__(self, *_: object) -> None:
        for fd in self.kept:
            os.close(fd)


def points_to(link: Path, file: Path) -> bool:
    try:
        return link.readlink() == file
    except FileNotFoundError:  # the descriptor of this very listing
        return False


needs_proc = pytest.mark.skipif(
    not Path("/proc/self/fd").is_dir(), reason="needs a list of this process's descriptors"
)


@needs_proc
def test_an_input_output_error_at_commit_ends_the_lander_and_nothing_is_redone(stand: Stand) -> None:
    """K1: whether the COMMIT held is unknown."""
    counting = Counting()
    with lander_thread(stand.home) as thread:
        thread.ask(ENQUEUE)
        with Unwritable(stand.home / "store.db-wal"):
            reply = thread.post(counting)
            notice = thread.notices.get(timeout=PATIENCE)
            thread.lander._thread.join(PATIENCE)
    assert (notice.code, notice.fatal) == ("store_broken", True)
    assert "disk I/O error" in notice.text
    assert counting.times == 1
    assert reply.empty()
    assert stand.notes() == []


@needs_proc
def test_an_input_output_error_while_the_wal_is_folded_back_ends_the_lander_too(
    stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K1, K8."""
    monkeypatch.setattr("landing.wal.FOLD_BYTES", 0)
    gate = Gate()
    with lander_thread(stand.home) as thread:
        thread.ask(ENQUEUE)
        thread.post(gate)
        assert gate.entered.wait(PATIENCE)
        with Unwritable(store_path(stand.home)):
            reply = thread.post(Counting())
            gate.opened.set()
            assert reply.get(timeout=PATIENCE) is None
            assert thread.notices.get(timeout=PATIENCE).fatal
            thread.lander._thread.join(PATIENCE)


@pytest.fixture
def file_limit() -> Iterator[Callable[[int], None]]:
    """Sets how large a file this process may write."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    yield lambda size: resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_no_room_to_fold_the_wal_back_is_no_reason_to_stop(
    stand: Stand, file_limit: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """K1, K8: it is tried again after the next group."""
    path = store_path(stand.home)
    monkeypatch.setattr("landing.wal.FOLD_BYTES", 0)
    with lander_thread(stand.home) as thread:
        file_limit(1_000_000)
        while wal_size(path) < 500_000:
            assert thread.ask(Counting(200_000)) is None
        assert path.stat().st_size <= 1_000_000
        file_limit(resource.RLIM_INFINITY)
        for _ in range(2):
            assert thread.ask(Counting()) is None
        assert path.stat().st_size > 1_000_000
        assert wal_size(path) < 500_000
        assert thread.notices.empty()


def test_a_damaged_store_ends_the_lander_with_a_fatal_notice(stand: Stand) -> None:
    """K1: CORRUPT."""
    page = stand.query("SELECT rootpage FROM sqlite_master WHERE name = 'laneway_kinds'")[0][0]
    with store_path(stand.home).open("r+b") as file:
        file.seek((page - 1) * 4096)
        file.write(b"\xff" * 4096)
    with lander_thread(stand.home) as thread:
        thread.post(ENQUEUE)
        notice = thread.notices.get(timeout=PATIENCE)
        assert (notice.code, notice.fatal) == ("store_broken", True)
        assert "malformed" in notice.text


def test_a_store_that_is_no_database_has_no_lander(stand: Stand) -> None:
    """A4."""
    store_path(stand.home).write_bytes(b"no database" * 100)
    with pytest.raises(StoreBroken, match="not a database"), lander_thread(stand.home):
        pass


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_lander_that_dies_of_anything_else_says_so(stand: Stand) -> None:
    """K11: and it does not die in silence."""
    with lander_thread(stand.home) as thread:
        thread.lander.submit(ENQUEUE, lambda: None)  # type: ignore[arg-type, misc] - takes no answer
        notice = thread.notices.get(timeout=PATIENCE)
        assert (notice.code, notice.fatal) == ("lander_died", True)
