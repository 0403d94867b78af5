"""Leading children up the stop ladder: who is being stopped, which rung is due, who takes it."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final

from ipc.adopted import alive_below, end_below
from ipc.errors import IpcError
from ipc.keeper import Keeper
from ipc.ladder import PATIENCE, PATIENCE_PER_GIB, Climb, Rung, next_rung
from ipc.messages import Stop
from supervisor.children.worker import Stage, Worker

LEAVE_GRACE: Final = 5.0
"""Seconds in which a child that has nothing to do leaves by itself, and again before it is killed; also in
which a guardian says what a child holds that rests."""
MOST_NAMED: Final = 100
"""Process ids that are named of what a lost guardian keeps."""


class Ladders:
    """Stops children. Loop thread only.

    Args:
        workers: all children there are, as the pool keeps them.
        monotonic: seconds.
        give_up: called with a child that cannot be ended.
    """

    def __init__(
        self, workers: Sequence[Worker], monotonic: Callable[[], float], give_up: Callable[[Worker], None]
    ) -> None:
        self._workers = workers
        self._monotonic = monotonic
        self._give_up = give_up

    def let_leave(self, worker: Worker) -> None:
        """Expect a child to leave by itself, and stop it if it does not."""
        if worker.climb is None:
            worker.climb = Climb(self._monotonic() + LEAVE_GRACE, LEAVE_GRACE)

    def stop(self, worker: Worker, grace: float, *, after: float = 0.0, asks: bool = False) -> None:
        """Begin the ladder in `after` seconds; grace 0 kills at once. Again can only make it sooner."""
        now = self._monotonic() + after
        if worker.climb is None or worker.stage is Stage.LEAVING:
            worker.climb = Climb(now, grace, worker.child.rss_gib(), asks)
        elif now + grace < worker.climb.decided + worker.climb.grace:
            worker.climb = sooner(worker.climb, now, grace)
        self.climb(self._monotonic())

    def take_over(self, worker: Worker, rss_gib: float) -> None:
        """Its guardian is no more: it is killed from now on with all that was kept, unless it was before."""
        if worker.climb is None or worker.climb.last is None:
            worker.climb = Climb(self._monotonic(), 0.0, rss_gib, last=Rung.KILL)

    def climb(self, now: float) -> float | None:
        """Take every rung that is due; return when the next one is."""
        return min(self._climbs(now), default=None)

    def _climbs(self, now: float) -> Iterator[float]:
        for worker in list(self._workers):
            if worker.stage is Stage.RESTING and worker.climb is None and not worker.may_stay:
                if (due := worker.rests_since + LEAVE_GRACE) > now:
                    yield due
                    continue
                self.let_leave(worker)  # its guardian does not say what it holds
            while worker.climb is not None and (rung := next_rung(worker.climb)) is not None:
                name, due = rung
                if due > now:
                    yield due
                    break
                worker.climb = replace(worker.climb, last=name)
                self._take_rung(worker, name)

    def _take_rung(self, worker: Worker, rung: Rung) -> None:
        keeper = worker.child.keeper
        match rung:
            case Rung.ASK:
                with suppress(IpcError):  # it reads nothing, or is gone: the next rung is for that
                    worker.child.channel.send(Stop("the job was cancelled"))
            case Rung.TERM:
                keeper.term()
            case Rung.DUMP:
                keeper.dump()
            case Rung.KILL:
                keeper.kill()
            case Rung.GUARDIAN:
                if not worker.child.left:  # one that tells who is left does its work
                    keeper.put_down()
                    self._end_without_guardian(worker)
            case Rung.UNKILLABLE:
                worker.abandoned = True
                self._name_who_is_left(worker)
                self._give_up(worker)

    def _end_without_guardian(self, worker: Worker) -> None:
        """Kill what is below a guardian that may be frozen: SIGKILL waits for it to be thawed."""
        keeper = worker.child.keeper
        if isinstance(keeper, Keeper):
            with suppress(OSError):  # no descriptor or no memory for a look
                worker.child.ended = len(end_below(keeper.pid, keeper.group))

    def _name_who_is_left(self, worker: Worker) -> None:
        """Name those below a guardian that names nobody itself, or that one, and nobody who is dead.

        No kill in vain is told as a plain one.
        """
        child, keeper = worker.child, worker.child.keeper
        if isinstance(keeper, Keeper) and not child.left:
            with suppress(OSError):
                left = [pid for pid in alive_below(keeper.pid) if pid != child.template]
                child.ended = max(0, child.ended - len(left))
                end_below(keeper.pid, keeper.group)
                child.left = tuple(left[:MOST_NAMED]) or (keeper.pid,)
        child.left = child.left or (child.pid or keeper.pid,)


def patience(rss_gib: float) -> float:
    """Return how many seconds the end of so much memory may take."""
    return PATIENCE + PATIENCE_PER_GIB * rss_gib


def sooner(climb: Climb, start: float, grace: float) -> Climb:
    """Let a ladder that is being climbed reach its KILL `grace` seconds after `start`."""
    if climb.last is None:
        return Climb(min(climb.decided, start), grace, climb.rss_gib)
    return replace(climb, grace=max(0.0, start + grace - climb.decided))
