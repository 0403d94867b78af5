"""Payloads at the door: plain JSON that every strict reader can read, bounded, stored as given.

Key order is kept, because coalescing compares stored text (SPEC U39).
"""

import json
import math
from collections.abc import Iterable
from typing import Any, Final

PAYLOAD_LIMIT: Final = 1 << 20
"""UTF-8 bytes of the stored text (CONTRACTS K15)."""

DEPTH_LIMIT: Final = 100

MARK_LIMIT: Final = 16 << 10
"""Characters of a resume point's mark; the wire's own limit, pinned equal by a test."""


class PayloadRefused(ValueError):
    """The payload cannot be stored; the message says where and why."""


def payload_text(value: Any) -> str:
    """Return the compact JSON text of a payload.

    Raises:
        PayloadRefused: not JSON, NaN or infinite, a lone surrogate, or over the limit; names the place.
    """
    if (trouble := trouble_in(value, "$", 0)) is not None:
        raise PayloadRefused(trouble)
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    if (size := len(text.encode())) > PAYLOAD_LIMIT:
        raise PayloadRefused(
            f"the payload is {size} bytes; at most {PAYLOAD_LIMIT} are allowed, so pass a path instead"
        )
    return text


def payload_from(text: str) -> Any:
    """Read JSON text that a person or a program wrote.

    Raises:
        PayloadRefused: it is not strict JSON; names the line and column, or the place of a bad value.
    """
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise PayloadRefused(
            f"the payload is not JSON: {error.msg} at line {error.lineno}, column {error.colno}"
        ) from None
    except ValueError:  # Python reads no integer of more than 4,300 digits
        raise PayloadRefused("a number in the payload does not fit 64 bits") from None
    except RecursionError:
        raise PayloadRefused("the payload is nested too deeply") from None
    if (trouble := trouble_in(value, "$", 0)) is not None:
        raise PayloadRefused(trouble)
    return value


def is_payload(cell: object, limit: int = PAYLOAD_LIMIT) -> bool:
    """Tell whether a stored cell is JSON text within the limits; cheap, it visits containers alone."""
    if not isinstance(cell, str) or len(cell) > limit or len(cell.encode(errors="replace")) > limit:
        return False
    try:
        level = [json.loads(cell, parse_constant=refuse)]
    except (ValueError, RecursionError):
        return False
    for _ in range(DEPTH_LIMIT + 1):
        level = [item for one in level if isinstance(one, dict | list) for item in items(one)]
        if not level:
            return True
    return False


def items(container: dict[str, Any] | list[Any]) -> Iterable[Any]:
    """Return what is directly inside."""
    return container.values() if isinstance(container, dict) else container


def refuse(constant: str) -> None:
    """Refuse NaN and Infinity, which Python reads and JSON does not have."""
    raise ValueError(constant)


def trouble_in(value: Any, path: str, depth: int) -> str | None:
    """Say what in `value` is not strict JSON, with its path, or None."""
    if depth > DEPTH_LIMIT:
        return f"the payload is nested more than {DEPTH_LIMIT} deep at {path[:60]}..."
    if value is None or isinstance(value, bool):
        return None
    if isinstance(value, int):
        return None if -(2**63) <= value < 2**64 else f"the number at {path} does not fit 64 bits"
    if isinstance(value, float):
        return None if math.isfinite(value) else f"{json.dumps(value)} at {path} is not JSON"
    if isinstance(value, str):
        return surrogate_in(value, path)
    if isinstance(value, list | tuple):
        return first(trouble_in(item, f"{path}[{n}]", depth + 1) for n, item in enumerate(value))
    if isinstance(value, dict):
        return first(trouble_in_item(key, item, path, depth) for key, item in value.items())
    return f"the value at {path} is of type {type(value).__name__}, which is not JSON"


def trouble_in_item(key: Any, item: Any, path: str, depth: int) -> str | None:
    """Say what is wrong with one entry of a mapping, or None."""
    if not isinstance(key, str):
        return f"a key at {path} is of type {type(key).__name__}; JSON keys are text"
    return surrogate_in(key, path) or trouble_in(item, path + step(key), depth + 1)


def step(key: str) -> str:
    """Return how a path goes on at `key`: one line, not longer than a path needs."""
    return f".{key}" if key.isidentifier() and len(key) <= 60 else f"[{json.dumps(key[:60])}]"


def surrogate_in(text: str, path: str) -> str | None:
    """Say where a lone surrogate stands; it has no UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        code = ord(text[error.start])
        return f"the text at {path} holds a lone surrogate (U+{code:04X}) at position {error.start}"
    return None


def first(troubles: Iterable[str | None]) -> str | None:
    """Return the first that is not None."""
    return next((one for one in troubles if one is not None), None)
