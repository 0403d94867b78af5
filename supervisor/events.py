"""What happens in a run, as values; sentences are made of them in one place (`supervisor.cli.lines`)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class RunStarted:
    """A supervisor holds the store and has begun.

    `died` are the runs before it that did not end as they should; `recovered` are the ids of the
    jobs that were left in flight, of which `failed` and `cancelled` have ended, the others wait again.
    """

    run: int
    pid: int
    workers: int
    app: str
    recovered: tuple[int, ...]
    died: tuple[int, ...] = ()
    failed: tuple[int, ...] = ()
    cancelled: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class JobStarted:
    """A child entered the compute half."""

    job: int
    kind: str
    attempt: int


@dataclass(frozen=True, slots=True)
class BatchLanded:
    """A batch was committed. `rows` and `batches` are this attempt's; done and total as the child said."""

    job: int
    kind: str
    rows: int
    batches: int
    done: int | None
    total: int | None


@dataclass(frozen=True, slots=True)
class AttemptEnded:
    """An attempt has its receipt. `state` and `reason` are the job's now; `error` is one line or ""."""

    job: int
    kind: str
    attempt: int
    outcome: str
    state: str
    reason: str
    error: str
    kill: Mapping[str, Any] | None
    rows: int
    wake_at: int | None


@dataclass(frozen=True, slots=True)
class StaleBatch:
    """A batch met a dead fence; nothing changed."""

    job: int
    seq: int


@dataclass(frozen=True, slots=True)
class Pruned:
    """Jobs that had ended long enough ago are gone, with their attempts; `freed` bytes were given back."""

    jobs: int
    attempts: int
    freed: int


@dataclass(frozen=True, slots=True)
class Warned:
    """Something a person should know: a code and one line."""

    code: str
    text: str


@dataclass(frozen=True, slots=True)
class Waits:
    """Jobs of a kind wait for a gate: its name, why, and what ends it ("" where nobody can say)."""

    kind: str
    gate: str
    text: str
    until: str = ""


@dataclass(frozen=True, slots=True)
class Stopping:
    """A stop was asked for; `now` means without waiting for yields.

    Otherwise `jobs` are waited for, at most so many seconds.
    """

    now: bool
    jobs: tuple[int, ...] = ()
    patience: float = 0.0


Event = RunStarted | JobStarted | BatchLanded | AttemptEnded | StaleBatch | Pruned | Warned | Waits | Stopping
Report = Callable[[Event], None]
