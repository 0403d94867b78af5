"""What makes a request the same as an earlier one (SPEC A9, C74-C78, U2, U39).

forever: the same kind, key and content are one job, whatever has become of it
waiting: the same text waits only once; a key alone stands for the text
"""

import hashlib
import json
from typing import Any, Final, NamedTuple

from policies.job import Unique

LONGEST: Final = 200
"""Characters of what a job may not run beside; a longer one is stored as its digest."""


class Request(NamedTuple):
    """What was asked for: `payload` is JSON text as it will be stored."""

    kind: str
    payload: str
    key: str | None = None
    tier: str = ""
    window: int = 0


def identity_of(request: Request, unique: str) -> str | None:
    """Return the digest under which equal requests meet, None where each is a job of its own.

    Args:
        request: what was asked for.
        unique: the kind's, a `Unique` or ""; a key alone means waiting.

    What is the same for ever stays so when its tier is told another window.
    """
    kind, payload, key, tier, window = request
    if unique == Unique.FOREVER:
        return digest(Unique.FOREVER, kind, key, canonical(payload), tier)
    if key is not None:
        return digest(Unique.WAITING, kind, key, None, tier, window)
    return digest(Unique.WAITING, kind, None, payload, tier, window) if unique == Unique.WAITING else None


def canonical(payload: str) -> str:
    """Return JSON text in the one form that equal content has."""
    return json.dumps(json.loads(payload), sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def digest(*parts: Any) -> str:
    """Return a SHA-256 over parts that cannot run into each other, in hex."""
    return hashlib.sha256(json.dumps(parts, ensure_ascii=False).encode("utf-8", "surrogatepass")).hexdigest()


def exclusive_of(kind: str, payload: str, field: str) -> str | None:
    """Return what a job may not run beside: its kind with one field of its payload, None without it."""
    content = json.loads(payload)
    if not field or not isinstance(content, dict) or field not in content:
        return None
    value = json.dumps(content[field], sort_keys=True, separators=(",", ":"))
    return f"{kind} {value if len(value) <= LONGEST else digest(value)}"
