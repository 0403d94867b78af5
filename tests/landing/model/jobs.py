"""The machine: all steps over one store and one model."""

from hypothesis import strategies as st
from hypothesis.stateful import rule

from tests.landing.model.life import Life
from tests.landing.model.people import People
from tests.landing.model.world import World

WHO = st.sampled_from(["job"] * 9 + ["people"] * 2 + ["world"] * 2 + ["prune"])


class Jobs(Life, People, World):
    """Enqueue, claim, start, land, finish; cancel, retry, skip, prune; die, renew, wait, set the clock.

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
            case _:
                self.prune(data)
