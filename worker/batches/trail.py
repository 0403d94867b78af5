"""How far behind its mark a stream of rows is: the resume point (CONTRACTS K4)."""

# `hashlib.blake2b` is this very object; importing hashlib would load OpenSSL, 3 ms a child.
from _blake2 import blake2b

from ipc.messages import ResumePoint


class Trail:
    """Counts and hashes the rows since the last mark, however they were cut into batches.

    Where they are not to be replayed, only the last rows of a job leave with no mark behind them,
    and no digest says so.
    """

    def __init__(self, mark: str | None, *, replayed: bool) -> None:
        self._replayed = replayed
        self.checkpoint(mark)

    def checkpoint(self, mark: str | None) -> None:
        """Begin anew at `mark`."""
        self._mark = mark
        self._skip = 0
        self._hash = blake2b(digest_size=16)

    def add(self, rows: int, encoded: memoryview) -> None:
        """Go on by so many rows, whose encodings are `encoded`."""
        self._skip += rows
        if self._replayed:
            self._hash.update(encoded)

    def point(self) -> ResumePoint:
        """Return the resume point that holds here."""
        has_digest = self._replayed and self._skip
        return ResumePoint(self._mark, self._skip, self._hash.digest() if has_digest else b"")
