"""What a kind may be told: limits, retries, resume, the child's world. Defaults are CONTRACTS K16.

Durations are seconds (0 = off for deadlines, for ever for what is kept), sizes are bytes. One frozen
value, checked once at the door; deeper code receives it and never checks again.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Final

from policies.job import ENDED, Priority, Resume, State

FRAME_LIMIT: Final = 8 << 20
"""Bytes that a batch may reach; the wire's own limit, pinned equal by a test."""

UNIT_ROWS: Final = 1 << 18
"""Rows that a batch may reach; the wire's own limit, pinned equal by a test."""

LARGEST: Final = 10**9
"""No count, priority or number of seconds goes beyond it, so every one fits wherever it is stored or sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How jobs of one kind run, and how long they are kept once they have ended (`retention`)."""

    batch_rows: int = 256
    batch_bytes: int = 1 << 20
    batch_deadline: float = 0.0
    start_deadline: float = 0.0
    job_deadline: float = 0.0
    grace: float = 5.0
    max_attempts: int = 3
    backoff: float = 5.0
    backoff_max: float = 3600.0
    retry_on: tuple[str, ...] = ()
    retry_safe: bool = True
    resume: str = Resume.REPLAY
    priority: int = Priority.DEFAULT
    env: tuple[str, ...] = ()
    nice: int = 10
    keep_done: float = 0.0
    keep_failed: float = 0.0


OPTION_NAMES: Final = tuple(field.name for field in fields(Options))
DURATIONS: Final = tuple(name for name in OPTION_NAMES if isinstance(getattr(Options(), name), float))
"""The options that are seconds."""

KEPT_AS_FAILED: Final = frozenset({State.FAILED, State.FAILED_OPTIONAL})
KEPT_AS_DONE: Final = ENDED - KEPT_AS_FAILED


def retention(options: Options) -> dict[frozenset[State], float]:
    """Return for how many seconds ended jobs are kept, by state; those kept for ever are not in it."""
    kept = {KEPT_AS_DONE: options.keep_done, KEPT_AS_FAILED: options.keep_failed}
    return {states: seconds for states, seconds in kept.items() if seconds > 0}


def options_from(values: Mapping[str, Any], base: Options | None = None) -> Options:
    """Return `base` (default: all defaults) with `values` over it.

    Raises:
        ValueError: one line a complaint, all complaints at once.
    """
    base = base or Options()
    complaints = [f"unknown option {name!r}" for name in values if name not in OPTION_NAMES]
    known = {name: value for name, value in values.items() if name in OPTION_NAMES}
    for name, value in known.items():
        if complaint := complaint_about(name, value):
            complaints.append(complaint)
    if complaints:
        raise ValueError("\n".join(complaints))
    frozen: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in known.items()}
    return replace(base, **frozen)


def complaint_about(name: str, value: Any) -> str | None:
    """Say what is wrong with one option's value, or None."""
    if name in {"batch_rows", "batch_bytes", "max_attempts"}:
        if not is_int(value) or not 1 <= value <= LARGEST:
            return f"{name} must be a whole number from 1 to {LARGEST}, not {value!r}"
        if name == "batch_bytes" and value > FRAME_LIMIT:
            return f"batch_bytes {value} is over the frame limit of {FRAME_LIMIT}"
        if name == "batch_rows" and value > UNIT_ROWS:
            return f"batch_rows {value} is over the limit of {UNIT_ROWS} rows"
        return None
    if name in DURATIONS:
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= LARGEST:
            return f"{name} must be a number of seconds from 0 to {LARGEST}, not {value!r}"
        return None
    if name == "priority" and (not is_int(value) or not -LARGEST <= value <= LARGEST):
        return f"priority must be a whole number from -{LARGEST} to {LARGEST}, not {value!r}"
    if name == "nice" and (not is_int(value) or not -20 <= value <= 19):
        return f"nice must be a whole number from -20 to 19, not {value!r}"
    if name == "retry_safe" and not isinstance(value, bool):
        return f"retry_safe must be true or false, not {value!r}"
    if name == "resume" and value not in tuple(Resume):
        return f"resume must be replay, checkpoint or restart, not {value!r}"
    if name in {"retry_on", "env"} and not (
        isinstance(value, list | tuple) and all(isinstance(item, str) and item for item in value)
    ):
        return f"{name} must be a list of names, not {value!r}"
    return None


def is_int(value: object) -> bool:
    """Tell a whole number from a bool, which Python counts as one."""
    return isinstance(value, int) and not isinstance(value, bool)
