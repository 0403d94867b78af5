"""A lease: how long it is, what makes its job a running one, what prolongs it (SPEC C83, C84, A22, A24)."""

from dataclasses import dataclass
from typing import Final

from landing.sql import queue as sql
from landing.transaction import Transaction
from policies.job import MICROS

LEASE_SECONDS: Final = 60.0
RENEW_SECONDS: Final = LEASE_SECONDS / 2
"""So often a run renews its leases: well within one (SPEC U44)."""


def lease_end(now: int) -> int:
    """Return when a lease taken or renewed at `now` runs out."""
    return now + int(LEASE_SECONDS * MICROS)


@dataclass(frozen=True, slots=True)
class Start:
    """Leased to running, when the child has entered the compute half; `pid` is it, None for a thread."""

    job: int
    fence: str
    pid: int | None = None

    def apply(self, tx: Transaction) -> bool:
        """Return False when the fence is dead (SPEC A24)."""
        args = {"job": self.job, "fence": self.fence, "pid": self.pid, "now": tx.now}
        return tx.one(sql.START, args) is not None


@dataclass(frozen=True, slots=True)
class Renew:
    """Renew all leases of a run in one UPDATE; the fences stay (SPEC A22)."""

    run: int

    def apply(self, tx: Transaction) -> int:
        """Return how many leases were renewed."""
        return tx.run(sql.RENEW, {"run": self.run, "lease": lease_end(tx.now)})
