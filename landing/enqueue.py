"""Into the store: declare kinds, then a request becomes a job, or meets the one that it is the same as.

request --identity--> created | existing (the same for ever) | coalesced (the same waits already)
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from typing import Any, Final

from landing.cells import mapping, whole
from landing.errors import StoreError
from landing.sql import queue as sql
from landing.transaction import Transaction
from policies.identity import Request, exclusive_of, identity_of
from policies.job import Priority, State, Unique
from policies.options import Options

CREATED: Final = "created"
EXISTING: Final = "existing"
COALESCED: Final = "coalesced"


class UnknownKind(StoreError):
    """Nobody has declared this kind in this store."""

    code = "unknown_kind"


class UnknownTier(StoreError, ValueError):
    """Nobody has defined this tier for this store."""

    code = "unknown_tier"


class KeyInUse(StoreError, ValueError):
    """A job with this key and another payload waits already: to drop either would lose work."""

    code = "key_in_use"


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
            row = {"kind": kind, "app": self.app, "options": written(options), "now": tx.now}
            tx.run(sql.REGISTER_KIND, row | {"discards": kind in self.discards})


@cache
def written(options: Options) -> str:
    """Return options as a kind's row has them; an enqueue with an application declares all of its kinds."""
    return json.dumps(asdict(options), separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class RegisterTiers:
    """Write down the tiers of a run's settings, with the window that each loads, in tokens."""

    windows: Mapping[str, int]

    def apply(self, tx: Transaction) -> None:
        """Replace those of the run before."""
        tx.run(sql.SET_TIERS, (json.dumps(dict(self.windows), separators=(",", ":")),))


@dataclass(frozen=True, slots=True)
class Enqueued:
    """The answer to Enqueue. `outcome` is created, existing or coalesced."""

    id: int
    outcome: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Enqueue:
    """Ask for one job. `payload` is checked JSON text, `options` the job's own limits by name."""

    kind: str
    payload: str
    priority: int | None = None
    key: str | None = None
    tag: str | None = None
    tier: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    def apply(self, tx: Transaction) -> Enqueued:
        """Insert the row as queued, unless an equal one is there.

        Raises:
            UnknownKind: the kind is not declared in this store.
            UnknownTier: the tier is not defined for this store.
            KeyInUse: the key belongs to a waiting job with another payload.
        """
        if (row := tx.one(sql.KIND, (self.kind,))) is None:
            raise UnknownKind(self.kind, f"unknown kind {self.kind!r}")
        declared = mapping(row["options"]) or {}
        tier, window = self.loads(tx, declared)
        unique = declared.get("unique")
        request = Request(self.kind, self.payload, self.key, tier, window)
        identity = identity_of(request, unique if isinstance(unique, str) else "")
        priority = self.priority
        if priority is None:
            priority = whole(declared.get("priority"), Priority.DEFAULT)
        group = {"kind": self.kind, "priority": priority, "tier": tier, "num_ctx": window}
        if identity is not None and (met := self.met(tx, identity, unique, group)) is not None:
            return met
        return Enqueued(self.insert(tx, group, identity, declared), CREATED)

    def loads(self, tx: Transaction, declared: Mapping[str, Any]) -> tuple[str, int]:
        """Return the tier of the job and the window that it loads; raises UnknownTier."""
        row = tx.one(sql.TIERS)
        windows = mapping(row["value"]) if row is not None else None
        tier = self.tier
        if tier is None:
            tier = declared.get("tier", "")
            tier = tier if isinstance(tier, str) else ""
        elif tier and tier not in (windows or {}):
            known = ", ".join(sorted(windows or {})) or "none; a run writes down those of its settings"
            raise UnknownTier(tier, f"unknown tier {tier!r}; tiers here: {known}")
        return tier, whole((windows or {}).get(tier), 0)

    def met(
        self, tx: Transaction, identity: str, unique: str | None, group: Mapping[str, Any]
    ) -> Enqueued | None:
        """Return the answer of an equal job that is there; the first keeps its place and can only gain."""
        if unique == Unique.FOREVER:
            found = tx.one(sql.SAME_EVER, (identity,))
            return None if found is None else Enqueued(found["id"], EXISTING)
        if (found := tx.one(sql.SAME_WAITING, (identity,))) is None:
            return None
        if found["payload"] != self.payload:
            text = f"key {self.key!r} belongs to job #{found['id']}, which waits with another payload"
            raise KeyInUse(self.key or "", f"{text}; cancel it, wait for it, or use another key")
        if group["priority"] < whole(found["priority"], Priority.DEFAULT):
            better = {"job": found["id"], "priority": group["priority"], "group": group_id(tx, group)}
            tx.run(sql.PROMOTE, better)
        return Enqueued(found["id"], COALESCED)

    def insert(
        self, tx: Transaction, group: Mapping[str, Any], identity: str | None, declared: Mapping[str, Any]
    ) -> int:
        """Insert the row; return its id."""
        by = declared.get("exclusive_by")
        row = tx.one(
            sql.ENQUEUE,
            {
                **group,
                "key": self.key,
                "tag": self.tag,
                "state": State.QUEUED,
                "group": group_id(tx, group),
                "payload": self.payload,
                "options": json.dumps(dict(self.options)) if self.options else None,
                "identity": identity,
                "exclusive": exclusive_of(self.kind, self.payload, by) if isinstance(by, str) else None,
                "now": tx.now,
            },
        )
        assert row is not None
        return int(row["id"])


def group_id(tx: Transaction, group: Mapping[str, Any]) -> int:
    """Return the id of a group, making it when it is new."""
    if (row := tx.one(sql.GROUP, group)) is None:
        tx.run(sql.ADD_GROUP, group)
        row = tx.one(sql.GROUP, group)
        assert row is not None
    return int(row["id"])
