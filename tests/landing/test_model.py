"""Random steps on a real store and on plain dicts must agree."""

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from landing.batches import Landed
from landing.connect import open_writer, store_path
from landing.errors import InvalidTransition
from landing.finish import Finished
from landing.sql import ask as sql
from landing.transaction import committing
from policies.job import MICROS, Outcome
from policies.priority import effective_priority
from policies.retry import backoff
from tests.landing.stand import KINDS, Stand

IN_FLIGHT = ("leased", "running")


@dataclass
class Model:
    """What a job ought to be."""

    kind: str
    priority: int
    since: int
    state: str = "queued"
    claims: int = 0
    failures: int = 0
    landed: int = 0
    landed_before: int = 0
    wake: int | None = None
    marked: bool = False
    receipts: int = 0

    def leave(self, state: str, wake: int | None = None) -> None:
        self.state, self.wake, self.marked = state, wake, False
        self.receipts += 1


class Fast(Stand):
    """The stand on one connection, so that a step costs no opening."""

    def write(self, operation: Any) -> Any:
        if not hasattr(self, "db"):
            self.db = open_writer(store_path(self.home))
        self.db.execute("BEGIN IMMEDIATE")
        with committing(self.db, lambda: self.now) as tx:
            return operation.apply(tx)


class Jobs(RuleBasedStateMachine):
    """Enqueue, claim, start, land, finish, cancel, orphan, wait."""

    @initialize()
    def begin(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.stand = Fast(Path(self.folder.name) / "home")
        self.stand.furnish()
        self.model: dict[int, Model] = {}
        self.held: dict[int, Any] = {}

    def teardown(self) -> None:
        if hasattr(self, "stand"):
            self.stand.db.close()
            self.folder.cleanup()

    def some(self, data: st.DataObject, *states: str) -> int | None:
        jobs = [job for job, one in self.model.items() if one.state in states]
        return data.draw(st.sampled_from(jobs)) if jobs else None

    @rule(kind=st.sampled_from(sorted(KINDS)), priority=st.sampled_from([None, 0, 10, 95]))
    def enqueue(self, kind: str, priority: int | None) -> None:
        job = self.stand.enqueue(kind, priority=priority)
        self.model[job] = Model(kind, KINDS[kind].priority if priority is None else priority, self.stand.now)

    @rule(seconds=st.sampled_from([1, 5, 901, 4000]))
    def wait(self, seconds: int) -> None:
        self.stand.tick(seconds)

    @rule(ready=st.sets(st.sampled_from(sorted(KINDS)), min_size=1))
    def claim(self, ready: set[str]) -> None:
        now = self.stand.now
        for one in self.model.values():
            if one.wake is not None and one.wake <= now:
                one.state, one.wake = "queued", None
        queued = [
            (effective_priority(one.priority, one.since, now), one.since, job)
            for job, one in self.model.items()
            if one.state == "queued" and one.kind in ready
        ]
        reply = self.stand.look(*ready)
        assert (reply.claimed and reply.claimed.job) == (min(queued)[2] if queued else None)
        assert reply.next_wake == min((one.wake for one in self.model.values() if one.wake), default=None)
        if reply.claimed is not None:
            one = self.model[reply.claimed.job]
            one.state, one.claims, one.landed_before = "leased", one.claims + 1, one.landed
            assert (reply.claimed.number, reply.claimed.failures) == (one.claims, one.failures)
            assert reply.claimed.landed_seq == one.landed
            self.held[reply.claimed.job] = reply.claimed

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def start(self, data: st.DataObject) -> None:
        job = data.draw(st.sampled_from(sorted(self.held)))
        one = self.model[job]
        started = self.stand.start(self.held[job])
        assert started == (one.state == "leased" and not one.marked)
        if started:
            one.state = "running"

    @precondition(lambda self: self.held)
    @rule(data=st.data(), ahead=st.sampled_from([1, 1, 1, 0, 2]))
    def land(self, data: st.DataObject, ahead: int) -> None:
        job = data.draw(st.sampled_from(sorted(self.held)))
        one = self.model[job]
        seq = one.landed + ahead
        landed = self.stand.land(self.held[job], seq, (job, seq, "x"))
        good = one.state == "running" and not one.marked and ahead == 1
        assert landed is (Landed.LANDED if good else Landed.STALE)
        one.landed += good

    @precondition(lambda self: self.held)
    @rule(
        data=st.data(),
        end=st.sampled_from(["done", "failed", "died", "yielded", "interrupted"]),
        behind=st.sampled_from([0, 0, 0, 1]),
    )
    def finish(self, data: st.DataObject, end: str, behind: int) -> None:
        job = data.draw(st.sampled_from(sorted(self.held)))
        one, claimed = self.model[job], self.held[job]
        if end == "done":
            finished = self.stand.finish(claimed, last_seq=one.landed + behind)
        else:
            started = one.state == "running"
            finished = self.stand.fail(claimed, Outcome(end), one.landed + behind, started=started)
        if one.state in IN_FLIGHT and one.marked:
            assert finished is Finished.CANCELLED
            one.leave("cancelled")
        elif one.state not in IN_FLIGHT or behind or (end == "done" and one.state == "leased"):
            assert finished is Finished.STALE
            return
        else:
            assert finished is Finished.HELD
            self.ended(one, end)
        del self.held[job]

    def ended(self, one: Model, end: str) -> None:
        """The policy's judgement in plain words."""
        options, safe = KINDS[one.kind], KINDS[one.kind].retry_safe or one.state == "leased"
        if end == "done":
            one.leave("done")
        elif end == "yielded":
            one.since = self.stand.now
            one.leave("queued")
        elif end == "interrupted":
            one.leave("queued" if safe else "failed")
        else:
            one.failures += 1
            if end == "failed" or not safe or one.failures >= options.max_attempts:
                one.leave("failed")
            else:
                wait = backoff(options.backoff, options.backoff_max, one.failures)
                one.leave("pending", self.stand.now + int(wait * MICROS))

    @precondition(lambda self: self.model)
    @rule(data=st.data(), live=st.booleans())
    def cancel(self, data: st.DataObject, live: bool) -> None:
        job = data.draw(st.sampled_from(sorted(self.model)))
        one = self.model[job]
        try:
            state = self.stand.cancel(job, live=live).state
        except InvalidTransition:
            assert one.state == "done"
            return
        if one.state in IN_FLIGHT and live:
            assert state == "cancelling"
            one.marked = True
            return
        assert state == "cancelled"
        if one.state in IN_FLIGHT:
            one.leave("cancelled")
            self.held.pop(job, None)
        one.state, one.wake = "cancelled", None

    @rule()
    def die(self) -> None:
        flying = {job: one for job, one in self.model.items() if one.state in IN_FLIGHT}
        opened = self.stand.open_run()
        self.stand.run = opened.run
        assert set(opened.orphans) == set(flying)
        for one in flying.values():
            self.orphaned(one)

    def orphaned(self, one: Model) -> None:
        started = one.state == "running"
        counts = started and one.landed == one.landed_before and not one.marked
        one.failures += counts
        if one.marked:
            one.leave("cancelled")
        elif started and not KINDS[one.kind].retry_safe:
            one.leave("failed")
        else:
            one.leave("failed" if counts and one.failures >= KINDS[one.kind].max_attempts else "queued")

    @invariant()
    def agree(self) -> None:
        if not hasattr(self, "stand"):
            return
        db = self.stand.db
        facts = db.execute(
            "SELECT id, state, claims, failures, landed_seq, waiting_since, wake_at,"
            " (SELECT COUNT(*) FROM laneway_receipts r WHERE r.job_id = j.id) FROM laneway_jobs j"
        ).fetchall()
        assert {row[0]: row[1:] for row in facts} == {
            job: (one.state, one.claims, one.failures, one.landed, one.since, one.wake, one.receipts)
            for job, one in self.model.items()
        }
        counted = dict(db.execute(sql.COUNTS).fetchall())
        assert counted == dict(
            db.execute("SELECT state, COUNT(*) FROM laneway_jobs GROUP BY state").fetchall()
        )
        landed = sum(one.landed for one in self.model.values())
        assert db.execute("SELECT COUNT(*), COUNT(DISTINCT job * 1000 + seq) FROM notes").fetchone() == (
            landed,
            landed,
        )
        assert db.execute("SELECT COUNT(*) FROM laneway_attempts").fetchone()[0] == sum(
            one.claims for one in self.model.values()
        )


Jobs.TestCase.settings = settings(
    max_examples=30, stateful_step_count=30, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
test_random_steps_agree_with_a_plain_model = Jobs.TestCase
