"""What is ordered with an enqueue: the kinds to declare and the jobs, checked before anything is written."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypedDict

from landing.jobs import Enqueue, Enqueued, Register
from landing.transaction import Transaction
from policies.options import complaint_about
from supervisor.api import App
from supervisor.application import Application, discarding
from supervisor.errors import OptionRefused
from supervisor.told.spelling import did_you_mean

OWN_LIMITS: Final = ("batch_deadline", "start_deadline", "job_deadline", "memory_limit")


class EnqueueOptions(TypedDict, total=False):
    """What a job may bring of its own; deadlines in seconds, memory in bytes, 0 switches one off."""

    priority: int
    tag: str
    batch_deadline: float
    start_deadline: float
    job_deadline: float
    memory_limit: int


@dataclass(frozen=True, slots=True)
class JobRef:
    """A job in the store; `outcome` is `created`, or `existing` for one that was there."""

    id: int
    outcome: str


@dataclass(frozen=True, slots=True)
class EnqueueAll:
    """Declare kinds, then insert jobs: all or nothing, in one transaction."""

    declare: tuple[Register, ...]
    jobs: tuple[Enqueue, ...]

    def apply(self, tx: Transaction) -> list[Enqueued]:
        """Return the answers in order.

        Raises:
            UnknownKind: a job's kind is declared nowhere; nothing was inserted.
        """
        for register in self.declare:
            register.apply(tx)
        return [job.apply(tx) for job in self.jobs]


def registers(app: App | Application | None) -> Iterator[Register]:
    """Yield what declares an application's kinds in a store."""
    if isinstance(app, Application):
        yield from app.declarations()
    elif app is not None:
        limits = {kind: lane.options for kind, lane in app.lanes.items()}
        yield Register(app.name, limits, discarding(app))


def job_of(kind: str, payload: str, options: Mapping[str, Any]) -> Enqueue:
    """Check one job's options and return the operation that inserts it.

    Raises:
        OptionRefused: all that are unknown or have a bad value.
    """
    if complaints := list(complaints_about(options)):
        raise OptionRefused(complaints)
    own = {name: options[name] for name in OWN_LIMITS if name in options}
    return Enqueue(
        kind=kind, payload=payload, priority=options.get("priority"), tag=options.get("tag"), options=own
    )


def complaints_about(options: Mapping[str, Any]) -> Iterator[str]:
    """Say what is wrong with a job's options, one line each."""
    for name, value in options.items():
        if name == "tag":
            if not isinstance(value, str) or not 0 < len(value) <= 128 or not value.isprintable():
                yield f"tag must be 1 to 128 printable characters, not {value!r}"
        elif name not in {"priority", *OWN_LIMITS}:
            yield f"a job has no option {name!r}{did_you_mean(name, EnqueueOptions.__annotations__)}"
        elif complaint := complaint_about(name, value):
            yield complaint
