"""The WAL is folded back by the lander, between groups, and by nobody else."""

from contextlib import closing
from typing import Any

from landing.connect import open_reader, open_writer, store_path
from landing.lander import CHECKPOINT_BYTES, RESTART_BYTES
from landing.snapshot import wal_size
from landing.transaction import Transaction
from tests.landing.stand import PATIENCE, Stand, lander_thread

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
            while wal_size(path) <= RESTART_BYTES + 8 * MEGA:
                assert thread.ask(Overwrite(8 * MEGA)) is None
            pinned = wal_size(path)
        for _ in range(3):
            assert thread.ask(Overwrite(MEGA)) is None
        assert pinned > RESTART_BYTES
        assert wal_size(path) < CHECKPOINT_BYTES


def test_writers_from_outside_do_not_fold_it_back(stand: Stand) -> None:
    """K8: however large it is."""
    path = store_path(stand.home)
    with closing(open_writer(path)) as held:
        held.execute("SELECT COUNT(*) FROM notes").fetchall()
        for _ in range(3):
            stand.write(Overwrite(4 * MEGA))
        assert wal_size(path) > 12 * MEGA
