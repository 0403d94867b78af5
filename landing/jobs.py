"""Operations on a job from enqueue to start: register, enqueue, claim, start, renew."""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from landing.cells import mapping, unreadable, whole
from landing.errors import StoreError
from landing.finish import Finish
from landing.ledger import Report
from landing.sql import queue as sql
from landing.transaction import Transaction
from policies.job import MICROS, Head, Outcome, Priority, State
from policies.options import Options
from policies.transitions import Move
from policies.verdict import Verdict

LEASE_SECONDS: Final = 60.0
WAKES: Final = 1000
"""Rows that one claim wakes at most, so that it takes milliseconds however many are due."""

NEVER: Final = 100 * 365 * 86_400 * MICROS
"""No row is told to wait so long: one that does has garbage for its wake, and is due."""


class UnknownKind(StoreError):
    """Nobody has declared this kind in this store."""

    code = "unknown_kind"


@dataclass(frozen=True, slots=True)
class Register:
    """Write down an application's kinds, so that enqueue, show, cancel and retry need no application.

    The kinds in `discards` can remove what they have landed.
    """

    app: str
    kinds: Mapping[str, Options]
    discards: frozenset[str] = frozenset()

    def apply(self, tx: Transaction) -> None:
        """Insert or update one row a kind; equal rows are left alone."""
        for kind, options in self.kinds.items():
            text = json.dumps(asdict(options), separators=(",", ":"))
            row = {"kind": kind, "app": self.app, "options": text, "now": tx.now}
            tx.run(sql.REGISTER_KIND, row | {"discards": kind in self.discards})


@dataclass(frozen=True, slots=True)
class Enqueued:
    """The answer to Enqueue. `outcome` is created (later also existing, coalesced)."""

    id: int
    outcome: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Enqueue:
    """Insert one job. `payload` is checked JSON text, `options` the job's own limits by name."""

    kind: str
    payload: str
    priority: int | None = None
    key: str | None = None
    tag: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    def apply(self, tx: Transaction) -> Enqueued:
        """Insert the row as queued.

        Raises:
            UnknownKind: the kind is not declared in this store.
        """
        if (declared := tx.one(sql.KIND, (self.kind,))) is None:
            raise UnknownKind(self.kind, f"unknown kind {self.kind!r}")
        priority = self.priority
        if priority is None:
            priority = whole((mapping(declared["options"]) or {}).get("priority"), Priority.DEFAULT)
        group = {"kind": self.kind, "priority": priority, "tier": "", "num_ctx": 0}
        row = tx.one(
            sql.ENQUEUE,
            group
            | {
                "key": self.key,
                "tag": self.tag,
                "state": State.QUEUED,
                "group": group_id(tx, group),
                "payload": self.payload,
                "options": json.dumps(dict(self.options)) if self.options else None,
                "now": tx.now,
                "wake_at": None,
                "watch": None,
            },
        )
        assert row is not None
        return Enqueued(row["id"], "created")


def group_id(tx: Transaction, group: Mapping[str, Any]) -> int:
    """Return the id of a group, making it when it is new."""
    if (row := tx.one(sql.GROUP, group)) is None:
        tx.run(sql.ADD_GROUP, group)
        row = tx.one(sql.GROUP, group)
        assert row is not None
    return int(row["id"])


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


@dataclass(frozen=True, slots=True)
class ClaimReply:
    """What a claim found: a job, and the kind of the best job that no ready child can take."""

    claimed: Claimed | None
    wanted: str | None
    next_wake: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """Take the best queued job of the `ready` kinds; `loaded` are the kinds this supervisor can run.

    `order(heads, now)` puts the heads into claim order, `fence` is 128 random bits in
    hex. One `now` stamps both ends of the lease (SPEC C83).
    """

    run: int
    pid: int
    fence: str
    ready: frozenset[str]
    loaded: frozenset[str]
    order: Callable[[Iterable[Head], int], list[Head]]

    def apply(self, tx: Transaction) -> ClaimReply:
        """Wake what is due, look at the heads of the groups, take the first that fits and can be read."""
        more_due = self.wake(tx)
        while True:
            ordered = self.order(self.heads(tx), tx.now)
            fits = next((head for head in ordered if head.kind in self.ready), None)
            claimed = None if fits is None else self.take_head(tx, fits)
            if fits is None or claimed is not None:
                break
        wanted = next((head.kind for head in ordered if head.kind not in self.ready), None)
        return ClaimReply(claimed, wanted, tx.now if more_due else self.next_wake(tx))

    def wake(self, tx: Transaction) -> bool:
        """Queue the rows whose time has come, longest due first; tell whether more may be due."""
        due = tx.run(sql.WAKE_DUE, {"now": tx.now, "most": WAKES})
        lost = tx.run(sql.WAKE_LOST, {"never": tx.now + NEVER, "most": WAKES})
        return WAKES in {due, lost}

    def next_wake(self, tx: Transaction) -> int | None:
        """Return when the next waiting row of a loaded kind wakes."""
        wake = tx.one(sql.NEXT_WAKE, {"kinds": json.dumps(sorted(self.loaded))})
        return int(wake[0]) if wake and wake[0] is not None else None

    def heads(self, tx: Transaction) -> list[Head]:
        """Return the heads of the groups that can run here; unreadable sort keys count as the defaults."""
        return [
            Head(
                row["id"],
                row["kind"],
                whole(row["priority"], Priority.DEFAULT),
                whole(row["waiting_since"], tx.now),
            )
            for row in tx.all(sql.HEADS)
            if row["kind"] in self.loaded
        ]

    def take_head(self, tx: Transaction, head: Head) -> Claimed | None:
        """Lease the row and append its attempt; a row that no attempt could use is failed: None."""
        stamp = {"job": head.job, "run": self.run, "pid": self.pid, "fence": self.fence, "now": tx.now}
        row = tx.one(sql.CLAIM, stamp | {"lease": lease_end(tx.now)})
        assert row is not None
        landed = whole(row["landed_seq"], 0)
        attempt = tx.one(sql.ADD_ATTEMPT, stamp | {"number": row["claims"], "landed_seq": landed})
        assert attempt is not None
        if (cell := unreadable(row, head.kind)) is not None:
            self.fail_unreadable(tx, row["id"], attempt["id"], cell)
            return None
        return Claimed(
            job=row["id"],
            attempt=attempt["id"],
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
        )

    def fail_unreadable(self, tx: Transaction, job: int, attempt: int, cell: str) -> None:
        """End an attempt at once because a cell of its row holds what nobody stored there."""
        tx.run(sql.MEND, {"run": None, "only": job, "fence": self.fence})
        row = tx.one(sql.ENDS, (job,))
        assert row is not None
        text = f"unreadable: {cell}"
        Finish(
            job=job,
            attempt=attempt,
            number=row["claims"],
            run=self.run,
            fence=self.fence,
            last_seq=row["landed_seq"],
            verdict=Verdict(Move.FAIL, text),
            report=Report(
                outcome=Outcome.FAILED,
                error_code="unreadable",
                error={"type": "", "message": text, "traceback": ""},
            ),
        ).apply(tx)


def lease_end(now: int) -> int:
    """Return when a lease taken or renewed at `now` runs out."""
    return now + int(LEASE_SECONDS * MICROS)


@dataclass(frozen=True, slots=True)
class Start:
    """Leased to running, when the child has entered the compute half."""

    job: int
    fence: str

    def apply(self, tx: Transaction) -> bool:
        """Return False when the fence is dead (SPEC A24)."""
        return tx.one(sql.START, {"job": self.job, "fence": self.fence, "now": tx.now}) is not None


@dataclass(frozen=True, slots=True)
class Renew:
    """Renew all leases of a run in one UPDATE; the fences stay (SPEC A22)."""

    run: int

    def apply(self, tx: Transaction) -> int:
        """Return how many leases were renewed."""
        return tx.run(sql.RENEW, {"run": self.run, "lease": lease_end(tx.now)})
