"""The guardians of one supervisor: one for each child, used again, replaced when they are lost.

free --start--> busy --over--> free
                  |--unkillable--> abandoned: it waits for what cannot be ended, and serves no more
                  `--its lifeline ends--> lost: what it kept is ours now, and is ended here
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from ipc.adopted import Orphanage
from ipc.child import Command, Keeping
from ipc.keeper import Keeper
from supervisor.loop import READ, Loop

PASS_SECONDS = 0.002
"""Between two looks at what a lost guardian left behind."""
LAST_PASSES = 0.5
"""Seconds in which guardians have to leave when there is something that could not be ended anyway."""


@dataclass(slots=True, eq=False)
class Lost:
    """A guardian that is no more, and the end of what it kept. `until` is when that is given up."""

    keeper: Keeper
    orphans: Orphanage
    until: float
    left: list[int] = field(default_factory=list)


class Keepers:
    """Guardians. All calls come from the loop thread.

    Args:
        limit: how many serve at once.
        make: starts one; raises OSError.
        marker: what the environment of all children carries.
        heard: called when one has something to tell, or is gone.

    Attributes:
        survived: not all of them, or of what they kept, are known to have ended.
    """

    def __init__(
        self,
        loop: Loop,
        limit: int,
        make: Callable[[], Keeper],
        marker: str,
        heard: Callable[[Keeper], None],
    ) -> None:
        self._loop = loop
        self._limit = limit
        self._make = make
        self._marker = marker
        self._heard = heard
        self._serving: list[Keeper] = []
        self._abandoned: list[Keeper] = []
        self._lost: list[Lost] = []
        self.survived = False

    def free(self, command: Command) -> Keeper | None:
        """Return a guardian that keeps nothing, one with a template for `command` first; None: all are busy.

        Raises:
            OSError: a new one is needed, and cannot be started.
        """
        free = [one for one in self._serving if one.free]
        for keeper in free:
            if keeper.spec == command.start(keeper.pid):
                return keeper
        if len(self._serving) < self._limit:
            keeper = self._make()
            self._serving.append(keeper)
            self._loop.watch(keeper.fileno(), READ, lambda _events: self._heard(keeper))
            return keeper
        return free[0] if free else None

    def abandon(self, keeper: Keeping) -> None:
        """Use one no more that keeps what cannot be ended; it stays the owner of that."""
        if isinstance(keeper, Keeper) and keeper in self._serving:
            self._serving.remove(keeper)
            self._abandoned.append(keeper)

    def lose(self, keeper: Keeper, sessions: set[int], until: float) -> None:
        """Take over from one whose lifeline has ended, once; `sessions` are its own and its children's.

        `until` is how long that may take.
        """
        for ours in (self._serving, self._abandoned):
            if keeper in ours:
                ours.remove(keeper)
                self._loop.unwatch(keeper.fileno())
                keeper.put_down()
                self._lost.append(Lost(keeper, Orphanage(self._marker, sessions, keeper.group), until))
                return

    def ended(self, now: float) -> Iterator[Lost]:
        """Make a pass over what lost guardians left behind; yield those that are over with."""
        live = {one.pid for one in (*self._serving, *self._abandoned)}
        for lost in list(self._lost):
            is_reaped = lost.keeper.reap()
            try:
                lost.left = lost.orphans.pass_once(live)
            except OSError:  # not to be able to look is not to find nobody
                is_reaped = False
            if (is_reaped and not lost.left) or now >= lost.until:
                self._lost.remove(lost)
                lost.keeper.close()
                self.survived = self.survived or not is_reaped or bool(lost.left)
                yield lost

    def next_pass(self, now: float) -> float | None:
        """Return when `ended` should be asked again, None when nothing is lost."""
        return now + PASS_SECONDS if self._lost else None

    def close(self, turn: Callable[[float], object], monotonic: Callable[[], float], seconds: float) -> None:
        """Have all of them end what they keep, and leave; kill those that have not left in so many seconds.

        `turn` waits until something happens, at most until it is told; nothing does when nobody is left.
        """
        for keeper in (*self._serving, *self._abandoned):
            keeper.let_go()
        until = monotonic() + (LAST_PASSES if self._abandoned else seconds)
        while self._is_awaited(now := monotonic()) and now < until:
            turn(self.next_pass(now) or until)
        self._put_down()

    def _is_awaited(self, now: float) -> bool:
        """Take leave of those that are over with; tell whether there are others."""
        for _ in self.ended(now):
            pass
        return bool(self._serving or self._abandoned or self._lost)

    def _put_down(self) -> None:
        """Kill those that have not left by now, and give up on what they kept."""
        for keeper in (*self._serving, *self._abandoned, *(lost.keeper for lost in self._lost)):
            keeper.put_down()
            self._loop.unwatch(keeper.fileno())
            keeper.close()
            self.survived = True
