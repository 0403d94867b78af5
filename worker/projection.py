"""What may be stored of a value that user code made (SPEC B51-B55).

Plain JSON data within the limits stays as it is; anything else becomes an envelope that describes it.
"""

from math import isfinite
from typing import Any, Final

from ipc.description import DEPTH, ITEMS, NODES, describe, type_label

TEXT: Final = 65_536
INT_BITS: Final = 4096
RESULT_LIMIT: Final = 8192
SUMMARY_LIMIT: Final = 2000


class Unfit(Exception):
    """The value is no JSON data within the limits; `reason` is oversized or not_json."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def project(value: Any) -> str:
    """Return JSON text of at most 8192 ASCII characters: the value itself, or an envelope about it."""
    try:
        text = to_json(Copy().copy(value, 0))
        require(len(text) <= RESULT_LIMIT, "oversized")
    except Unfit as unfit:
        return envelope(value, unfit.reason)
    except Exception:  # noqa: BLE001 - a lone surrogate, or another thread that changes what we read
        return envelope(value, "not_json")
    return text


def to_json(value: Any) -> str:
    """Return canonical JSON: sorted keys, no spaces, ASCII."""
    import json  # noqa: PLC0415 - 1 ms that only a job with a result pays

    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def require(fits: bool, reason: str) -> None:  # noqa: FBT001 - a statement and its reason
    """Refuse a value that does not fit."""
    if not fits:
        raise Unfit(reason)


class Copy:
    """Copies JSON data, tuples as lists, and counts what it takes."""

    def __init__(self) -> None:
        self._nodes = 0
        self._text = 0
        self._path: set[int] = set()

    def copy(self, value: Any, depth: int) -> Any:
        """Return a copy made of exact built-in types; raises Unfit for anything else."""
        self._nodes += 1
        require(self._nodes <= NODES and depth <= DEPTH, "oversized")
        kind = type(value)
        if kind is str:
            return self._string(value)
        if kind is list or kind is tuple or kind is dict:
            return self._container(value, depth)
        if kind is int:
            require(value.bit_length() <= INT_BITS, "oversized")
        elif kind is float:
            require(isfinite(value), "not_json")
        else:
            require(value is None or kind is bool, "not_json")
        return value

    def _string(self, value: str) -> str:
        self._text += len(value)
        require(self._text <= TEXT, "oversized")
        value.encode()
        return value

    def _container(self, value: Any, depth: int) -> Any:
        require(id(value) not in self._path, "not_json")
        require(len(value) <= ITEMS, "oversized")
        self._path.add(id(value))
        try:
            if type(value) is not dict:
                return [self.copy(item, depth + 1) for item in value]
            require(all(type(key) is str for key in value), "not_json")
            return {self._string(key): self.copy(item, depth + 1) for key, item in value.items()}
        finally:
            self._path.discard(id(value))


def envelope(value: Any, reason: str) -> str:
    """Describe a value that cannot be stored as it is: type, bounded summary, digest of the description."""
    from hashlib import sha256  # noqa: PLC0415 - 3 ms that only such a job pays

    shape = describe(value)
    fields = {
        "projection": "bounded",
        "type": type_label(type(value)),
        "reason": reason,
        "digest": sha256(shape.encode()).hexdigest(),
        "digest_scope": "bounded_shape",
    }
    return fit_summary(fields, shape)


def fit_summary(fields: dict[str, str], summary: str) -> str:
    """Return the envelope with as much of the summary as fits, an ellipsis for the rest."""

    def text(length: int) -> str:
        cut = summary[:length] + ("" if length == len(summary) else "…")
        return to_json(fields | {"summary": cut})

    low, high = 0, len(summary) if len(summary) <= SUMMARY_LIMIT else SUMMARY_LIMIT - 1
    if len(whole := text(high)) <= RESULT_LIMIT:
        return whole
    while low < high - 1:
        middle = (low + high) // 2
        low, high = (middle, high) if len(text(middle)) <= RESULT_LIMIT else (low, middle)
    return text(low)
