"""The last bytes that a child printed; everything before them is counted, not kept."""

import os
from typing import Final

TAIL_BYTES: Final = 8 << 10
READ_BYTES: Final = 64 << 10


class LogTail:
    """Drains one pipe without ever blocking or growing (SPEC C161).

    Args:
        fd: the reading end, non-blocking; owned and closed by this object.
        keep: how many bytes stay.
    """

    def __init__(self, fd: int, keep: int = TAIL_BYTES) -> None:
        self._fd = fd
        self._keep = keep
        self._tail = bytearray()
        self._total = 0
        self.closed = False

    def fileno(self) -> int:
        """Return the descriptor to wait on."""
        return self._fd

    def drain(self, budget: int) -> bool:
        """Read at most `budget` bytes of what is there; tell whether there may be more."""
        while budget > 0 and not self.closed:
            try:
                chunk = os.read(self._fd, min(READ_BYTES, budget))
            except BlockingIOError:
                return False
            except OSError:
                chunk = b""
            if not chunk:
                self.closed = True
                return False
            budget -= len(chunk)
            self._total += len(chunk)
            self._tail += chunk
            del self._tail[: -self._keep]
        return not self.closed

    def text(self) -> str:
        """Return the tail as text, what is no UTF-8 escaped; a first line says how much is missing."""
        text = self._tail.decode("utf-8", "backslashreplace")
        if (dropped := self._total - len(self._tail)) > 0:
            return f"... {dropped} bytes before this are not kept ...\n{text}"
        return text

    def begin_anew(self) -> None:
        """Forget everything that was read so far."""
        self._tail.clear()
        self._total = 0

    def close(self) -> None:
        """Stop listening; the text stays."""
        self.closed = True
        os.close(self._fd)
