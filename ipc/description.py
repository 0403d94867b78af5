"""Any value in bounded text, none of its code run; equal values read the same everywhere (SPEC B51-B59).

Only exact built-in types are looked into; a subclass of any of them is opaque.
"""

from collections.abc import Iterable
from itertools import islice
from math import isfinite
from typing import Any, Final

NODES: Final = 256
ITEMS: Final = 64
DEPTH: Final = 8
PREFIX: Final = 512
BYTES_PREFIX: Final = 128
LABEL_LIMIT: Final = 128

CONTAINERS: Final = (list, tuple, dict, set, frozenset)
LABEL_CHARACTERS: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-")
CLASS_NAME: Final = type.__dict__["__name__"]


class TooMany(Exception):
    """The value has more parts than are described."""


def type_label(kind: type) -> str:
    """Return a class's real name in safe characters, without asking its metaclass."""
    name: str = CLASS_NAME.__get__(kind)
    return "".join(c if c in LABEL_CHARACTERS else "_" for c in name[:LABEL_LIMIT]) or "unknown"


def describe(value: Any) -> str:
    """Describe any value in bounded text, the same in every process.

    A value with too many parts is described again less deeply, so that what is shown does
    not depend on the order of its parts.
    """
    for depth in (DEPTH, 1, 0):
        try:
            return Description(depth).token(value, 0)
        except TooMany:
            continue
        except Exception:  # noqa: BLE001 - another thread may change what we read
            break
    return f"<{type_label(type(value))}>"


class Description:
    """Renders a value as a token, down to some depth."""

    def __init__(self, depth: int) -> None:
        self._depth = depth
        self._nodes = 0
        self._path: set[int] = set()

    def token(self, value: Any, depth: int) -> str:
        """Return the token of one value; raises TooMany when there are too many of them."""
        self._nodes += 1
        if self._nodes > NODES:
            raise TooMany
        kind = type(value)
        if value is None or kind is bool:
            return str(value)
        if kind is int:
            return int_token(value)
        if kind is float:
            return repr(value) if isfinite(value) else f"<{value!r}>"
        if kind is str:
            return string_token(value)
        if kind is bytes:
            return f"<bytes of {len(value)}: {value[:BYTES_PREFIX].hex()}>"
        if any(kind is container for container in CONTAINERS):  # `in` would ask the metaclass
            return self._container(value, depth)
        return f"<{type_label(kind)}>"

    def _container(self, value: Any, depth: int) -> str:
        kind, length = type(value), len(value)
        if id(value) in self._path:
            return "<cycle>"
        is_ordered = kind is list or kind is tuple
        if depth >= self._depth or (length > ITEMS and not is_ordered):
            return f"<{kind.__name__} of {length}>"
        self._path.add(id(value))
        try:
            tokens = self._tokens(value, depth + 1)
        finally:
            self._path.discard(id(value))
        if length > ITEMS:
            tokens.append(f"<{length - ITEMS} more>")
        opening, closing = "[]" if is_ordered else "{}"
        return opening + ", ".join(tokens if is_ordered else sorted(tokens)) + closing

    def _tokens(self, value: Iterable[Any], depth: int) -> list[str]:
        if isinstance(value, dict):
            return [f"{self.token(key, depth)}: {self.token(item, depth)}" for key, item in value.items()]
        return [self.token(item, depth) for item in islice(value, ITEMS)]


def int_token(value: int) -> str:
    """Return an int, or its size if it is large."""
    if (bits := value.bit_length()) <= 64:
        return str(value)
    return f"<{'negative' if value < 0 else 'positive'} int of {bits} bits>"


def string_token(value: str) -> str:
    """Return a string in quotes, its beginning and length if it is long; always encodable text."""
    shown = value[:PREFIX].encode("utf-8", "backslashreplace").decode()
    return f'"{shown}"' if len(value) <= PREFIX else f'<text of {len(value)}: "{shown}">'
