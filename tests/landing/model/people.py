"""The steps of people: cancel, retry, skip, prune, and rewriting history, which nobody can."""

import sqlite3
from dataclasses import replace

import pytest
from hypothesis import strategies as st

from landing.enqueue import Register
from landing.errors import InvalidTransition, StoreError
from landing.ledger import Report, add_receipt
from landing.prune import Prune
from landing.retry import DiscardMissing, KeepRowsRefused, Retry
from landing.skip import Skip
from landing.transaction import Transaction
from policies.job import ENDED, IN_FLIGHT, MICROS, WAITING, Outcome, State
from tests.landing.model.both import Both
from tests.landing.model.row import CAN_DISCARD, KINDS, MODES, RETRIABLE, Job, Lane

REWRITES = (
    "DELETE FROM laneway_receipts WHERE job_id = ?",
    "UPDATE laneway_receipts SET outcome = 'done' WHERE job_id = ?",
    "INSERT OR REPLACE INTO laneway_receipts SELECT * FROM laneway_receipts WHERE job_id = ?",
    "DELETE FROM laneway_attempts WHERE job_id = ?",
    "UPDATE laneway_attempts SET fence = 'x' WHERE job_id = ?",
)


WHAT = st.sampled_from(["retry"] * 4 + ["edit", "edit", "skip", "cancel", "cancel", "rewrite"])
MODE = st.sampled_from(sorted(MODES))


class SecondReceipts:
    """Another receipt for every attempt of a job that has one."""

    def __init__(self, job: int) -> None:
        self.job = job

    def apply(self, tx: Transaction) -> None:
        for row in tx.all("SELECT attempt_id FROM laneway_receipts WHERE job_id = ?", (self.job,)):
            add_receipt(tx, self.job, row["attempt_id"], Report(outcome=Outcome.DIED), Outcome.DIED)


def refusal(job: Job, lane: Lane, *, from_start: bool, keep_rows: bool) -> type[StoreError] | None:
    """Say why a job cannot be retried so."""
    if job.state not in (RETRIABLE | WAITING if from_start else RETRIABLE):
        return InvalidTransition
    if not from_start:
        return KeepRowsRefused if keep_rows else None
    if keep_rows and lane.restarts and lane.discards:
        return KeepRowsRefused
    can = keep_rows or lane.restarts or lane.discards
    return DiscardMissing if job.count and not can else None


class People(Both):
    """What comes from outside a supervisor, and edits of its application."""

    def decide(self, data: st.DataObject) -> None:
        """Have a person do something to a job to which it can be done, if there is one, else to any."""
        if not self.plain.jobs:
            return
        match data.draw(WHAT):
            case "edit":
                self.edit(data.draw(st.sampled_from(sorted(CAN_DISCARD))), data.draw(MODE))
            case "retry":
                self.retry(
                    self.some_job(data, *data.draw(st.sampled_from([RETRIABLE, RETRIABLE, WAITING]))),
                    from_start=data.draw(st.sampled_from([True, True, False])),
                    keep_rows=data.draw(st.sampled_from([False, False, True])),
                )
            case "skip":
                self.skip(self.some_job(data, *WAITING))
            case "cancel":
                self.cancel(self.some_job(data, *IN_FLIGHT), live=data.draw(st.booleans()))
            case _:
                self.rewrite(self.some_job(data, *ENDED), data.draw(st.sampled_from(REWRITES)))

    def edit(self, kind: str, mode: str) -> None:
        """Declare a lane anew; what is under way goes on as it began."""
        resume, discards = MODES[mode]
        self.plain.lanes[kind] = Lane(resume == "restart", discards)
        can = frozenset(kind for kind, lane in self.plain.lanes.items() if lane.discards)
        self.stand.write(Register("app", {kind: replace(KINDS[kind], resume=resume)}, can))

    def cancel(self, id: int, *, live: bool) -> None:
        job, now = self.plain.jobs[id], self.stand.now
        if job.state in {State.DONE, State.SKIPPED}:
            with pytest.raises(InvalidTransition):
                self.stand.cancel(id, live=live)
            return
        answer = self.stand.cancel(id, live=live)
        if not job.in_flight:
            assert answer.state == State.CANCELLED
            if job.state != State.CANCELLED:
                job.move(State.CANCELLED, "cancelled", now)
            return
        job.events += [] if job.cancel_asked else ["cancel_requested"]
        job.fence, job.cancel_asked = f"fence-{self.stand.fences}", True
        assert answer.state == ("cancelling" if live else State.CANCELLED)
        if not live:
            job.leave(State.CANCELLED, "cancelled", "cancelled", now)

    def retry(self, id: int, *, from_start: bool, keep_rows: bool) -> None:
        job = self.plain.jobs[id]
        lane = self.plain.lanes[job.kind]
        operation = Retry(id, from_start=from_start, keep_rows=keep_rows)
        if (refused := refusal(job, lane, from_start=from_start, keep_rows=keep_rows)) is not None:
            with pytest.raises(refused):
                self.stand.write(operation)
            return
        answer, waited = self.stand.write(operation), job.state in WAITING
        if not waited:
            job.move(State.QUEUED, None, None)
            job.failures = job.awake = 0
        assert (answer.state, answer.waited) == (job.state, waited)
        job.events.append("started_over" if waited else "retried")
        if from_start:
            job.mark = job.done = None
            job.fresh = job.awake = 0
            job.discards = job.count > 0 and lane.discards and not keep_rows

    def skip(self, id: int) -> None:
        job = self.plain.jobs[id]
        if job.state not in WAITING | {State.SKIPPED}:
            with pytest.raises(InvalidTransition):
                self.stand.write(Skip(id))
            return
        assert self.stand.write(Skip(id)).state == State.SKIPPED
        if job.state != State.SKIPPED:
            job.move(State.SKIPPED, "skipped", self.stand.now)
            job.events.append("skipped")

    def prune(self, data: st.DataObject) -> None:
        ends = [job.ended for job in self.plain.jobs.values() if job.ended is not None]
        before = data.draw(st.sampled_from([self.stand.now + MICROS, *ends]))
        states = data.draw(st.sampled_from([ENDED, frozenset(State), frozenset({State.DONE})]))
        kind = data.draw(st.sampled_from([None, None, *sorted(KINDS)]))
        tag = data.draw(st.sampled_from([None, None, "red"]))
        limit = data.draw(st.sampled_from([1, 2, 500, 500]))
        may_go = self.plain.prunable(before, states & ENDED, kind, tag)
        pruned = self.stand.write(Prune(before, states, kind, tag, limit))
        gone = self.plain.jobs.keys() - {id for (id,) in self.stand.db.execute("SELECT id FROM laneway_jobs")}
        assert gone <= may_go
        assert (pruned.jobs, pruned.attempts) == (len(gone), sum(map(self.plain.claims, gone)))
        assert gone == may_go or (gone and pruned.more)
        self.held = [one for one in self.held if one.claimed.job not in gone]
        for id in gone:
            self.plain.prune(id)
        if kind is None and tag is None and len(may_go) < limit:
            self.prune_runs(before, limit)

    def prune_runs(self, before: int, limit: int) -> None:
        gone = set(sorted(self.plain.prunable_runs(before))[:limit])
        for id in gone:
            del self.plain.runs[id]
        told = [one for one in self.plain.journal if one[0] < before and one[1] not in self.plain.runs]
        for one in sorted(told, key=lambda event: event[0])[:limit]:
            self.plain.journal.remove(one)

    def rewrite(self, id: int, rewrite: str) -> None:
        self.stand.write(SecondReceipts(id))
        if any(one.outcome for one in self.plain.jobs[id].attempts):
            with pytest.raises(sqlite3.IntegrityError, match="append-only"):
                self.stand.db.execute(rewrite, (id,))
