"""What a kind may be told: limits, retries, resume, the child's world. Defaults are CONTRACTS K16.

Durations are seconds (0 = off for deadlines and limits, for ever for what is kept), sizes are bytes.
One frozen value, checked once at the door; deeper code receives it and never checks again.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from typing import Any, Final

from policies.gates.vocabulary import CHOSEN
from policies.job import ENDED, Mode, OnGate, Priority, Resume, State, Unique

FRAME_LIMIT: Final = 8 << 20
"""Bytes that a batch may reach; the wire's own limit, pinned equal by a test."""

UNIT_ROWS: Final = 1 << 18
"""Rows that a batch may reach; the wire's own limit, pinned equal by a test."""

LARGEST: Final = 10**9
"""No count, priority or number of seconds goes beyond it, so every one fits wherever it is stored or sent."""

LARGEST_SIZE: Final = 10**15
"""Bytes that a limit may reach: beyond any machine, and still exact as a float."""

LEAST_MEMORY: Final = 32_000_000
"""Bytes; a child that has loaded an empty application holds 17 MB, under this by a test."""

LEAST_OPEN_FILES: Final = 64
"""A bare child starts with 7, but what it imports opens pools, sockets and libraries of its own."""

LEAST_FILE_SIZE: Final = 64 << 10
"""Bytes; a child's stacks are dumped to a file of up to so many, and a lower limit would cut them."""

NAME_LIMIT: Final = 128

LEAST_CPU: Final = 1.0
"""Seconds; the kernel counts CPU limits in whole ones."""


class Spawn(StrEnum):
    """How children come to be: `auto` forks a template where that is safe, `cold` starts each anew."""

    AUTO = "auto"
    COLD = "cold"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How jobs of one kind run, and how long they are kept once they have ended (`retention`).

    Those from `env` to `spawn` make the child's world: they are of the kind, never of one job.

    Attributes:
        batch_rows: rows that a batch may hold.
        batch_bytes: bytes that a batch may hold.
        batch_deadline: seconds until the next batch.
        start_deadline: seconds until the first row.
        job_deadline: awake seconds of all attempts since the last retry.
        grace: seconds between SIGTERM and SIGKILL.
        memory_limit: bytes that the job's process and all that it has started may hold together.
        max_attempts: attempts that may fail.
        backoff: seconds before the second attempt; doubles with each failure.
        backoff_max: seconds that a backoff grows to.
        retry_on: names of exception classes, module.qualname, builtins bare.
        retry_safe: may run again after it died or was killed.
        resume: a `Resume`.
        priority: lower runs first.
        mode: a `Mode`.
        tier: what must be loaded for it, by a name of the settings' `[tiers]`; "" for nothing.
        unique: a `Unique`, or None where each request is a job of its own.
        max_running: jobs of the kind that may be in flight at once.
        exclusive_by: the field of the payload by which two jobs of the kind never run at once.
        gates: names of `policies.gates` that hold it back; None for those of its tier.
        on_gate: an `OnGate`.
        env: environment variables passed besides those that every child gets.
        nice: added to the child's niceness.
        network: False seals the child off: it reaches loopback and unix sockets only.
        shield: True has the kernel refuse it the store and signals to the supervisor.
        process_limit: processes that a job may be at once, its own included.
        cpu_limit: CPU seconds of the job's own process, 1 or more.
        open_files_limit: descriptors that each of its processes may have.
        file_size_limit: bytes that each file it writes may reach.
        jobs_per_child: jobs that one child may run, one after another.
        spawn: a `Spawn`.
        keep_done: seconds to keep done, skipped and cancelled jobs.
        keep_failed: seconds to keep failed and failed_optional jobs.
    """

    batch_rows: int = 256
    batch_bytes: int = 1 << 20
    batch_deadline: float = 0.0
    start_deadline: float = 0.0
    job_deadline: float = 0.0
    grace: float = 5.0
    memory_limit: int = 0
    max_attempts: int = 3
    backoff: float = 5.0
    backoff_max: float = 3600.0
    retry_on: tuple[str, ...] = ()
    retry_safe: bool = True
    resume: str = Resume.REPLAY
    priority: int = Priority.DEFAULT
    mode: str = Mode.SUBPROCESS
    tier: str = ""
    unique: str | None = None
    max_running: int = 0
    exclusive_by: str = ""
    gates: tuple[str, ...] | None = None
    on_gate: str = OnGate.FINISH
    env: tuple[str, ...] = ()
    nice: int = 10
    network: bool = True
    shield: bool = False
    process_limit: int = 0
    cpu_limit: float = 0.0
    open_files_limit: int = 0
    file_size_limit: int = 0
    jobs_per_child: int = 1
    spawn: str = Spawn.AUTO
    keep_done: float = 0.0
    keep_failed: float = 0.0


OPTION_NAMES: Final = tuple(field.name for field in fields(Options))
DURATIONS: Final = tuple(name for name in OPTION_NAMES if isinstance(getattr(Options(), name), float))
"""The options that are seconds."""
SIZES: Final = ("batch_bytes", "memory_limit", "file_size_limit")
"""The options that are bytes."""

RANGES: Final[Mapping[str, tuple[int, int]]] = {
    "batch_rows": (1, LARGEST),
    "batch_bytes": (1, LARGEST),
    "max_attempts": (1, LARGEST),
    "jobs_per_child": (1, LARGEST),
    "priority": (-LARGEST, LARGEST),
    "nice": (-20, 19),
    "max_running": (0, LARGEST),
    "memory_limit": (0, LARGEST_SIZE),
    "process_limit": (0, LARGEST),
    "open_files_limit": (0, LARGEST),
    "file_size_limit": (0, LARGEST_SIZE),
}
"""What whole numbers may be: the lowest and the highest."""
FLOORS: Final[Mapping[str, tuple[float, str]]] = {
    "memory_limit": (LEAST_MEMORY, f"the {LEAST_MEMORY} bytes that a child needs before it does any work"),
    "open_files_limit": (LEAST_OPEN_FILES, f"the {LEAST_OPEN_FILES} files that a child may need for itself"),
    "file_size_limit": (LEAST_FILE_SIZE, f"the {LEAST_FILE_SIZE} bytes that a hung child's stacks may take"),
    "cpu_limit": (LEAST_CPU, "1 second, the least that the system can count"),
}
"""Below these a limit that is not off only stops what is healthy: the least, and why."""
CHOICES: Final[Mapping[str, tuple[str, ...]]] = {
    "resume": tuple(Resume),
    "spawn": tuple(Spawn),
    "mode": tuple(Mode),
    "unique": tuple(Unique),
    "on_gate": tuple(OnGate),
}
NAMES: Final = frozenset({"tier", "exclusive_by"})
OPTIONAL: Final = frozenset({"unique", "gates"})
"""The options that may be None."""
TRUTHS: Final = frozenset({"retry_safe", "network", "shield"})
LISTS: Final = frozenset({"retry_on", "env", "gates"})

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


def readable_options(values: Mapping[str, Any], base: Options) -> Options:
    """Return `base` with those of `values` over it that this version knows and accepts.

    It reads what a store says, where an older or newer version may have written it: what that one
    did not know stays as it is in `base`, and what is not known here takes nothing else with it.
    """
    known = {name: value for name, value in values.items() if name in OPTION_NAMES}
    good = {name: value for name, value in known.items() if complaint_about(name, value) is None}
    return options_from(good, base) if good else base


def complaint_about(name: str, value: Any) -> str | None:
    """Say what is wrong with one option's value, or None."""
    if value is None and name in OPTIONAL:
        return None
    if name in NAMES and not (isinstance(value, str) and len(value) <= NAME_LIMIT and value.isprintable()):
        return f"{name} must be a name of at most {NAME_LIMIT} characters, not {value!r}"
    if name in RANGES:
        return complaint_about_number(name, value)
    if name in DURATIONS:
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= LARGEST:
            return f"{name} must be a number of seconds from 0 to {LARGEST}, not {value!r}"
        return complaint_about_floor(name, value)
    if name in TRUTHS and not isinstance(value, bool):
        return f"{name} must be true or false, not {value!r}"
    if name in CHOICES and value not in CHOICES[name]:
        *others, last = CHOICES[name]
        return f"{name} must be {', '.join(others)} or {last}, not {value!r}"
    if name in LISTS and not (
        isinstance(value, list | tuple) and all(isinstance(item, str) and item for item in value)
    ):
        return f"{name} must be a list of names, not {value!r}"
    if name == "gates" and (unknown := sorted(set(value) - set(CHOSEN))):
        return f"gates must be from {', '.join(CHOSEN)}, not {', '.join(map(repr, unknown))}"
    return None


def complaint_about_number(name: str, value: Any) -> str | None:
    """Say why a whole number is none, is out of its range, or could never work."""
    low, high = RANGES[name]
    if not is_int(value) or not low <= value <= high:
        unit = " of bytes" if name in SIZES else ""
        return f"{name} must be a whole number{unit} from {low} to {high}, not {value!r}"
    if name == "batch_bytes" and value > FRAME_LIMIT:
        return f"batch_bytes {value} is over the frame limit of {FRAME_LIMIT}"
    if name == "batch_rows" and value > UNIT_ROWS:
        return f"batch_rows {value} is over the limit of {UNIT_ROWS} rows"
    return complaint_about_floor(name, value)


def complaint_about_floor(name: str, value: float) -> str | None:
    """Say why a limit, unless it is off, would only stop what is healthy."""
    least, why = FLOORS.get(name, (0, ""))
    return f"{name} {value} is under {why}; raise it, or switch it off with 0" if 0 < value < least else None


def is_int(value: object) -> bool:
    """Tell a whole number from a bool, which Python counts as one."""
    return isinstance(value, int) and not isinstance(value, bool)
