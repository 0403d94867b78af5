"""The threads of one run: who may run what, who is stuck, and who has held up the loop (CONTRACTS K11)."""

from collections.abc import Callable, Mapping
from math import inf
from typing import TYPE_CHECKING, Final, Protocol

from ipc.keeper import Told
from supervisor.inproc.thread import ThreadKeeper
from supervisor.loop import GAP, MAX_WAIT, Loop

if TYPE_CHECKING:
    from supervisor.application import LoadedKind, Profile
    from worker.registry import Lane

BUSY: Final = 0.2
"""Of the time in which the loop did not turn, the part that one thread must have computed to be named: on a
busy machine it got no more, and while all sleep it gets nothing."""


class Listener(Protocol):
    """Who is told of threads that misbehave."""

    def back(self, keeper: ThreadKeeper) -> None:
        """A thread that was left behind has ended after all."""

    def stalled(self, keeper: ThreadKeeper, seconds: float) -> None:
        """A thread kept the loop from turning for so long."""


class Threads:
    """Makes keepers of threads and watches them. Loop thread only.

    Args:
        kinds: those that can run here; a thread runs the ones of its profile.
        loop: they post to it, and note their descriptors there.
        tell: told what a guardian would tell.
        listener: told of those that misbehave.
        monotonic: seconds.
    """

    def __init__(
        self,
        kinds: Mapping[str, "LoadedKind"],
        loop: Loop,
        tell: Callable[[ThreadKeeper, Told], None],
        listener: Listener,
        monotonic: Callable[[], float],
    ) -> None:
        self._kinds = kinds
        self._loop = loop
        self._tell = tell
        self._listener = listener
        self._monotonic = monotonic
        self._keepers: list[ThreadKeeper] = []
        self._used: dict[ThreadKeeper, float] = {}
        self._due = inf

    def keeper(self, profile: "Profile") -> ThreadKeeper:
        """Return a keeper for a thread that is to be started."""
        self._keepers = [one for one in self._keepers if not one.free or one.left_behind]
        lanes: dict[str, Lane] = {
            kind: one.lane for kind, one in self._kinds.items() if one.profile == profile
        }
        keeper = ThreadKeeper(lanes, self._loop, self._tell, self._back)
        self._keepers.append(keeper)
        return keeper

    @property
    def stuck(self) -> bool:
        """Tell whether a thread that was left behind has not ended yet."""
        return any(keeper.left_behind for keeper in self._keepers)

    def note(self, until: float) -> None:
        """Note what each thread has used, before a wait that should end at `until` (monotonic)."""
        self.look()
        now = self._monotonic()
        self._due = min(now + MAX_WAIT, max(now, until))
        self._used = {keeper: keeper.cpu() for keeper in self._keepers}

    def look(self) -> None:
        """Name the thread that computed while the loop should have turned, once, if there is one.

        While the machine sleeps, or this process is stopped, none does.
        """
        late = self._monotonic() - self._due
        if late > GAP:
            used, self._used = self._used, {}
            for keeper, before in used.items():
                if keeper.cpu() - before >= BUSY * late:
                    self._listener.stalled(keeper, late)

    def _back(self, keeper: ThreadKeeper) -> None:
        self._keepers.remove(keeper)
        self._listener.back(keeper)
