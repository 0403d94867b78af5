"""A wall clock that was set: waits that were counted on it keep their length (CONTRACTS K10)."""

from dataclasses import dataclass

from landing.claim import NEVER
from landing.lease import Renew
from landing.ledger import add_event
from landing.sql import runs as sql
from landing.transaction import Transaction


@dataclass(frozen=True, slots=True)
class ShiftWaits:
    """Move the ends of all backoffs by `by` microseconds, and renew the leases of `run`.

    The clock was set at `since` or later, as it reads now: what began to wait after that is
    right already.
    """

    run: int
    by: int
    since: int

    def apply(self, tx: Transaction) -> int:
        """Return how many waits were moved; an event keeps it."""
        args = {"by": self.by, "since": self.since, "now": tx.now, "never": tx.now + NEVER}
        moved = tx.run(sql.SHIFT_WAITS, args) + tx.run(sql.SHIFT_KEPT, args)
        Renew(self.run).apply(tx)
        add_event(tx, None, self.run, "clock_set", {"by_s": self.by / 1e6, "waits": moved})
        return moved


def clamp_waits(tx: Transaction, run: int) -> int:
    """Let backoffs that are counted from a time to come begin now; return how many, which an event keeps.

    The clock was set back while no supervisor ran, and nobody knows by how much: so much is
    sure that none of them should be longer than it was. What waits for room in memory (deferred) waits for
    no time at all: it is due where a run begins, whatever the clock reads.
    """
    args = {"now": tx.now, "never": tx.now + NEVER}
    tx.run(sql.LOOK_AGAIN, args)
    if clamped := tx.run(sql.CLAMP_WAITS, args) + tx.run(sql.CLAMP_KEPT, args):
        add_event(tx, None, run, "clock_set", {"by_s": None, "waits": clamped})
    return clamped
