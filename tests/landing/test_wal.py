"""The WAL is folded back by the lander, between groups, and by nobody else."""

import queue
import re
from contextlib import closing
from typing import Any

import pytest

from landing.connect import open_reader, open_writer, store_path
from landing.faults import CHECKPOINT, trouble
from landing.snapshot import wal_size
from landing.transaction import Transaction
from landing.wal import CUT_BYTES, FOLD_BYTES
from tests.landing.stand import PATIENCE, Stand, lander_thread, wait_for

MEGA = 1 << 20


class Overwrite:
    """Writes `size` bytes over the same pages, so that the WAL grows and the store does not."""

    def __init__(self, size: int) -> None:
        self.size = size

    def apply(self, tx: Transaction) -> None:
        tx.run("DELETE FROM notes")
        tx.run("INSERT INTO notes VALUES (1, 1, zeroblob(?))", (self.size,))


def test_the_wal_stays_small_while_hundreds_of_megabytes_are_written(stand: Stand) -> None:
    """K8."""
    path, sizes = store_path(stand.home), []

    def deliver(then: Any, answer: Any) -> None:
        sizes.append(wal_size(path))
        then(answer)

    with lander_thread(stand.home, deliver=deliver) as thread:
        replies = [thread.post(Overwrite(4 * MEGA)) for _ in range(60)]
        for reply in replies:
            assert reply.get(timeout=PATIENCE) is None
    assert max(sizes) < 70 * MEGA
    assert path.stat().st_size < 20 * MEGA


def test_a_reader_that_pins_an_old_snapshot_does_not_hold_the_lander_up(stand: Stand) -> None:
    """K8: the WAL grows until the reader lets go, and shrinks again."""
    path = store_path(stand.home)
    with lander_thread(stand.home) as thread:
        with closing(open_reader(path)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT COUNT(*) FROM notes").fetchall()
            while wal_size(path) <= CUT_BYTES + 8 * MEGA:
                assert thread.ask(Overwrite(8 * MEGA)) is None
            pinned = wal_size(path)
        for _ in range(3):
            assert thread.ask(Overwrite(MEGA)) is None
        assert pinned > CUT_BYTES
        assert wal_size(path) < FOLD_BYTES


class Pinned:
    """A reader that keeps the snapshot of the moment open."""

    def __init__(self, stand: Stand) -> None:
        self.db = open_reader(store_path(stand.home))
        self.db.execute("BEGIN")
        self.db.execute("SELECT COUNT(*) FROM notes").fetchall()


def test_a_wal_that_a_reader_pins_is_told_once_and_shrinks_when_the_reader_lets_go(
    stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K8: by the lander's own doing, also when nothing more lands; the next pin is told again."""
    for name, megabytes in (("FOLD_BYTES", 4), ("CUT_BYTES", 8), ("PINNED_BYTES", 16)):
        monkeypatch.setattr(f"landing.wal.{name}", megabytes * MEGA)
    monkeypatch.setattr("landing.lander.FOLD_SECONDS", 0.02)
    path = store_path(stand.home)
    with lander_thread(stand.home) as thread:
        for _ in range(2):
            with closing(Pinned(stand).db):
                while wal_size(path) < 20 * MEGA:
                    assert thread.ask(Overwrite(2 * MEGA)) is None
                notice = thread.notices.get(timeout=PATIENCE)
                assert (notice.code, notice.fatal) == ("wal_pinned", False)
                assert re.search(r"grown to 1[6-9] MiB: a reader keeps an old snapshot", notice.text)
                assert thread.ask(Overwrite(2 * MEGA)) is None
                assert thread.notices.empty()
            wait_for(lambda: wal_size(path) == 0)
        assert thread.ask(Overwrite(1)) is None
        assert thread.notices.empty()


def test_a_full_disk_while_the_wal_is_folded_back_at_leisure_is_no_trouble(
    stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K1, K8: nothing waits for it; it is tried again."""
    monkeypatch.setattr("landing.wal.FOLD_BYTES", 0)
    monkeypatch.setattr("landing.lander.FOLD_SECONDS", 0.01)
    tries: queue.SimpleQueue[str] = queue.SimpleQueue()
    kinds = iter(["full", "readonly", "full"])

    def reach(point: str) -> None:
        if point == CHECKPOINT:
            tries.put(point)
            if (kind := next(kinds, None)) is not None:
                raise trouble(kind)

    with lander_thread(stand.home, reach=reach) as thread:
        assert thread.ask(Overwrite(MEGA)) is None
        for _ in range(4):
            tries.get(timeout=PATIENCE)
        wait_for(lambda: wal_size(store_path(stand.home)) == 0)
        assert thread.notices.empty()


def test_writers_from_outside_do_not_fold_it_back(stand: Stand) -> None:
    """K8: however large it is."""
    path = store_path(stand.home)
    with closing(open_writer(path)) as held:
        held.execute("SELECT COUNT(*) FROM notes").fetchall()
        for _ in range(3):
            stand.write(Overwrite(4 * MEGA))
        assert wal_size(path) > 12 * MEGA
