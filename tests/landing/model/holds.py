"""Who holds and lets go: people a job or a kind, a supervisor what its gates hold back."""

import pytest
from hypothesis import strategies as st

from landing.claim import Revive
from landing.errors import InvalidTransition
from landing.hold import Hold, HoldKind, Unhold, UnholdKind
from policies.job import WAITING, State
from tests.landing.model.both import Both
from tests.landing.model.row import KINDS

WHAT = st.sampled_from(["hold", "unhold", "unhold", "kind", "gate", "gate", "revive", "load"])
KIND = st.sampled_from(sorted(KINDS))
KEY = st.sampled_from([None, ("", 0), ("big", 8192), ("small", 0)])


class Holds(Both):
    """What has jobs wait that could run."""

    def hold_back(self, data: st.DataObject) -> None:
        match data.draw(WHAT):
            case "hold" if self.plain.jobs:
                self.hold(self.some_job(data, *WAITING))
            case "unhold" if self.plain.jobs:
                held = [id for id, job in self.plain.jobs.items() if job.watch == "held"]
                self.unhold(data.draw(st.sampled_from(sorted(held or self.plain.jobs))))
            case "kind":
                self.turn(data.draw(KIND), data.draw(st.sampled_from(["", "tax"])))
            case "gate":
                self.shut ^= {data.draw(KIND)}
            case "revive":
                self.revive()
            case _:
                self.loaded = data.draw(KEY)

    def hold(self, id: int) -> None:
        job = self.plain.jobs[id]
        if job.state not in WAITING:
            with pytest.raises(InvalidTransition):
                self.stand.write(Hold(id))
            return
        reply, is_new = self.stand.write(Hold(id)), job.watch != "held"
        if is_new:
            job.await_("held", str(job.wake) if job.watch == "backoff" else None)
            job.events.append("held_job")
        assert (reply.state, reply.changed) == (State.PENDING, is_new)

    def unhold(self, id: int) -> None:
        job = self.plain.jobs[id]
        reply, was_held = self.stand.write(Unhold(id)), job.watch == "held"
        if was_held:
            wake = int(job.watch_key or 0)
            job.move(State.QUEUED, None, None)
            if wake > self.stand.now:
                job.await_("backoff", None, wake)
            job.events.append("unheld_job")
        assert (reply.state, reply.changed) == (job.state, was_held)

    def turn(self, kind: str, why: str) -> None:
        """Hold a kind, or let it go."""
        is_held = kind in self.plain.holds
        if is_held and not why:
            assert self.stand.write(UnholdKind(kind))
            del self.plain.holds[kind]
            self.plain.journal.append((self.stand.now, None, "unheld_kind"))
            return
        assert self.stand.write(HoldKind(kind, why)) is not is_held
        self.plain.holds[kind] = why
        self.plain.journal.append((self.stand.now, None, "held_kind"))

    def revive(self) -> None:
        deferred = [job for job in self.plain.jobs.values() if job.state == State.DEFERRED]
        assert self.stand.write(Revive()) == len(deferred)
        for job in deferred:
            job.move(State.QUEUED, None, None)
