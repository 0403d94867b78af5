"""The scheduling half of a run: what holds jobs back, what must be loaded, whose turn it is, who is next."""

from collections.abc import Iterator, Mapping
from typing import Final

from supervisor.application import LoadedKind
from supervisor.attempt.conversation import World
from supervisor.attempt.dispatch import Dispatch
from supervisor.children.pool import Pool
from supervisor.run.gatekeeper import Gatekeeper
from supervisor.run.models import Models
from supervisor.run.parts import Parts
from supervisor.run.seek import Advice, Seeker
from supervisor.run.turns import Turns
from supervisor.settings.gates import Scheduling

WOKE_SECONDS: Final = 5.0
"""A pause so long is no busy machine: it slept, or the supervisor was stopped."""

ASK_SECONDS: Final = 0.5
"""Between two looks whether somebody in flight should yield, beside those when a reading changes."""


class Scheduler:
    """Loop thread only.

    Attributes:
        seeker: looks for work.
    """

    def __init__(
        self,
        world: World,
        kinds: Mapping[str, LoadedKind],
        scheduling: Scheduling,
        pool: Pool,
        dispatch: Dispatch,
        parts: Parts,
    ) -> None:
        lander, post = parts.desk.lander, parts.loop.post
        self._gates = Gatekeeper(world, kinds, scheduling, parts.probes, lander, post)
        self._models = Models(world, scheduling, pool, self._gates, lander, post)
        self._turns = Turns(world, dispatch, self._gates, scheduling)
        self.seeker = Seeker(
            world, kinds, pool, dispatch, lander, Advice(self._gates, self._models, self._turns)
        )
        self._gates.listener = self._news
        self._gates.models = self._models.facts
        dispatch.freed = self.seeker.look_again
        self._asked_at = world.monotonic()

    def turn(self, now: float, lost: float) -> None:
        """Take what the probes and the loaders say, have jobs give way, claim the next.

        Nobody ran for `lost` seconds before this turn.
        """
        if lost >= WOKE_SECONDS:
            self._gates.woke(lost)
        self._models.turn(now, self.seeker.attempts)
        self._gates.turn(now)
        if now >= self._asked_at + ASK_SECONDS:
            self._asked_at = now
            self._turns.turn()
        self.seeker.turn()

    def next_due(self) -> Iterator[float]:
        """Yield when `turn` has something to do, monotonic."""
        yield self._gates.next_due()
        yield self._models.next_due()
        if (due := self.seeker.next_due()) is not None:
            yield due

    def close(self) -> None:
        """Ask nobody anything more."""
        self._gates.close()
        self._models.close()

    def _news(self) -> None:
        self._turns.turn()
        self.seeker.look_again()
