"""Upkeep: jobs that ended long enough ago are pruned, and free pages are given back (SPEC U33).

a look, at the start and once a minute -> Prune ... PruneRuns, Vacuum ... -> told what went
One operation is under way at a time, and each is small, so that nothing that lands waits for more than one.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from landing.lander import Lander, Raised
from landing.prune import Prune, Pruned, PruneRuns, Vacuum, Vacuumed
from landing.transaction import Operation
from policies.job import MICROS
from policies.options import retention
from supervisor import events
from supervisor.application import LoadedKind
from supervisor.attempt.conversation import World

LOOK_SECONDS: Final = 60.0
FINISH_SECONDS: Final = 0.25
"""So long a run that is over waits for its last look; the next run's first one does the rest."""

VACUUM_PAGES: Final = 512
KEPT_PAGES: Final = 1024
"""Free pages that stay: the next jobs need them, and to cut them off and add them again is work."""


class Upkeep:
    """Prunes what the loaded kinds need not keep, which by default is nothing. Loop thread only."""

    def __init__(self, world: World, kinds: Mapping[str, LoadedKind], lander: Lander) -> None:
        self._world = world
        self._lander = lander
        self._keeps = [
            (kind, states, seconds)
            for kind, loaded in kinds.items()
            for states, seconds in retention(loaded.options).items()
        ]
        self._todo: deque[Operation[Any]] = deque()
        self._next_look = world.monotonic()
        self._jobs = self._attempts = self._freed = 0
        self._warned = False

    @property
    def busy(self) -> bool:
        """Tell whether an answer is still to come."""
        return bool(self._todo)

    def turn(self, now: float) -> None:
        """Look, when it is time (`now` is monotonic)."""
        if self._keeps and not self.busy and now >= self._next_look:
            self._look(now)

    def next_due(self) -> float | None:
        """Return when to look next, on the monotonic clock; None while an answer is to come, or for ever."""
        return self._next_look if self._keeps and not self.busy else None

    def finish(self, turn: Callable[[float], object]) -> None:
        """Look once more as the run ends, for a moment at most: a run may be over long before its next look.

        Args:
            turn: waits until something happens or the given monotonic time comes, and takes the answers.
        """
        until = self._world.monotonic() + FINISH_SECONDS
        if self._keeps and not self.busy:
            self._look(self._world.monotonic())
        while self.busy and self._world.monotonic() < until:
            turn(until)
        self._todo.clear()
        self._tell()

    def _look(self, now: float) -> None:
        self._next_look = now + LOOK_SECONDS
        self._warned = False
        self._todo.extend(self._operations(self._world.now()))
        self._lander.submit(self._todo[0], self._answered)

    def _operations(self, now: int) -> Iterator[Operation[Any]]:
        """Yield what a look does; `now` is microseconds UTC."""
        for kind, states, seconds in self._keeps:
            yield Prune(ended_before(now, seconds), states, kind)
        yield PruneRuns(ended_before(now, max(seconds for _, _, seconds in self._keeps)))
        yield Vacuum(VACUUM_PAGES, KEPT_PAGES)

    def _answered(self, reply: Pruned | Vacuumed | Raised) -> None:
        """Ask again while there is more, then for the next, also when one has failed."""
        more = self._noted(reply)
        if self._todo and not more:
            self._todo.popleft()
        if self._todo:
            self._lander.submit(self._todo[0], self._answered)
        else:
            self._tell()

    def _noted(self, reply: Pruned | Vacuumed | Raised) -> bool:
        """Count what went; tell whether the same operation has more to do."""
        match reply:
            case Pruned():
                self._jobs += reply.jobs
                self._attempts += reply.attempts
                return reply.more
            case Vacuumed():
                self._freed += reply.freed * reply.page_size
                return reply.freed > 0 and reply.left > KEPT_PAGES
            case Raised():
                self._warn_once(reply.error)
                return False

    def _warn_once(self, error: Exception) -> None:
        if not self._warned:
            self._warned = True
            text = f"not everything that may go was pruned: {error}; the next look tries again"
            self._world.report(events.Warned("prune_failed", text))

    def _tell(self) -> None:
        if self._jobs:
            self._world.report(events.Pruned(self._jobs, self._attempts, self._freed))
        self._jobs = self._attempts = self._freed = 0


def ended_before(now: int, seconds: float) -> int:
    """Return the time before which a job must have ended, to have been kept for `seconds`."""
    return now - int(seconds * MICROS)
