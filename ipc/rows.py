"""Rows on the wire: positional arrays whose decoder is as narrow as the batch says.

The codec cannot tell text from bytes in one union, so a batch names the columns
that hold bytes. The narrow decoder refuses anything nested at its first byte:
8 MiB of empty lists never become objects (CONTRACTS K3).
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Annotated, Any, Final

from msgspec import Meta, MsgspecError, Raw
from msgspec.msgpack import Decoder

from ipc.errors import ProtocolError

Int64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
Plain = None | bool | Int64 | float | str
Blob = None | bool | Int64 | float | bytes

WIDTH_LIMIT: Final = 2000
"""Cells in a row: the number of columns that SQLite gives a table by default."""


@lru_cache(maxsize=64)
def rows_decoder(width: int, blobs: tuple[int, ...]) -> Decoder[list[tuple[Any, ...]]]:
    """Return the decoder of rows of exactly `width` cells whose columns `blobs` hold bytes."""
    cells = tuple(Blob if column in blobs else Plain for column in range(width))
    return Decoder(list[tuple[cells]])  # type: ignore[valid-type]


def decode_rows(rows: Raw, count: int, width: int, blobs: Sequence[int]) -> list[tuple[Any, ...]]:
    """Decode the `count` rows of a batch.

    Raises:
        ProtocolError: with code "rows" when the block is not `count` rows of `width` cells.
    """
    if width > WIDTH_LIMIT or len(blobs) > width:
        raise ProtocolError("rows", f"{width} cells in a row, {WIDTH_LIMIT} are allowed")
    if array_length(bytes(memoryview(rows)[:5])) != count:
        raise ProtocolError("rows", f"the block does not hold the {count} rows that its header names")
    try:
        return rows_decoder(width, tuple(blobs)).decode(rows)
    except (MsgspecError, UnicodeError) as error:
        raise ProtocolError("rows", str(error)) from None


def array_length(head: bytes) -> int | None:
    """Read how many items a msgpack array has from its first 5 bytes; None when it is no array."""
    if not head:
        return None
    if head[0] & 0xF0 == 0x90:
        return head[0] & 0x0F
    if head[0] == 0xDC and len(head) >= 3:
        return int.from_bytes(head[1:3], "big")
    if head[0] == 0xDD and len(head) >= 5:
        return int.from_bytes(head[1:5], "big")
    return None


def array_head(count: int) -> bytes:
    """Return the msgpack head of an array of `count` items."""
    if count < 16:
        return bytes([0x90 | count])
    if count < 1 << 16:
        return b"\xdc" + count.to_bytes(2, "big")
    return b"\xdd" + count.to_bytes(4, "big")
