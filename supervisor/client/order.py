"""What is ordered with an enqueue: the kinds to declare and the jobs, checked before anything is written."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypedDict

from landing.enqueue import Enqueue, Enqueued, KeyInUse, Register, UnknownKind, UnknownTier
from landing.transaction import Operation, Transaction
from policies.options import complaint_about
from supervisor.api import App
from supervisor.application import Application, discarding, lanes_of
from supervisor.errors import OptionRefused
from supervisor.tiers import ruled
from supervisor.told.spelling import did_you_mean

OWN_LIMITS: Final = ("batch_deadline", "start_deadline", "job_deadline", "memory_limit")
LABELS: Final[Mapping[str, int]] = {"tag": 128, "key": 1000}
"""The options that are a text, with the characters that it may have."""


class EnqueueOptions(TypedDict, total=False):
    """What a job may bring of its own; deadlines in seconds, memory in bytes, 0 switches one off.

    A job with a `key` waits only once: a second one with it and the same payload is coalesced. `tier` names
    what must be loaded for it instead of what its kind says, "" for nothing.
    """

    priority: int
    key: str
    tier: str
    tag: str
    batch_deadline: float
    start_deadline: float
    job_deadline: float
    memory_limit: int


@dataclass(frozen=True, slots=True)
class JobRef:
    """A job in the store.

    `outcome` is `created`; `coalesced`, where the same waited already; `existing`, where the kind does the
    same only once for ever, whatever has become of it. `warning` says why the application's router, which
    was asked for its tier, did not decide it; "" where it did, or was not asked.
    """

    id: int
    outcome: str
    warning: str = ""


@dataclass(frozen=True, slots=True)
class EnqueueAll:
    """Declare kinds and tiers, then insert jobs: all or nothing, in one transaction."""

    declare: tuple[Operation[None], ...]
    jobs: tuple[Enqueue, ...]

    def apply(self, tx: Transaction) -> list[Enqueued]:
        """Return the answers in order.

        Raises:
            UnknownKind: a job's kind is declared nowhere; nothing was inserted.
            UnknownTier: the tier that they name is defined nowhere; likewise.
            KeyInUse: the key belongs to a waiting job with another payload; likewise.
        """
        for each in self.declare:
            each.apply(tx)
        try:
            return [job.apply(tx) for job in self.jobs]
        except KeyInUse as error:
            raise key_in_use(error, self.jobs) from None


def registers(app: App | Application | None) -> Iterator[Register]:
    """Yield what declares an application's kinds in a store."""
    if isinstance(app, Application):
        yield from app.declarations()
    elif app is not None:
        limits = {kind: ruled(kind, lane.options, lane.declared) for kind, lane in lanes_of(app)}
        yield Register(app.name, limits, discarding(app), router=app.adviser is not None)


def job_of(kind: str, payload: str, options: Mapping[str, Any]) -> Enqueue:
    """Check one job's options and return the operation that inserts it.

    Raises:
        OptionRefused: all that are unknown or have a bad value.
    """
    if complaints := list(complaints_about(options)):
        raise OptionRefused(complaints)
    own = {name: options[name] for name in OWN_LIMITS if name in options}
    return Enqueue(
        kind=kind,
        payload=payload,
        priority=options.get("priority"),
        key=options.get("key"),
        tag=options.get("tag"),
        tier=options.get("tier"),
        options=own,
    )


def unknown_kind(kind: str, known: Iterable[str]) -> UnknownKind:
    """Return the error for a kind that is not among the `known` ones."""
    hint = did_you_mean(kind, known := sorted(known))
    return UnknownKind(kind, f'unknown kind "{kind}"{hint}; kinds here: {", ".join(known)}')


def unknown_tier(error: UnknownTier, known: Iterable[str]) -> UnknownTier:
    """Return the error with a guess at which of the `known` ones was meant."""
    return UnknownTier(error.subject, f"{error}{did_you_mean(error.subject, known)}")


def key_in_use(error: KeyInUse, jobs: Sequence[Enqueue]) -> KeyInUse:
    """Return the error; one that several payloads share may have met the first of them, which is not kept."""
    payloads = len({job.payload for job in jobs})
    if payloads == 1:
        return error
    text = f"key {error.subject!r} stands for one waiting job, not for {payloads} payloads"
    return KeyInUse(error.subject, f"{text}; nothing was queued")


def complaints_about(options: Mapping[str, Any]) -> Iterator[str]:
    """Say what is wrong with a job's options, one line each."""
    for name, value in options.items():
        if (most := LABELS.get(name)) is not None:
            if not isinstance(value, str) or not 0 < len(value) <= most or not value.isprintable():
                yield f"{name} must be 1 to {most} printable characters, not {value!r:.200}"
        elif name not in {"priority", "tier", *OWN_LIMITS}:
            yield f"a job has no option {name!r}{did_you_mean(name, EnqueueOptions.__annotations__)}"
        elif complaint := complaint_about(name, value):
            yield complaint
