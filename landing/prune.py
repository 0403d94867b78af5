"""Keeping the file small: whole ended jobs are pruned, then free pages are given back (SPEC U33, B26).

Nobody else can delete an attempt or a receipt: the triggers ask for a flag that names the job, and
that job must have ended. The flag is raised and lowered inside one transaction.
"""

import json
from dataclasses import dataclass
from typing import Final

from landing.sql import ask
from landing.sql import prune as sql
from landing.transaction import Transaction
from policies.job import ENDED, State

LIMIT: Final = 500
ENOUGH_PAGES: Final = 1024
"""A prune that has freed so many (payloads and results may be large) leaves the rest to the next one."""

OF_A_JOB: Final = (
    sql.DELETE_RESULT,
    sql.DELETE_DEPENDENCIES,
    sql.DELETE_RECEIPTS,
    sql.DELETE_ATTEMPTS,
    sql.DELETE_EVENTS,
    sql.DELETE_JOB,
)
"""From the outside in, as the foreign keys ask."""


@dataclass(frozen=True, slots=True)
class Pruned:
    """What went: jobs, and the attempts of these. `more`: there may be more to prune."""

    jobs: int
    attempts: int
    more: bool


@dataclass(frozen=True, slots=True)
class Prune:
    """Delete jobs that ended before `before` (microseconds UTC), and everything of them.

    A job stays while an unfinished job depends on it, or while one of its attempts has no
    receipt. One that is not ended stays, whatever `states` says. Where neither kind nor tag
    narrows it, runs that ended before `before` and that no attempt names go too, then the events of these.

    Args:
        before: a job that ended then or later stays.
        states: the end states to prune.
        kind: this kind alone.
        tag: jobs with this tag alone.
        limit: at most so many jobs, and about so many attempts, in this one transaction.
    """

    before: int
    states: frozenset[State]
    kind: str | None = None
    tag: str | None = None
    limit: int = LIMIT

    def apply(self, tx: Transaction) -> Pruned:
        """Delete, longest ended first, and say whether it is worth asking again."""
        found = self.prunable(tx)
        jobs = attempts = 0
        enough = pragma(tx, ask.FREE_PAGES) + ENOUGH_PAGES
        for job in found:
            attempts += prune_job(tx, job)
            jobs += 1
            if attempts >= self.limit or pragma(tx, ask.FREE_PAGES) >= enough:
                break
        if found:
            tx.run(sql.LOWER_FLAG)
        more = jobs < len(found) or len(found) >= self.limit
        if not more and self.kind is None and self.tag is None:
            more = prune_runs(tx, self.before, self.limit)
        return Pruned(jobs, attempts, more)

    def prunable(self, tx: Transaction) -> list[int]:
        """Return the ids of at most `limit` jobs that may go."""
        which = {
            "before": self.before,
            "states": json.dumps(sorted(self.states & ENDED)),
            "kind": self.kind,
            "tag": self.tag,
            "limit": self.limit,
        }
        rows = tx.all(sql.PRUNABLE if self.tag is None else sql.PRUNABLE_TAGGED, which)
        return [row["id"] for row in rows]


def prune_job(tx: Transaction, job: int) -> int:
    """Delete one ended job and everything of it, under the flag; return how many attempts it had."""
    which = {"job": job}
    tx.run(sql.RAISE_FLAG, which)
    gone = {statement: tx.run(statement, which) for statement in OF_A_JOB}
    return gone[sql.DELETE_ATTEMPTS]


def prune_runs(tx: Transaction, before: int, limit: int) -> bool:
    """Delete runs that no attempt names and events of neither job nor run; tell whether there may be more."""
    which = {"before": before, "limit": limit}
    runs, events = tx.run(sql.DELETE_RUNS, which), tx.run(sql.DELETE_JOBLESS_EVENTS, which)
    return limit in {runs, events}


@dataclass(frozen=True, slots=True)
class PruneRuns:
    """Delete the runs that no attempt names, and events of no job, older than `before` (microseconds UTC)."""

    before: int
    limit: int = LIMIT

    def apply(self, tx: Transaction) -> Pruned:
        """Answer as Prune does."""
        return Pruned(0, 0, prune_runs(tx, self.before, self.limit))


@dataclass(frozen=True, slots=True)
class Vacuumed:
    """What a Vacuum did, in pages of `page_size` bytes: given back to the file system, and still free."""

    freed: int
    left: int
    page_size: int


@dataclass(frozen=True, slots=True)
class Vacuum:
    """Give at most `pages` free pages back to the file system, while over `keep` are free.

    The file itself shrinks when the WAL is folded back next.
    """

    pages: int
    keep: int = 0

    def apply(self, tx: Transaction) -> Vacuumed:
        """Move the last pages of the file into free ones, and cut it there."""
        before = pragma(tx, ask.FREE_PAGES)
        for _ in range(min(self.pages, before - self.keep)):
            tx.run(sql.VACUUM_PAGE)
        left = pragma(tx, ask.FREE_PAGES)
        return Vacuumed(before - left, left, pragma(tx, ask.PAGE_SIZE))


def pragma(tx: Transaction, statement: str) -> int:
    """Return the number that a pragma answers."""
    row = tx.one(statement)
    assert row is not None
    return int(row[0])
