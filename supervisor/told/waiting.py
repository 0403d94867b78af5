"""Who waits, by kind and by what holds them: every reason, the one that is shown first (SPEC U27).

queued rows of a kind:   held kind, closed gates | no run, not loaded, no slot free
rows of their own wait:  backoff, held, exclusive, deferred | held kind, no run
"""

from collections.abc import Container, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from landing import views
from policies.job import MICROS
from supervisor.told.reasons import GUESSES, UNTIL, Room, Wait, closed_gates, in_words, of_kind, why_queued

if TYPE_CHECKING:
    from sqlite3 import Connection


class Run(NamedTuple):
    """What is known of the run that has to do with waiting.

    Attributes:
        live: a supervisor holds the store.
        row: its run's, {} where none has begun.
        running: jobs in flight.
        ending: it was asked to stop.
        stopped: by kind, the code for which it claims no more.
        on_threads: kinds of jobs that run on a thread now.
    """

    live: bool
    row: Mapping[str, Any]
    running: int
    ending: bool
    stopped: Mapping[str, str]
    on_threads: Container[str] = ()

    @property
    def slots(self) -> int | None:
        """Return how many of its jobs may run at once, None where it does not say."""
        slots = self.row.get("slots")
        return slots if type(slots) is int and slots > 0 else None

    def room(self, kind: str) -> Room:
        """Return what it says of itself and a kind."""
        kinds = self.row.get("kinds")
        return Room(None if kinds is None else kind in kinds, self.slots)


def waiting_facts(db: "Connection", now: int, run: Run, holds: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the groups; counts stop at 1,000 each. `holds` are the kinds that are held, and why.

    `reasons` are all that hold one; `reason`, `text` and `until` are those of the first.
    """
    declared = views.declared(db)

    def closed(kind: str) -> list[Wait]:
        return list(of_kind(kind, holds, declared))

    groups = [
        {
            "kind": row["kind"],
            "jobs": row["jobs"],
            "oldest_s": round(max(0, now - row["oldest"]) / MICROS, 1),
            "reasons": list(why_kind_waits(row["kind"], now - row["oldest"], run, closed(row["kind"]))),
        }
        for row in views.waiting(db)
    ]
    groups += [
        {
            "kind": row["kind"],
            "jobs": row["jobs"],
            "wakes_s": None if row["wake_at"] is None else round(max(0, row["wake_at"] - now) / MICROS, 1),
            "reasons": [own, *closed(row["kind"]), *beside(run)],
        }
        for row, own in with_reasons(db)
    ]
    return [
        {**group, **group["reasons"][0]._asdict(), "reasons": [one._asdict() for one in group["reasons"]]}
        for group in groups
    ]


def why_kind_waits(kind: str, waited: int, run: Run, closed: list[Wait]) -> Iterator[Wait]:
    """Yield what holds the queued jobs of a kind: `closed` does, whoever runs. `waited` is microseconds."""
    if not run.ending:
        closed = [*closed, *closed_gates(run.row, kind)]
    yield from closed
    why = why_queued(
        live=run.live,
        running=run.running,
        waited=waited,
        ending=run.ending,
        stopped=run.stopped.get(kind, ""),
        room=run.room(kind),
    )
    if why == "queued" and kind in run.on_threads:
        why = "thread_busy"
    if not (closed and why in GUESSES | {"queued"}):
        yield Wait(why, in_words(why, run.running), UNTIL.get(why))


def beside(run: Run) -> Iterator[Wait]:
    """Yield what holds jobs beside a reason of their own or of their kind."""
    if not run.live:
        yield Wait("no_supervisor", in_words("no_supervisor", run.running))


def with_reasons(db: "Connection") -> Iterator[tuple[dict[str, Any], Wait]]:
    """Yield the groups of rows that wait for a reason of their own, each with it."""
    pending = views.pending(db)
    before = views.exclusive(db) if any(row["reason"] == "exclusive" for row in pending) else {}
    for row in pending:
        reason = row["reason"] if isinstance(row["reason"], str) else "pending"
        first = f"#{before[row['kind']]}" if row["kind"] in before else ""
        match reason:
            case "exclusive" if first:
                yield row, Wait(reason, f"may not run beside {first}", f"{first} ends")
            case "held":
                yield row, Wait(reason, "held", "unhold")
            case _:
                yield row, Wait(reason, in_words(reason, 0))
    for row in views.deferred(db):
        reason = row["reason"] if isinstance(row["reason"], str) else "deferred"
        yield row, Wait("deferred", f"deferred: {reason}" if reason != "deferred" else reason)
