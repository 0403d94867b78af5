"""The claim: the one place where a job is taken (SPEC C79, C83, U15, U27).

wake what is due -> heads in claim order -> a gate blocks its group | held back alone | leased
"""

import json
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from landing import refuse
from landing.cells import mapping, text, unreadable, whole
from landing.enqueue import windows_of
from landing.lease import Start, lease_end
from landing.refuse import Refused, Taken
from landing.sql import queue as sql
from landing.transaction import Transaction
from policies.gates.vocabulary import Blocked
from policies.job import MICROS, Head, InFlight, Priority
from policies.verdict import Admit, Asks

WAKES: Final = 1000
"""Rows that one claim wakes at most, so that it takes milliseconds however many are due."""

ROUNDS: Final = 100
"""Times that one claim looks again because it has put a row aside; the next claim goes on."""

NEVER: Final = 100 * 365 * 86_400 * MICROS
"""No row is told to wait so long: one that does has garbage for its wake, and is due."""

EXCLUSIVE: Final = "exclusive"


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed:
    """A job under a lease, with all that its attempt needs. `awake` is seconds toward job_deadline.

    `discards` says that the rows landed so far go with the first that this attempt lands; none of them
    has landed since the job was told to start over. `landed_rows` is not 0 where that is unknown: a
    discard too many does no harm where rows land anew.
    """

    job: int
    attempt: int
    number: int
    fence: str
    kind: str
    payload: str
    key: str | None
    failures: int
    landed_seq: int
    landed_rows: int
    discards: bool
    mark: str | None
    skip: int
    digest: bytes
    awake: float
    options: Mapping[str, Any]
    tier: str = ""
    window: int = 0
    priority: int = Priority.DEFAULT

    @property
    def seen(self) -> InFlight:
        """Return it as the gates see it."""
        return InFlight(self.job, self.kind, self.tier, self.window)


@dataclass(frozen=True, slots=True)
class ClaimReply:
    """What a claim found.

    Attributes:
        claimed: the job that was taken.
        wanted: of each kind for which no child is ready the best job that may start, in claim order.
        next_wake: when the next waiting row of a loaded kind wakes, microseconds UTC.
        next_try: when the next of them has waited out its backoff.
        blocked: by kind, why its queued jobs may not start.
        groups: the kind and tier of every queued job that a gate holds back.
        held: the kinds that are held, each with the reason that was given.
        refused: jobs that were failed at once, because no attempt could use them.
    """

    claimed: Claimed | None
    wanted: tuple[Head, ...]
    next_wake: int | None
    next_try: int | None = None
    blocked: Mapping[str, tuple[Blocked, ...]] = field(default_factory=dict)
    held: Mapping[str, str] = field(default_factory=dict)
    groups: frozenset[tuple[str, str]] = frozenset()
    refused: tuple[Refused, ...] = ()


@dataclass(slots=True)
class Found:
    """What one look at the heads has come to so far."""

    claimed: Claimed | None = None
    wanted: dict[str, Head] = field(default_factory=dict)
    again: bool = False
    blocked: dict[str, tuple[Blocked, ...]] = field(default_factory=dict)
    groups: set[tuple[str, str]] = field(default_factory=set)
    refused: list[Refused] = field(default_factory=list)


def admit_all(_in_flight: Sequence[InFlight], _held: Mapping[str, str]) -> Asks:
    """Admit every head: what a claim does where nobody has gates."""
    return lambda _head: ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """Take the best queued job of the `ready` kinds; `loaded` are the kinds this supervisor can run.

    `order(heads, now)` puts the heads into claim order, `fence` is 128 random bits in
    hex. One `now` stamps both ends of the lease (SPEC C83). Jobs of the `inproc` kinds begin with it: what
    they do to the process that claims must find them begun, or the next start would give them back for ever.
    """

    run: int
    pid: int
    fence: str
    ready: frozenset[str]
    loaded: frozenset[str]
    inproc: frozenset[str] = frozenset()
    order: Callable[[Iterable[Head], int], list[Head]]
    admit: Admit = admit_all

    def apply(self, tx: Transaction) -> ClaimReply:
        """Wake what is due, look at the heads of the groups, take the first that may start."""
        more_due = self.wake(tx)
        in_flight = self.in_flight(tx)
        held = {row["kind"]: row["why"] for row in tx.all(sql.HOLDS)}
        ask = self.admit(in_flight, held)
        taken = {job.exclusive for job in in_flight if job.exclusive is not None}
        found = Found(again=True)
        more_due |= self.refuse_strangers(tx, found)
        for _ in range(ROUNDS):
            if found.claimed is not None or not found.again:
                break
            found.again, found.wanted = False, {}
            self.look(tx, ask, taken, found)
        now_again = more_due or (found.again and found.claimed is None)
        return ClaimReply(
            found.claimed,
            tuple(found.wanted.values()),
            tx.now if now_again else self.next_wake(tx),
            tx.now if now_again else self.next_wake(tx, sql.NEXT_TRY),
            found.blocked,
            held,
            frozenset(found.groups),
            tuple(found.refused),
        )

    def look(self, tx: Transaction, ask: Asks, taken: set[str], found: Found) -> None:
        """Go through the heads in order; `found.again` says that rows behind one have become heads.

        Then it stops at once: what was behind that head may go before all others.
        """
        for head in self.order(self.heads(tx), tx.now):
            if blockers := ask(head):
                found.blocked[head.kind] = blockers
                found.groups.add((head.kind, head.tier))
            elif head.exclusive is not None and head.exclusive in taken:
                aside = {"key": head.exclusive, "watch": EXCLUSIVE, "most": WAKES}
                if found.claimed is None and tx.run(sql.HOLD_BACK, aside):
                    found.again = True
                    return
            elif head.kind not in self.ready:
                found.wanted.setdefault(head.kind, head)
            elif found.claimed is None:
                found.claimed = self.take_head(tx, head, found)
                if found.claimed is None:
                    found.again = True
                    return
                if head.exclusive is not None:
                    taken.add(head.exclusive)

    def refuse_strangers(self, tx: Transaction, found: Found) -> bool:
        """Fail queued jobs of kinds that nobody has declared here; tell whether there may be more."""
        rows = tx.all(sql.STRANGERS, {"most": ROUNDS, "loaded": json.dumps(sorted(self.loaded))})
        for row in rows:
            _, taken = self.lease(tx, row["id"], row["kind"], whole(row["num_ctx"], 0))
            found.refused.append(refuse.missing(tx, taken))
        return len(rows) == ROUNDS

    def wake(self, tx: Transaction) -> bool:
        """Queue the rows whose time has come, longest due first; tell whether more may be due."""
        due = tx.run(sql.WAKE_DUE, {"now": tx.now, "most": WAKES})
        lost = tx.run(sql.WAKE_LOST, {"never": tx.now + NEVER, "most": WAKES})
        tx.run(sql.FREE_EXCLUSIVE)
        tx.run(sql.FORGET_FREED)
        return WAKES in {due, lost}

    def next_wake(self, tx: Transaction, statement: str = sql.NEXT_WAKE) -> int | None:
        """Return when the next waiting row of a loaded kind wakes."""
        wake = tx.one(statement, {"kinds": json.dumps(sorted(self.loaded))})
        return int(wake[0]) if wake and wake[0] is not None else None

    def in_flight(self, tx: Transaction) -> tuple[InFlight, ...]:
        """Return the jobs in flight; a cell that cannot be read counts as empty."""
        return tuple(
            InFlight(row["id"], row["kind"], text(row["tier"]), whole(row["num_ctx"], 0), row["exclusive"])
            for row in tx.all(sql.GROUPS_IN_FLIGHT)
        )

    def heads(self, tx: Transaction) -> list[Head]:
        """Return the heads of the groups that can run here; unreadable sort keys count as the defaults."""
        windows = windows_of(tx)  # that each tier loads now, whoever knew of it when a job was queued
        return [
            Head(
                row["id"],
                row["kind"],
                whole(row["priority"], Priority.DEFAULT),
                whole(row["waiting_since"], tx.now),
                text(row["tier"]),
                windows.get(text(row["tier"])) or whole(row["num_ctx"], 0),
                row["exclusive"],
            )
            for row in tx.all(sql.HEADS)
            if row["kind"] in self.loaded
        ]

    def lease(self, tx: Transaction, job: int, kind: str, window: int) -> tuple[sqlite3.Row, Taken]:
        """Take a queued row and append its attempt."""
        stamp = {"job": job, "run": self.run, "pid": self.pid, "fence": self.fence, "now": tx.now}
        row = tx.one(sql.CLAIM, stamp | {"lease": lease_end(tx.now), "window": window})
        assert row is not None
        landed = whole(row["landed_seq"], 0)
        attempt = tx.one(sql.ADD_ATTEMPT, stamp | {"number": row["claims"], "landed_seq": landed})
        assert attempt is not None
        return row, Taken(row["id"], kind, attempt["id"], self.run, self.fence)

    def take_head(self, tx: Transaction, head: Head, found: Found) -> Claimed | None:
        """Lease the row and append its attempt; a row that no attempt could use is failed: None."""
        row, taken = self.lease(tx, head.job, head.kind, head.window)
        if (cell := unreadable(row, head.kind)) is not None:
            found.refused.append(refuse.unreadable(tx, taken, cell))
            return None
        if head.kind in self.inproc:
            Start(head.job, self.fence).apply(tx)
        return Claimed(
            job=row["id"],
            attempt=taken.attempt,
            number=row["claims"],
            fence=self.fence,
            kind=row["kind"],
            payload=row["payload"],
            key=row["key"],
            failures=row["failures"],
            landed_seq=row["landed_seq"],
            landed_rows=whole(row["landed_rows"], 1),
            discards=row["discards"] == 1,
            mark=row["mark"],
            skip=row["skip"],
            digest=row["digest"],
            awake=max(0, whole(row["awake"], 0)) / MICROS,
            options=mapping(row["options"]) or {},
            tier=text(row["tier"]),
            window=whole(row["num_ctx"], 0),
            priority=whole(row["priority"], Priority.DEFAULT),
        )


@dataclass(frozen=True, slots=True)
class Revive:
    """Put every deferred job back in line: what there is room for has changed (SPEC U29)."""

    def apply(self, tx: Transaction) -> int:
        """Return how many there were."""
        return tx.run(sql.REVIVE)
