"""Into the store: declare kinds, then a request becomes a job, or meets the one that it is the same as.

request --identity--> created | existing (the same for ever) | coalesced (the same waits already)
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from typing import Any, Final

from landing.cells import mapping, text, whole
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

    The kinds in `discards` can remove what they have landed; `router` says that the application has one.
    """

    app: str
    kinds: Mapping[str, Options]
    discards: frozenset[str] = frozenset()
    router: bool = False

    def apply(self, tx: Transaction) -> None:
        """Insert or update one row a kind; equal rows are left alone."""
        for kind, options in self.kinds.items():
            row = {"kind": kind, "app": self.app, "options": written(options), "now": tx.now}
            tx.run(sql.REGISTER_KIND, row | {"discards": kind in self.discards})
        tx.run(sql.HAS_ROUTER if self.router else sql.HAS_NO_ROUTER, {"app": self.app})


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
class LearnTiers:
    """Write down tiers of somebody's settings before a run does; what a run has written down stands."""

    windows: Mapping[str, int]

    def apply(self, tx: Transaction) -> None:
        """Add those that the store does not know, or not the window of; mostly there is nothing to write."""
        known = windows_of(tx)
        learned = known | {tier: known.get(tier) or window for tier, window in self.windows.items()}
        if learned != known:
            RegisterTiers(learned).apply(tx)


def windows_of(tx: Transaction) -> dict[str, int]:
    """Return the tiers that the store knows, each with the window that it loads; 0 where none is told."""
    row = tx.one(sql.TIERS)
    found = mapping(row["value"]) if row is not None else None
    return {tier: whole(window, 0) for tier, window in (found or {}).items()}


@dataclass(frozen=True, slots=True)
class Enqueued:
    """The answer to Enqueue. `outcome` is created, existing or coalesced.

    `unheeded` says that the tier which a router advised is none that this store knows.
    """

    id: int
    outcome: str
    unheeded: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Enqueue:
    """Ask for one job. `payload` is checked JSON text, `options` the job's own limits by name.

    `advice` is the tier that a router named. It counts only where neither job nor kind says one, and is
    no part of what was asked for: the same request is the same job, whatever a router says of it.
    """

    kind: str
    payload: str
    priority: int | None = None
    key: str | None = None
    tag: str | None = None
    tier: str | None = None
    advice: str | None = None
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
        declared, windows = mapping(row["options"]) or {}, windows_of(tx)
        said, unique = self.said(declared, windows), text(declared.get("unique"))
        advised = self.advice if self.tier is None and not said else None
        unheeded = advised is not None and advised not in windows
        tier = said if advised is None or unheeded else advised
        priority = self.priority
        if priority is None:
            priority = whole(declared.get("priority"), Priority.DEFAULT)
        group = {"kind": self.kind, "priority": priority, "tier": tier, "num_ctx": windows.get(tier, 0)}
        same = self.identities(said, windows.get(said, 0), unique)
        if (met := self.met(tx, same, unique, priority)) is not None:
            return Enqueued(*met, unheeded)
        return Enqueued(self.insert(tx, group, same[0] if same else None, declared), CREATED, unheeded)

    def said(self, declared: Mapping[str, Any], windows: Mapping[str, int]) -> str:
        """Return the tier that the job or else its kind says, "" for none; raises UnknownTier."""
        if self.tier is None:
            return text(declared.get("tier"))
        if self.tier and self.tier not in windows:
            known = ", ".join(sorted(windows)) or "none; a run writes down those of its settings"
            raise UnknownTier(self.tier, f"unknown tier {self.tier!r}; tiers here: {known}")
        return self.tier

    def identities(self, tier: str, window: int, unique: str) -> list[str]:
        """Return what equal requests meet under, its own first; none where each is a job of its own.

        A request of a time when nobody knew the window of its tier counts as equal, too.
        """
        requests = [Request(self.kind, self.payload, self.key, tier, one) for one in (window, 0)]
        found = (identity_of(request, unique) for request in requests)
        return list(dict.fromkeys(one for one in found if one is not None))

    def met(self, tx: Transaction, same: Iterable[str], unique: str, priority: int) -> tuple[int, str] | None:
        """Return an equal job that is there, and how: the first keeps its place and can only gain."""
        statement = sql.SAME_EVER if unique == Unique.FOREVER else sql.SAME_WAITING
        found = next((row for one in same if (row := tx.one(statement, (one,))) is not None), None)
        if found is None or unique == Unique.FOREVER:
            return None if found is None else (found["id"], EXISTING)
        if found["payload"] != self.payload:
            said = f"key {self.key!r} belongs to job #{found['id']}, which waits with another payload"
            raise KeyInUse(self.key or "", f"{said}; cancel it, wait for it, or use another key")
        if priority < whole(found["priority"], Priority.DEFAULT):
            tier, window = text(found["tier"]), whole(found["num_ctx"], 0)
            group = {"kind": self.kind, "priority": priority, "tier": tier, "num_ctx": window}
            tx.run(sql.PROMOTE, {"job": found["id"], "priority": priority, "group": group_id(tx, group)})
        return found["id"], COALESCED

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
