"""The scheduling half of a run: what holds jobs back, what must be loaded, whose turn it is, who is next."""

from collections.abc import Iterator, Mapping, Set
from typing import Final

from landing.cancel import FindCancels
from landing.lander import Raised
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
        self._run, self._lander, self._dispatch = world.run, lander, dispatch
        self._gates = Gatekeeper(world, kinds, scheduling, parts.probes, lander, post)
        self._models = Models(world, scheduling, pool, self._gates, lander, post)
        self._turns = Turns(world, dispatch, self._gates, scheduling)
        self.seeker = Seeker(
            world, kinds, pool, dispatch, lander, Advice(self._gates, self._models, self._turns)
        )
        self._gates.listener, self._gates.promised = self._news, self._promised
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

    def look_again(self) -> None:
        """Somebody else has committed: there may be work, and what was claimed may be cancelled."""
        self.seeker.look_again()
        if len(self._dispatch) or not self.seeker.settled:
            self._lander.submit(FindCancels(self._run), self._cancelled)

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

    def _promised(self) -> int:
        """Return the bytes that claimed jobs were let in for and do not hold yet."""
        on_the_way = (self._gates.grant(claimed.seen) for claimed in self.seeker.on_the_way)
        return self._turns.promised() + sum(on_the_way)

    def _cancelled(self, pairs: Set[tuple[int, int]] | Raised) -> None:
        if not isinstance(pairs, Raised):
            self._dispatch.cancelled(pairs)
            self.seeker.cancelled(pairs)
