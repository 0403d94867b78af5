"""The rows of a batch as a lander sees them: tuple for tuple, dict for dict, Struct for `rows=Type`."""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from ipc.errors import ProtocolError
from ipc.messages import Batch
from ipc.rows import decode_rows
from landing.batches import RowsRefused


class Rows(Sequence[Any]):
    """A sequence of what the compute half yielded; `tuples` goes straight to executemany."""

    __slots__ = ("_items", "tuples")

    def __init__(self, tuples: list[tuple[Any, ...]], items: list[Any]) -> None:
        self.tuples = tuples
        self._items = items

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._items)

    def __getitem__(self, index: Any) -> Any:
        return self._items[index]


def rows_of(batch: Batch, rows_type: type | None) -> Rows:
    """Decode a batch's rows into the lane's shape.

    Raises:
        RowsRefused: they are not what the header or the lane's type says.
    """
    try:
        tuples = decode_rows(batch.rows, batch.count, batch.width, batch.blobs)
    except ProtocolError as error:
        raise RowsRefused(error.detail) from None
    if rows_type is not None:
        return Rows(tuples, as_structs(tuples, rows_type))
    if batch.keys is None:
        return Rows(tuples, tuples)
    if len(batch.keys) != batch.width:
        raise RowsRefused(f"{len(batch.keys)} names for {batch.width} cells")
    return Rows(tuples, [dict(zip(batch.keys, row, strict=True)) for row in tuples])


def as_structs(tuples: list[tuple[Any, ...]], rows_type: type) -> list[Any]:
    """Build the lane's Struct from each row, checked against its declared field types."""
    names = [field.encode_name for field in msgspec.structs.fields(rows_type)]
    positional = rows_type.__struct_config__.array_like  # type: ignore[attr-defined]
    try:
        if positional:
            return [msgspec.convert(row, rows_type) for row in tuples]
        return [msgspec.convert(dict(zip(names, row, strict=True)), rows_type) for row in tuples]
    except (msgspec.ValidationError, ValueError) as error:
        raise RowsRefused(f"a row is no {rows_type.__name__}: {error}") from None
