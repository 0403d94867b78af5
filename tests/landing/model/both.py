"""A real store and the plain model side by side, and that they agree after each step."""

import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant

from landing.batches import Discard
from landing.claim import Claimed
from landing.connect import open_writer, store_path
from landing.enqueue import Register, RegisterTiers
from landing.transaction import Operation, committing
from tests.landing.model.facts import agree
from tests.landing.model.plain import Plain
from tests.landing.model.row import CAN_DISCARD, KINDS, WINDOWS, Job
from tests.landing.stand import Stand


class Connected(Stand):
    """The stand on one connection, so that a step costs no opening."""

    def __init__(self, home: Path) -> None:
        super().__init__(home)
        self.reach()

    def reach(self) -> None:
        """Connect; no step here loses power, so none waits for the disk."""
        self.db = open_writer(store_path(self.home))
        self.db.execute("PRAGMA synchronous = OFF")

    def write(self, operation: Operation[Any]) -> Any:
        self.db.execute("BEGIN IMMEDIATE")
        with committing(self.db, lambda: self.now) as tx:
            return operation.apply(tx)

    def reopen(self) -> None:
        self.db.close()
        self.reach()


@cache
def furnished() -> bytes:
    """A store to begin with: the kinds, the table for rows, and a first run."""
    with tempfile.TemporaryDirectory() as folder:
        stand = Stand(Path(folder) / "home").furnish()
        stand.write(Register("app", KINDS, CAN_DISCARD))
        stand.write(RegisterTiers(WINDOWS))
        return store_path(stand.home).read_bytes()


def forget(db: Any, claimed: Claimed) -> None:
    """A discard."""
    db.execute("DELETE FROM notes WHERE job = ?", (claimed.job,))


@dataclass(frozen=True)
class Held:
    """A claim, and the run that made it."""

    claimed: Claimed
    run: int


class Both(RuleBasedStateMachine):
    """The store, the model, and the claims that were ever handed out, the last dozen of them."""

    @initialize()
    def begin(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        store_path(Path(self.folder.name)).write_bytes(furnished())
        self.stand = Connected(Path(self.folder.name))
        self.plain = Plain(self.stand.now)
        self.held: list[Held] = []
        self.shut: set[str] = set()
        self.loaded: tuple[str, int] | None = None

    def teardown(self) -> None:
        if hasattr(self, "stand"):
            try:
                self.calm_down()
                self.agree()
            finally:
                self.stand.db.close()
                self.folder.cleanup()

    def calm_down(self) -> None:
        """Let all that waits run: nothing may wait for ever."""

    def under_way(self) -> list[Held]:
        """Return the claims whose attempts have not ended, also those of cancelled jobs."""
        return [one for one in self.flying() if self.plain.claims(one.claimed.job) == one.claimed.number]

    def late(self) -> list[Held]:
        """Return the claims of ended attempts, of jobs that are in flight once more if there are any."""
        under_way = self.under_way()
        ended = [one for one in self.held if one not in under_way]
        return [one for one in ended if one in self.flying()] or ended

    def starting_over(self, pool: list[Held]) -> list[Held]:
        """Return the claims of jobs whose rows are to go: they are rare, and what they do matters."""
        jobs = [(one, self.job_of(one)) for one in pool]
        return [one for one, job in jobs if job.discards or job.attempts[-1].starts_over]

    def flying(self) -> list[Held]:
        return [one for one in self.held if self.plain.jobs[one.claimed.job].in_flight]

    def discard_of(self, held: Held) -> Discard | None:
        """Return what a supervisor would hand down with the next landing, or the end, of an attempt."""
        owed = self.job_of(held).attempts[held.claimed.number - 1].starts_over
        return Discard(forget, held.claimed) if owed else None

    def job_of(self, held: Held) -> Job:
        return self.plain.jobs[held.claimed.job]

    def some_job(self, data: st.DataObject, *states: str) -> int:
        """Draw a job, one in these states where there is one, and of those one that has landed rows."""
        fitting = [id for id, job in self.plain.jobs.items() if job.state in states]
        fitting = [id for id in fitting if self.plain.jobs[id].count] or fitting
        return data.draw(st.sampled_from(sorted(fitting or self.plain.jobs)))

    @invariant()
    def agree(self) -> None:
        if hasattr(self, "stand"):
            agree(self.stand.db, self.plain)
