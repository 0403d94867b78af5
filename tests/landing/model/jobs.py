"""The machine: all steps over one store and one model."""

from hypothesis import strategies as st
from hypothesis.stateful import rule

from policies.job import ENDED, State
from tests.landing.model.holds import Holds
from tests.landing.model.life import Life
from tests.landing.model.people import People
from tests.landing.model.row import KINDS
from tests.landing.model.world import World
from tests.landing.stand import finish

WHO = st.sampled_from(["job"] * 9 + ["people"] * 2 + ["world"] * 2 + ["hold"] * 2 + ["prune"])


class Jobs(Life, People, Holds, World):
    """Enqueue, claim, start, land, finish; cancel, retry, skip, prune; hold, revive; die, renew, wait.

    One rule, because hypothesis switches rules off in most of its examples, and then no job gets far.
    """

    @rule(data=st.data(), who=WHO)
    def step(self, data: st.DataObject, who: str) -> None:
        match who:
            case "job":
                self.live(data)
            case "people":
                self.decide(data)
            case "world":
                self.happen(data)
            case "hold":
                self.hold_back(data)
            case _:
                self.prune(data)

    def calm_down(self) -> None:
        """Open all gates, let go what is held, let the time pass, and run all there is: nothing is left."""
        self.die(cleanly=False)
        self.shut = set()
        for kind in sorted(self.plain.holds):
            self.turn(kind, "")
        for id in self.plain.waiting():
            self.unhold(id)
        self.revive()
        self.stand.now = max([self.stand.now, *(job.wake or 0 for job in self.plain.jobs.values())])
        for _ in range(len(self.plain.waiting())):
            self.claim(frozenset(KINDS), starts=True)
            held = self.held[-1]
            job = self.job_of(held)
            self.stand.write(finish(held.claimed, last_seq=job.seq))
            job.leave(State.DONE, "done", "done", self.stand.now)
            job.awake = 0
        assert {job.state for job in self.plain.jobs.values()} <= ENDED
