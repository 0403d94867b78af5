"""Operations on a job from enqueue to start: register, enqueue, claim, start, renew."""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from landing import sql
from landing.errors import StoreError
from landing.transaction import Transaction
from policies.job import MICROS, Head, Priority, State
from policies.options import Options

LEASE_SECONDS = 60.0


class UnknownKind(StoreError):
    """Nobody has declared this kind in this store."""

    code = "unknown_kind"


@dataclass(frozen=True, slots=True)
class Register:
    """Write down an application's kinds, so that enqueue, show and cancel need no application."""

    app: str
    kinds: Mapping[str, Options]

    def apply(self, tx: Transaction) -> None:
        """Insert or update one row a kind; equal rows are left alone."""
        for kind, options in self.kinds.items():
            text = json.dumps(asdict(options), separators=(",", ":"))
            tx.run(sql.REGISTER_KIND, {"kind": kind, "app": self.app, "options": text, "now": tx.now})


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
            priority = int(json.loads(declared["options"]).get("priority", Priority.DEFAULT))
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
    """A job under a lease, with all that its attempt needs. `awake` is seconds toward job_deadline."""

    job: int
    attempt: int
    number: int
    fence: str
    kind: str
    payload: str
    key: str | None
    failures: int
    landed_seq: int
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
        """Wake what is due, look at the heads of the groups, take the first that fits."""
        tx.run(sql.WAKE_DUE, {"now": tx.now})
        heads = [
            Head(row["id"], row["kind"], row["priority"], row["waiting_since"])
            for row in tx.all(sql.HEADS)
            if row["kind"] in self.loaded
        ]
        ordered = self.order(heads, tx.now)
        fits = next((head for head in ordered if head.kind in self.ready), None)
        wanted = next((head.kind for head in ordered if head.kind not in self.ready), None)
        claimed = self.take_head(tx, fits) if fits is not None else None
        wake = tx.one(sql.NEXT_WAKE, {"kinds": json.dumps(sorted(self.loaded))})
        return ClaimReply(claimed, wanted, wake[0] if wake else None)

    def take_head(self, tx: Transaction, head: Head) -> Claimed:
        """Lease the row and append its attempt."""
        stamp = {"job": head.job, "run": self.run, "pid": self.pid, "fence": self.fence, "now": tx.now}
        row = tx.one(sql.CLAIM, stamp | {"lease": lease_end(tx.now)})
        assert row is not None
        attempt = tx.one(sql.ADD_ATTEMPT, stamp | {"number": row["claims"], "landed_seq": row["landed_seq"]})
        assert attempt is not None
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
            mark=row["mark"],
            skip=row["skip"],
            digest=row["digest"],
            awake=row["awake"] / MICROS,
            options=json.loads(row["options"]) if row["options"] else {},
        )


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
