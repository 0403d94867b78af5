"""Holding from outside: a job, or a whole kind, waits until somebody says otherwise (SPEC U27).

pending, queued, deferred --hold--> pending (held) --unhold--> where it was
A kind that is held blocks its groups: its rows stay queued, those that come later too (CONTRACTS K14).
"""

from dataclasses import dataclass

from landing.cells import is_whole
from landing.errors import JobNotFound, waits_no_more
from landing.ledger import add_event
from landing.sql import control as sql
from landing.text import clean
from landing.transaction import Transaction
from policies.job import State, as_id


@dataclass(frozen=True, slots=True)
class Changed:
    """What became of a hold or unhold: the row's state now, and whether anything changed."""

    id: int
    state: str
    changed: bool


@dataclass(frozen=True, slots=True)
class Hold:
    """Have a waiting job wait on; one that is held already stays as it is."""

    job: int

    def apply(self, tx: Transaction) -> Changed:
        """Hold it, and keep when it would have woken by itself.

        Raises:
            JobNotFound: no such job.
            InvalidTransition: it is in flight, or has ended.
        """
        if (row := tx.one(sql.WATCH, (as_id(self.job),))) is None:
            raise JobNotFound(self.job)
        if row["watch"] == "held":
            return Changed(self.job, row["state"], changed=False)
        if (held := tx.one(sql.HOLD, {"job": self.job})) is None:
            raise waits_no_more(self.job, row["state"], "held", "cancel it, or hold its kind")
        add_event(tx, self.job, None, "held_job")
        return Changed(self.job, held["state"], changed=True)


@dataclass(frozen=True, slots=True)
class Unhold:
    """Let a held job go on waiting for its turn; one that is not held stays as it is."""

    job: int

    def apply(self, tx: Transaction) -> Changed:
        """Queue it, or have it wait for the rest of its backoff.

        Raises:
            JobNotFound: no such job.
        """
        if (row := tx.one(sql.WATCH, (as_id(self.job),))) is None:
            raise JobNotFound(self.job)
        if row["watch"] != "held" or row["state"] != State.PENDING:
            return Changed(self.job, row["state"], changed=False)
        wake = row["wake"]
        if is_whole(wake) and wake > tx.now:
            back = tx.one(sql.BACK_TO_BACKOFF, {"job": self.job, "wake_at": wake})
        else:
            back = tx.one(sql.UNHOLD, {"job": self.job})
        assert back is not None
        add_event(tx, self.job, None, "unheld_job")
        return Changed(self.job, back["state"], changed=True)


@dataclass(frozen=True, slots=True)
class HoldKind:
    """Start no job of a kind until it is let go; `why` is shown wherever one waits."""

    kind: str
    why: str = ""

    def apply(self, tx: Transaction) -> bool:
        """Return False where the kind was held already; the newest reason stands."""
        args = {"kind": self.kind, "why": clean(self.why), "now": tx.now}
        is_new = tx.one(sql.IS_HELD, (self.kind,)) is None
        tx.run(sql.HOLD_KIND, args)
        add_event(tx, None, None, "held_kind", {"kind": self.kind, "why": self.why})
        return is_new


@dataclass(frozen=True, slots=True)
class UnholdKind:
    """Let a kind go."""

    kind: str

    def apply(self, tx: Transaction) -> bool:
        """Return False where it was not held."""
        if not tx.run(sql.UNHOLD_KIND, (self.kind,)):
            return False
        add_event(tx, None, None, "unheld_kind", {"kind": self.kind})
        return True
