"""A job's own steps: claim, start, land, finish, in order and out of it, by live and by dead fences."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from hypothesis import strategies as st

from landing.batches import Land, Landed, LanderRaised
from landing.claim import Claimed
from landing.enqueue import Enqueue, Enqueued, KeyInUse
from landing.finish import Finish, Finished
from landing.lease import Start
from landing.ledger import Report
from policies.gates.vocabulary import Blocked, Gate
from policies.job import MICROS, Disposition, InFlight, Outcome, State
from policies.priority import in_claim_order
from policies.retry import judge
from policies.transitions import Move
from policies.verdict import Asks, Ended, Verdict
from tests.landing.model.both import Both, Held
from tests.landing.model.line import next_wake, same_as, take_next, wake
from tests.landing.model.row import CAN_DISCARD, KINDS, Job, end_of
from tests.landing.stand import finish, keep_notes, land

ENDS = {
    "done": Ended(outcome=Outcome.DONE),
    "skipped": Ended(outcome=Outcome.SKIPPED),
    "failed": Ended(outcome=Outcome.FAILED),
    "optional": Ended(outcome=Outcome.FAILED, disposition=Disposition.OPTIONAL),
    "retry": Ended(outcome=Outcome.FAILED, disposition=Disposition.RETRY),
    "retry in 40 s": Ended(outcome=Outcome.FAILED, disposition=Disposition.RETRY, retry_after=40.0),
    "died": Ended(outcome=Outcome.DIED),
    "timed_out": Ended(outcome=Outcome.TIMED_OUT),
    "memory": Ended(outcome=Outcome.MEMORY),
    "yielded": Ended(outcome=Outcome.YIELDED),
    "interrupted": Ended(outcome=Outcome.INTERRUPTED),
    "cancelled": Ended(outcome=Outcome.CANCELLED),
    "deferred": Ended(outcome=Outcome.YIELDED),
}
STEPS = ["enqueue", "claim", "claim", "start", "land", "land", "land", "land", "finish", "finish"]
FEW = 4
"""Jobs that wait, beyond which none is added: each is to get far."""

LATE = st.sampled_from([False] * 5 + [True])
READY = st.sampled_from(
    [frozenset(KINDS), frozenset(KINDS), frozenset({"embed", "anew"}), frozenset({"once"})]
)
PAYLOADS = st.sampled_from(["{}", '{"who": "a"}', '{"who":"a"}', '{"who":"b","at":1}', '{"at":1,"who":"b"}'])
KEYS = st.sampled_from([None, None, None, "k"])
TIERS = st.sampled_from([None, None, None, "big", "small"])
TAGS = st.sampled_from([None, None, "red"])


def write_and_raise(db: Any, view: Any, rows: Any) -> None:
    keep_notes(db, view, rows)
    db.enqueue("embed")
    raise ValueError("on purpose")


def write_and_enqueue(db: Any, view: Any, rows: Any) -> None:
    keep_notes(db, view, rows)
    db.enqueue("scan")


class Life(Both):
    """A job from its enqueue to its end."""

    def live(self, data: st.DataObject) -> None:
        """Take a step, or the one that must come before it."""
        what = data.draw(st.sampled_from(STEPS))
        pool = self.late() if data.draw(LATE) else self.under_way()
        few = len(self.plain.waiting()) < FEW
        if (what == "enqueue" and few) or not (pool or self.plain.waiting()):
            self.enqueue(data)
        elif what in {"claim", "enqueue"} or not pool:
            self.claim(data.draw(READY), starts=data.draw(st.sampled_from([True, True, True, False])))
        else:
            held = data.draw(st.sampled_from(self.starting_over(pool) or pool))
            match what:
                case "start":
                    self.start(held)
                case "land":
                    self.land(held, data)
                case _:
                    self.finish(held, data)

    def enqueue(self, data: st.DataObject) -> None:
        kind = data.draw(st.sampled_from(["embed", *sorted(CAN_DISCARD), *sorted(KINDS)]))
        asked = data.draw(st.sampled_from([None, 0, 10, 95]))
        payload, key, tag = data.draw(PAYLOADS), data.draw(KEYS), data.draw(TAGS)
        tier = None if kind == "single" else data.draw(TIERS)
        priority = KINDS[kind].priority if asked is None else asked
        found = same_as(self.plain, kind, payload, key, KINDS[kind].tier if tier is None else tier)
        operation = Enqueue(kind=kind, payload=payload, priority=asked, key=key, tag=tag, tier=tier)
        if found is None:
            reply = self.stand.write(operation)
            assert reply.outcome == "created"
            tier = KINDS[kind].tier if tier is None else tier
            self.add(reply.id, Job(kind, priority, tag, self.stand.now, payload, key, tier))
        elif KINDS[kind].unique == "forever":
            assert self.stand.write(operation) == Enqueued(found, "existing")
        elif (job := self.plain.jobs[found]).payload != payload:
            with pytest.raises(KeyInUse):
                self.stand.write(operation)
        else:
            assert self.stand.write(operation) == Enqueued(found, "coalesced")
            job.priority = min(job.priority, priority)

    def add(self, id: int, job: Job) -> None:
        self.plain.jobs[id] = job
        self.last_id = id

    def claim(self, ready: frozenset[str], *, starts: bool) -> None:
        now = self.stand.now
        wake(self.plain, now)
        expected, wanted = take_next(self.plain, ready, self.shut, self.loaded, now)
        reply = self.stand.look(
            *ready, loaded=KINDS, admit=self.admit, order=partial(in_claim_order, loaded=self.loaded)
        )
        assert (reply.claimed and reply.claimed.job) == expected
        assert [head.job for head in reply.wanted] == wanted
        assert (reply.next_wake, reply.next_try) == (
            next_wake(self.plain),
            next_wake(self.plain, State.PENDING),
        )
        assert reply.held == self.plain.holds
        if (claimed := reply.claimed) is None:
            queued = {job.kind for job in self.plain.jobs.values() if job.state == State.QUEUED}
            assert queued <= {*reply.blocked} | (KINDS.keys() - ready)
            return
        self.take(claimed)
        if starts:
            self.start(self.held[-1])

    def admit(self, in_flight: Sequence[InFlight], held: Mapping[str, str]) -> Asks:
        """The gates of this moment: some kinds are shut, and some are held."""
        assert {one.job: one.exclusive for one in in_flight} == {
            id: job.exclusive for id, job in self.plain.flying().items()
        }
        shut = {kind: (Blocked(Gate.POWER, "on battery"),) for kind in self.shut}
        shut |= {kind: (Blocked(Gate.HELD, why),) for kind, why in held.items()}
        return lambda head: shut.get(head.kind, ())

    def take(self, claimed: Claimed) -> None:
        job = self.plain.jobs[claimed.job]
        job.claim(self.stand.run, claimed.fence, self.stand.now, self.plain.lanes[job.kind])
        assert (claimed.number, claimed.failures) == (len(job.attempts), job.failures)
        assert (claimed.landed_seq, claimed.landed_rows, claimed.mark) == (job.seq, job.count, job.mark)
        assert (claimed.discards, claimed.awake) == (job.discards, job.awake / MICROS)
        self.held = [*self.held[-11:], Held(claimed, self.stand.run)]

    def start(self, held: Held) -> None:
        job = self.plain.jobs[held.claimed.job]
        good = job.state == State.LEASED and job.fence == held.claimed.fence
        assert self.stand.write(Start(held.claimed.job, held.claimed.fence)) is good
        if good:
            job.state = State.RUNNING

    def land(self, held: Held, data: st.DataObject) -> None:
        job = self.plain.jobs[held.claimed.job]
        ahead = data.draw(st.sampled_from([1] * 6 + [0, 2]))
        texts = data.draw(st.lists(st.sampled_from("xyz"), max_size=3))
        mark = data.draw(st.sampled_from([None, "half", "most"]))
        lander = data.draw(st.sampled_from([keep_notes, keep_notes, write_and_raise, write_and_enqueue]))
        batch = self.batch(held, job.seq + ahead, texts, mark, lander)
        good = job.accepts(held.claimed.fence, batch.seq)
        if good and texts and lander is write_and_raise:
            with pytest.raises(LanderRaised):
                self.stand.write(batch)
            return
        assert self.stand.write(batch) is (Landed.LANDED if good else Landed.STALE)
        if not good:
            self.plain.count_stale(held.run)
            return
        job.land([(batch.seq, text) for text in texts], mark, batch.done, self.stand.now)
        if texts and lander is write_and_enqueue:
            self.add(self.last_id + 1, Job("scan", KINDS["scan"].priority, None, self.stand.now, "null"))

    def batch(self, held: Held, seq: int, texts: list[str], mark: str | None, lander: Any) -> Land:
        claimed = held.claimed
        batch = land(
            claimed,
            seq,
            [(claimed.job, seq, text) for text in texts],
            lander,
            point={"mark": mark, "skip": len(texts), "digest": b"d"},
            done=seq if texts else None,
            discard=self.discard_of(held),
        )
        return replace(batch, run=held.run)

    def finish(self, held: Held, data: st.DataObject) -> None:
        end = data.draw(st.sampled_from(sorted(ENDS)))
        behind = data.draw(st.sampled_from([0, 0, 0, 0, 1, -1]))
        awake = data.draw(st.sampled_from([0.0, 7.5]))
        job, now = self.plain.jobs[held.claimed.job], self.stand.now
        operation = self.ending(held, job, end, job.seq - behind, awake)
        state, reason, wake, counts = end_of(job, end, now)
        finished = self.stand.write(operation)
        if job.in_flight and job.cancel_asked and held.claimed.number == len(job.attempts):
            assert finished is Finished.CANCELLED
            job.leave(State.CANCELLED, "cancelled", "cancelled", now)
            return
        good = job.in_flight and job.fence == held.claimed.fence and not behind
        if not good or (state == State.DONE and job.state == State.LEASED):
            assert finished is Finished.STALE
            return
        assert finished is Finished.HELD
        if end == "done" and operation.discard is not None:
            job.discard()
        job.leave(state, reason, ENDS[end].outcome, now, wake)
        job.failures += counts
        job.awake = 0 if reason == "backoff" else int(awake * MICROS)
        job.since = now if reason == "yielded" else job.since
        job.result = operation.result if state == State.DONE else job.result

    def ending(self, held: Held, job: Job, end: str, last_seq: int, awake: float) -> Finish:
        claimed = held.claimed
        operation = finish(
            claimed,
            self.verdict(job, end),
            last_seq,
            report=Report(outcome=ENDS[end].outcome),
            result='"result"' if end == "done" else None,
            awake=awake,
            discard=self.discard_of(held),
        )
        return replace(operation, run=held.run)

    def verdict(self, job: Job, end: str) -> Verdict:
        """The supervisor's own judgement; what defers is decided before a job starts."""
        if end == "deferred":
            return Verdict(Move.DEFER, "deferred", wake_at=self.stand.now + 300 * MICROS)
        ended = replace(ENDS[end], started=job.state == State.RUNNING)
        return judge(ended, job.options, job.failures, self.stand.now)
