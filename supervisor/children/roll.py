"""The roll of the children, and of the threads that stand in for some: who is there, who finds room.

A thread takes no room from a child, and a profile has one.
"""

from collections.abc import Callable, Iterator, Sequence, Set
from typing import Final

from ipc.child import Keeping
from supervisor.application import Profile
from supervisor.children.worker import Stage, Worker

SLOW_START: Final = 30.0
"""Seconds of importing the application after which a person should hear of it."""


class Roll:
    """All that are not over with. Args: `limit` of children; `monotonic` in seconds."""

    def __init__(self, limit: int, monotonic: Callable[[], float]) -> None:
        self._limit = limit
        self._monotonic = monotonic
        self.workers: list[Worker] = []

    def ready(self) -> set[Profile]:
        """Return the profiles that have a child ready for work."""
        return {worker.profile for worker in self.workers if worker.is_ready}

    def ready_for(self, profile: Profile) -> list[Worker]:
        """Return the children that are ready and of `profile`."""
        return [one for one in self.workers if one.is_ready and one.profile == profile]

    def coming(self, profile: Profile) -> int:
        """Return how many of `profile` are ready, or will be: after a job it is seen whether one may stay."""
        stages = (Stage.STARTING, Stage.READY, Stage.RESTING)
        return sum(one.stage in stages and one.profile == profile for one in self.workers)

    def room(self, profile: Profile, good: Set[Profile]) -> int:
        """Return how many more of `profile` may be started: those that are not `good` leave one place."""
        if profile.thread:
            return 1 - sum(one.profile == profile for one in self.workers)
        return min(self._limit - sum(map(takes_place, self.workers)), self._trials(profile, good))

    def to_replace(
        self,
        profile: Profile,
        good: Set[Profile],
        better: Sequence[Profile],
        patience: Callable[[Profile], float],
    ) -> Worker | None:
        """Return a child that one of `profile` may take the place of, where that has none: idle, or hanging.

        No idle one is taken that is `better`, and none whose start has not taken its `patience` in seconds.
        """
        if profile.thread or self.coming(profile):
            return None
        children, now = [*filter(takes_place, self.workers)], self._monotonic()
        ready = (one for one in children if one.stage is Stage.READY and one.profile not in better)
        idle = iter(sorted(ready, key=lambda one: one.is_warm))  # what is loaded is loaded anew at a price
        starting = (one for one in children if one.stage is Stage.STARTING)
        hanging = (one for one in starting if now - one.started_at > patience(one.profile))
        return (next(idle, None) if self._trials(profile, good) > 0 else None) or next(hanging, None)

    def _trials(self, profile: Profile, good: Set[Profile]) -> int:
        """Return how many of `profile` may be started if all that are not known to start leave one place."""
        if not good or profile in good:
            return self._limit
        trials = (one for one in self.workers if one.stage is Stage.STARTING and takes_place(one))
        return self._limit - 1 - sum(one.profile not in good for one in trials)

    def kept_by(self, keeper: Keeping) -> Worker | None:
        """Return whom a keeper keeps."""
        return next((one for one in self.workers if one.child.keeper is keeper), None)

    def slow_starts(self) -> Iterator[Profile]:
        """Yield the profiles of children that have been starting for a long time."""
        late = self._monotonic() - SLOW_START
        for worker in self.workers:
            if worker.stage is Stage.STARTING and worker.started_at < late:
                yield worker.profile


def takes_place(worker: Worker) -> bool:
    """Tell whether a child is a process, of which there may be so many."""
    return not worker.profile.thread
