"""What a row may be, and what the rows of one batch have in common (CONTRACTS K3).

A row is a tuple, a list, a dict or the lane's Struct; it travels as its cells. The first
row settles which of these the attempt yields, and the names of a dict's cells. Cells
are None, bool, int, float, str and bytes, exactly: what a subclass means is not ours to guess.
"""

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any, Final

from msgspec.structs import astuple

from ipc.description import type_label
from ipc.messages import encoder
from ipc.rows import WIDTH_LIMIT

CELLS: Final = frozenset({type(None), bool, int, float, str, bytes})
KEYS_LIMIT: Final = 64 << 10
"""Bytes in the encoded names of a dict row's cells; they travel with every batch."""

SEEN_LIMIT: Final = 1024
"""Combinations of cell types that are remembered as fitting."""


class Unfit(Exception):
    """This row may not be sent: `code` and why."""

    def __init__(self, code: str, why: str) -> None:
        super().__init__(why)
        self.code = code
        self.why = why


class Shape:
    """Turns rows into cells and tells which rows can share a batch.

    The wire names the columns of a batch that hold bytes, so one column of one batch
    holds text or bytes, not both; None and numbers go with either.

    Args:
        struct: the Struct type that the lane declares, or None.

    Attributes:
        form: rows of exactly this type are their own cells; None when none are.
        types: the cell types of the last row that was admitted.
        width: cells in a row of the present batch.
        blobs: columns of the present batch that hold bytes.
        keys: names of the cells, None unless rows are dicts.
    """

    def __init__(self, struct: type | None) -> None:
        self._struct = struct
        self._pick: Callable[[Any], Any] | None = None
        self._texts: frozenset[int] = frozenset()
        self._seen: set[tuple[type, ...]] = set()
        self.form: type | None = None
        self.types: list[type] | None = None
        self.width = 0
        self.blobs: list[int] = []
        self.keys: list[str] | None = None

    def cells(self, row: Any) -> Sequence[Any]:
        """Return the cells of a row that is not of type `form`.

        Raises:
            Unfit: it is no row, or not one like those before it.
        """
        kind = type(row)
        if self._struct is not None:
            if kind is self._struct:
                return astuple(row)
            wanted = f"the lane declares rows={type_label(self._struct)}"
            raise Unfit("row_type", f"it is of type {type_label(kind)}; {wanted}")
        if kind is dict and self.form is None:
            return self._values(row)
        if issubclass(kind, tuple | list) and self.keys is None:
            self.form = list if kind is list else tuple
            return row if kind is self.form else tuple(row)
        raise Unfit("row_type", f"it is of type {type_label(kind)}; {self._wanted()}")

    def admit(self, types: list[type]) -> bool:
        """Take a row with these cell types into the present batch; False when it needs a batch of its own.

        Raises:
            Unfit: no batch may hold it.
        """
        if (key := tuple(types)) in self._seen:
            self.types = types
            return True
        self._check(types)
        texts = frozenset(at for at, kind in enumerate(types) if kind is str)
        blobs = frozenset(at for at, kind in enumerate(types) if kind is bytes)
        if self.width not in {0, len(types)} or texts & set(self.blobs) or blobs & self._texts:
            return False
        self.types, self.width = types, len(types)
        self._texts |= texts
        self.blobs = sorted(blobs.union(self.blobs))
        if len(self._seen) >= SEEN_LIMIT:
            self._seen.clear()
        self._seen.add(key)
        return True

    def restart(self) -> None:
        """Begin a batch that has nothing in common with the one before it."""
        self._seen.clear()
        self._texts = frozenset()
        self.width, self.blobs = 0, []

    def _check(self, types: list[type]) -> None:
        if not 0 < len(types) <= WIDTH_LIMIT:
            raise Unfit("row_type", f"it has {len(types)} cells, 1 to {WIDTH_LIMIT} are allowed")
        for at, kind in enumerate(types):
            if kind not in CELLS:
                raise Unfit(
                    "row_type",
                    f"{self.cell(at)} is of type {type_label(kind)}; "
                    "cells are None, bool, int, float, str or bytes, not subclasses of them",
                )

    def cell(self, at: int) -> str:
        """Name the cell at index `at` for a message."""
        return f"cell {at + 1}" if self.keys is None else f"cell {self.keys[at]!r}"

    def _values(self, row: dict[Any, Any]) -> Sequence[Any]:
        if self.keys is None or self._pick is None:
            self.keys = self._settle_keys(row)
            self._pick = itemgetter(*self.keys)
        try:
            values = self._pick(row)
        except KeyError:
            values = None
        if values is None or len(row) != len(self.keys):
            raise Unfit("row_keys", f"its keys are not those of the first row: {', '.join(self.keys)[:200]}")
        return values if len(self.keys) > 1 else (values,)

    def _settle_keys(self, row: dict[Any, Any]) -> list[str]:
        keys = list(row)
        if not keys or any(type(key) is not str for key in keys):
            raise Unfit("row_keys", "the keys of a dict row are text, and there is at least one")
        try:
            size = len(encoder.encode(keys))
        except UnicodeError:
            raise Unfit("row_keys", "a key has a lone surrogate, which is no text") from None
        if size > KEYS_LIMIT:
            raise Unfit("row_keys", f"the keys take {size} bytes, {KEYS_LIMIT} are allowed")
        return keys

    def _wanted(self) -> str:
        if self.form is not None:
            return "the rows before it are tuples or lists"
        if self.keys is not None:
            return "the rows before it are dicts"
        return "rows are tuples, lists, dicts, or of the Struct type that the lane declares as rows="
