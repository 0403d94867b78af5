"""Folding the WAL back into the store, between groups: the lander does it, and nobody else (CONTRACTS K8)."""

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Final

from landing.connect import translated
from landing.errors import StoreBroken, StoreError
from landing.faults import CHECKPOINT, Reach
from landing.guard import Writer
from landing.snapshot import wal_size

FOLD_BYTES: Final = 32 << 20
CUT_BYTES: Final = 64 << 20
PINNED_BYTES: Final = 128 << 20
"""Sizes of the WAL from which it is folded back, begun anew, and spoken of."""


class Folded(StrEnum):
    """What came of a checkpoint: all folded back, a reader was in the way, or the store lacks room, say."""

    WHOLE = "whole"
    IN_USE = "in_use"
    NOT_NOW = "not_now"


class Wal:
    """The lander's care for the WAL of its connection.

    Args:
        db: the lander's connection, outside any transaction whenever `fold` is called.
        path: the store.
        told: called with one line when a reader keeps the WAL from shrinking.
        reach: called before each checkpoint.

    Attributes:
        unfolded: some of it is still to be folded back, because it was in use or there was no room.
    """

    def __init__(self, db: Writer, path: Path, told: Callable[[str], object], reach: Reach) -> None:
        self._db = db
        self._path = path
        self._told = told
        self._reach = reach
        self._pinned = False
        self.unfolded = False
        # Cuts the file whenever it is begun anew, so that its size is what it holds.
        db.execute("PRAGMA journal_size_limit = 0")

    def fold(self, *, at_leisure: bool = False) -> None:
        """Fold it back if it is large; `at_leisure` says that nothing waits to be landed.

        Raises:
            StoreBroken: the disk failed meanwhile.
        """
        size = wal_size(self._path)
        self.unfolded = size > FOLD_BYTES
        self._pinned = self._pinned and size > CUT_BYTES
        if not self.unfolded:
            return
        folded = self._checkpoint(cut=at_leisure or size > CUT_BYTES)
        self.unfolded = folded is not Folded.WHOLE
        if folded is Folded.IN_USE and size > PINNED_BYTES and not self._pinned:
            self._pinned = True
            self._told(pinned_text(self._path, size))

    def make_room(self) -> bool:
        """Fold back what there is, on a full disk: the WAL may be what fills it. Tell whether that gave room.

        Raises:
            StoreBroken: the disk failed meanwhile.
        """
        return wal_size(self._path) > 0 and self._checkpoint(cut=True) is Folded.WHOLE

    def _checkpoint(self, *, cut: bool) -> Folded:
        """Fold back what readers let it, and cut the file if asked to.

        A reader that pins an old snapshot must not hold the lander up: no waiting here. TRUNCATE is
        the RESTART of CONTRACTS K8 that does not leave the cutting to the next commit.
        """
        try:
            with translated(self._path):
                self._reach(CHECKPOINT)
                busy, pages, folded = self._try("TRUNCATE" if cut else "PASSIVE")
        except StoreBroken:
            raise
        except StoreError:
            return Folded.NOT_NOW
        return Folded.IN_USE if busy or folded < pages else Folded.WHOLE

    def _try(self, mode: str) -> tuple[int, int, int]:
        """Ask SQLite once and return its answer: in the way, pages of the WAL, pages folded back."""
        (patience,) = self._db.execute("PRAGMA busy_timeout").fetchone()
        try:
            self._db.execute("PRAGMA busy_timeout = 0")
            busy, pages, folded = self._db.execute(f"PRAGMA wal_checkpoint({mode})").fetchone()
        finally:
            self._db.execute(f"PRAGMA busy_timeout = {patience}")
        return busy, pages, folded


def pinned_text(path: Path, size: int) -> str:
    """Say why a WAL grows."""
    return (
        f"{path}-wal has grown to {size >> 20} MiB: a reader keeps an old snapshot open, so it cannot be "
        f"folded back; it shrinks by itself once that reader has ended"
    )
