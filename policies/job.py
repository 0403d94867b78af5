"""The vocabulary of a job: states, outcomes, resume modes, error codes.

States and reasons are two vocabularies: a state says where a job is, a reason why.
Times in rows are integer microseconds UTC; durations in settings are seconds.
"""

from enum import StrEnum
from typing import Final, NamedTuple


class State(StrEnum):
    """Where a job is (SPEC U1)."""

    PENDING = "pending"
    QUEUED = "queued"
    LEASED = "leased"
    RUNNING = "running"
    DEFERRED = "deferred"
    DONE = "done"
    FAILED = "failed"
    FAILED_OPTIONAL = "failed_optional"
    SKIPPED = "skipped"
    CANCELLED = "cancelled"


IN_FLIGHT: Final = frozenset({State.LEASED, State.RUNNING})
WAITING: Final = frozenset({State.PENDING, State.QUEUED, State.DEFERRED})
ENDED: Final = frozenset(State) - IN_FLIGHT - WAITING


class Outcome(StrEnum):
    """How one attempt ended (CONTRACTS K15)."""

    DONE = "done"
    SKIPPED = "skipped"
    FAILED = "failed"
    DIED = "died"
    TIMED_OUT = "timed_out"
    MEMORY = "memory"
    CANCELLED = "cancelled"
    INTERRUPTED = "interrupted"
    YIELDED = "yielded"


class Resume(StrEnum):
    """What a new attempt does with rows that already landed (CONTRACTS K4)."""

    REPLAY = "replay"
    CHECKPOINT = "checkpoint"
    RESTART = "restart"


class Disposition(StrEnum):
    """How a compute half said that it ended when it raised (SPEC U6)."""

    RETRY = "retry"
    FAIL = "fail"
    OPTIONAL = "optional"
    SKIP = "skip"
    UNSTATED = "unstated"


class Priority:
    """Lower runs first (SPEC C72)."""

    REACTIVE: Final = 0
    INTERACTIVE: Final = 10
    DEFAULT: Final = 50
    BACKGROUND: Final = 100


def as_id(number: int) -> int:
    """Return a job's number as the store can look it up: 0, which no job has, for what is none."""
    return number if type(number) is int and 0 < number < 2**63 else 0


MICROS: Final = 1_000_000
"""Microseconds in a second: the unit of every stored time."""


class Head(NamedTuple):
    """The longest-waiting queued job of one group (kind, priority, tier, window)."""

    job: int
    kind: str
    priority: int
    waiting_since: int
    tier: str = ""
    window: int = 0
    exclusive: str | None = None

    @property
    def load_key(self) -> tuple[str, int]:
        """Return what must be loaded for it (SPEC C73)."""
        return self.tier, self.window


class InFlight(NamedTuple):
    """A leased or running job, as the gates and the next claim see it."""

    job: int
    kind: str
    tier: str = ""
    window: int = 0
    exclusive: str | None = None


class Unique(StrEnum):
    """What makes a new job the same as one that is there (SPEC U2)."""

    WAITING = "waiting"
    FOREVER = "forever"


class OnGate(StrEnum):
    """What a running job does when a gate of its kind closes."""

    FINISH = "finish"
    YIELD = "yield"


class Mode(StrEnum):
    """Where a kind's jobs run (SPEC U20)."""

    SUBPROCESS = "subprocess"
    INPROC = "inproc"
