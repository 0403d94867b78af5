"""Frames: a 4-byte big-endian length, then that many bytes of body.

    stream   | 0 0 0 5 | h e l l o | 0 0 0 2 | h i | 0 0 ...
    bodies             hello                 hi      (torn: kept until the rest comes)

A length is judged when its fourth byte is there and before anything is allocated for
the body (SPEC C150). Each byte is copied once on its way into a body, twice when the
frame came in pieces.
"""

from collections.abc import Iterator
from typing import Final

from ipc.errors import ProtocolError
from ipc.messages import FRAME_LIMIT

HEAD: Final = 4
"""Bytes in a frame's length."""


def check_length(size: int, limit: int) -> None:
    """Refuse a length that no frame has: 0, over the limit, or what a writer meant as negative."""
    if not 0 < size <= limit:
        raise ProtocolError("frame_length", f"a frame of {size} bytes; 1 to {limit} are allowed")


def head(size: int) -> bytes:
    """Return the length that goes before a body of `size` bytes.

    Raises:
        ProtocolError: with code "frame_length" when there may be no such frame.
    """
    check_length(size, FRAME_LIMIT)
    return size.to_bytes(HEAD, "big")


def pack(body: bytes) -> bytes:
    """Return `body` as a frame; raises like `head`."""
    return head(len(body)) + body


class Splitter:
    """Cuts a stream that arrives in arbitrary pieces into the bodies of its frames.

    Args:
        limit: bytes in the largest body that is accepted.
    """

    __slots__ = ("_limit", "_torn")

    def __init__(self, limit: int = FRAME_LIMIT) -> None:
        self._limit = limit
        self._torn = bytearray()

    @property
    def pending(self) -> int:
        """How many bytes of an unfinished frame are held."""
        return len(self._torn)

    def feed(self, chunk: bytes) -> Iterator[bytes | bytearray]:
        """Yield each body that is whole now, in order; to be run to its end.

        Raises:
            ProtocolError: with code "frame_length" at a bad length, after the bodies before it.
                The stream is lost from there on: whatever is fed later is refused again.
        """
        start = self._mend(chunk) if self._torn else 0
        if (size := self._size(self._torn, 0)) is not None and len(self._torn) == HEAD + size:
            yield self._take()
        try:
            while (size := self._size(chunk, start)) is not None and start + HEAD + size <= len(chunk):
                start += HEAD + size
                yield chunk[start - size : start]
        finally:
            self._torn += chunk[start:]

    def _mend(self, chunk: bytes) -> int:
        """Complete the torn frame as far as `chunk` goes; return how much of it was used."""
        used = min(max(0, HEAD - len(self._torn)), len(chunk))
        self._torn += chunk[:used]
        if (size := self._size(self._torn, 0)) is None:
            return used
        stop = used + HEAD + size - len(self._torn)
        self._torn += chunk[used:stop]
        return min(stop, len(chunk))

    def _size(self, buffer: bytes | bytearray, at: int) -> int | None:
        """Return the length that `buffer` has at `at`, None when it is not there in full."""
        if len(buffer) - at < HEAD:
            return None
        check_length(size := int.from_bytes(buffer[at : at + HEAD], "big"), self._limit)
        return size

    def _take(self) -> bytearray:
        body, self._torn = self._torn, bytearray()
        del body[:HEAD]
        return body
