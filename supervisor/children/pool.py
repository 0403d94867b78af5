"""The children: started ahead of need, watched, led up the stop ladder, reaped.

    starting --Ready--> ready --taken--> busy --dismissed--> leaving --exit--> gone

One child more than there are slots, so that a warm one stands by. A child is
made for one profile and takes only kinds of that profile (CONTRACTS K13).
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Final

from ipc.child import Child, Command
from ipc.errors import ChannelClosed, IpcError, ProtocolError
from ipc.ladder import Climb, Rung, next_rung
from ipc.messages import FRAME_LIMIT, Down, Failed, Ready, Up
from supervisor.application import Profile
from supervisor.children.starts import Starts
from supervisor.children.worker import Listener, Stage, Worker
from supervisor.loop import READ, WRITE, Loop

READ_BUDGET: Final = 1 << 20
LAST_READ: Final = 2 * FRAME_LIMIT
LOG_BUDGET: Final = 256 << 10
LAST_LOG: Final = 16 << 20
LEAVE_GRACE: Final = 5.0
SETTLED: Final = 5.0
"""Seconds; a child that ends sooner after it became ready, with no work, counts as a failed start."""
SLOW_START: Final = 30.0
"""Seconds of importing the application after which a person should hear of it."""


class Pool:
    """Children of one supervisor. All calls come from the loop thread."""

    def __init__(
        self,
        loop: Loop,
        limit: int,
        command: Callable[[Profile], Command],
        monotonic: Callable[[], float],
    ) -> None:
        self._loop = loop
        self._limit = limit
        self._command = command
        self._monotonic = monotonic
        self._workers: list[Worker] = []
        self._starts = Starts(monotonic)
        self._closed = False
        self.listener: Listener

    # --- who is there

    def ready(self) -> set[Profile]:
        """Return the profiles that have a child ready for work."""
        return {worker.profile for worker in self._workers if worker.stage is Stage.READY}

    def alive(self) -> int:
        """Return how many children have not been reaped."""
        return len(self._workers)

    def want(self, profile: Profile) -> None:
        """Have a child of `profile` ready soon, replacing an idle one of another profile if need be."""
        if self._closed or not self._starts.may_start(profile) or self._coming(profile):
            return
        if len(self._workers) >= self._limit:
            self._replace_idle()
            return
        self._start(profile)

    def take(self, profile: Profile) -> Worker | None:
        """Hand over a ready child of `profile`, or None."""
        for worker in self._workers:
            if worker.stage is Stage.READY and worker.profile == profile:
                worker.stage = Stage.BUSY
                self._starts.held_up(profile)
                return worker
        return None

    def _coming(self, profile: Profile) -> bool:
        stages = (Stage.STARTING, Stage.READY)
        return any(one.stage in stages and one.profile == profile for one in self._workers)

    def _replace_idle(self) -> None:
        for worker in self._workers:
            if worker.stage is Stage.READY:
                self.dismiss(worker)
                return

    # --- start and listen

    def _start(self, profile: Profile) -> None:
        try:
            worker = Worker(Child(self._command(profile)), profile, started_at=self._monotonic())
        except OSError as error:
            self._starts.failed(profile, f"a process cannot be started: {error.strerror}")
            return
        self._workers.append(worker)
        child = worker.child
        self._loop.watch(child.channel.fileno(), READ, lambda events: self._channel(worker, events))
        self._loop.watch(child.log.fileno(), READ, lambda _events: self._log(worker))
        if child.pidfd is not None:
            self._loop.watch(child.pidfd, READ, lambda _events: self.look_for_exit(worker))

    def send(self, worker: Worker, message: Down) -> None:
        """Queue a message to a child and watch for room; a child that is gone is noticed elsewhere.

        Raises:
            ipc.errors.ChannelFull: the child does not read what it is sent.
        """
        if worker.gone:
            return
        with suppress(ChannelClosed):
            worker.child.channel.send(message)
            self._watch_channel(worker)

    def _watch_channel(self, worker: Worker) -> None:
        events = READ | WRITE if worker.child.channel.wants_write else READ
        self._loop.watch(worker.child.channel.fileno(), events, lambda ready: self._channel(worker, ready))

    def _channel(self, worker: Worker, events: int) -> None:
        if events & WRITE:
            with suppress(IpcError):
                worker.child.channel.flush()
            self._watch_channel(worker)
        if events & READ:
            self.listen(worker, READ_BUDGET)

    def listen(self, worker: Worker, budget: int) -> int:
        """Read at most `budget` bytes from a child and pass on what they say; return how many there were."""
        got = worker.child.channel.receive(budget)
        for message in got.messages:
            self._message(worker, message)
        if got.error is not None:
            self._loop.unwatch(worker.child.channel.fileno())
            self._broke(worker, got.error)
        elif got.closed:
            self._loop.unwatch(worker.child.channel.fileno())
            if worker.stage is Stage.BUSY and not worker.hung_up:
                worker.hung_up = True
                self.listener.hung_up(worker)
        return got.nbytes

    def _message(self, worker: Worker, message: Up) -> None:
        match worker.stage, message:
            case Stage.STARTING, Ready():
                worker.stage, worker.ready_at = Stage.READY, self._monotonic()
                self.listener.ready()
            case Stage.STARTING, Failed():
                worker.complaint = message.message
            case Stage.BUSY, _:
                self.listener.message(worker, message)
            case Stage.LEAVING | Stage.GONE, _:
                pass
            case _:
                self._broke(
                    worker, ProtocolError("order", f"{type(message).__name__} came from an idle child")
                )

    def _broke(self, worker: Worker, error: ProtocolError) -> None:
        if worker.stage is Stage.BUSY:
            self.listener.broke(worker, error)
        else:
            worker.complaint = worker.complaint or str(error)
            self.stop(worker, grace=0.0)

    def _log(self, worker: Worker) -> None:
        worker.child.log.drain(LOG_BUDGET)
        if worker.child.log.closed:
            self._loop.unwatch(worker.child.log.fileno())

    # --- leave and stop

    def dismiss(self, worker: Worker) -> None:
        """Let an idle or finished child go: it leaves at end-of-file, or is stopped when it does not."""
        worker.stage = Stage.LEAVING
        worker.child.channel.hang_up()
        worker.climb = Climb(self._monotonic() + LEAVE_GRACE, LEAVE_GRACE)

    def stop(self, worker: Worker, grace: float, *, after: float = 0.0) -> None:
        """Begin the ladder in `after` seconds; grace 0 kills at once. Again can only make it sooner."""
        now = self._monotonic() + after
        if worker.climb is None or worker.stage is Stage.LEAVING:
            worker.climb = Climb(now, grace, worker.child.rss_gib())
        elif now + grace < worker.climb.decided + worker.climb.grace:
            worker.climb = sooner(worker.climb, now, grace)
        self.climb(self._monotonic())

    def stop_all(self, *, idle_only: bool) -> None:
        """Start no more, and end every child that works on nothing, or simply every child."""
        self._closed = True
        for worker in list(self._workers):
            if worker.stage in {Stage.STARTING, Stage.READY}:
                self.dismiss(worker)
                self.stop(worker, grace=0.0)
            elif not idle_only:
                self.stop(worker, grace=0.0)

    def climb(self, now: float) -> float | None:
        """Take every rung that is due; return when the next one is."""
        return min(self._climbs(now), default=None)

    def _climbs(self, now: float) -> Iterator[float]:
        for worker in list(self._workers):
            while worker.climb is not None and (rung := next_rung(worker.climb)) is not None:
                name, due = rung
                if due > now:
                    yield due
                    break
                worker.climb = replace(worker.climb, last=name)
                self._take_rung(worker, name)

    def _take_rung(self, worker: Worker, rung: Rung) -> None:
        match rung:
            case Rung.TERM:
                worker.child.terminate()
            case Rung.DUMP:
                worker.child.dump()
            case Rung.KILL:
                worker.child.kill_group()
            case Rung.UNKILLABLE:
                worker.abandoned = True
                self._remove(worker)

    # --- exit

    def look_for_exits(self) -> None:
        """Reap whatever has ended, where no descriptor tells it."""
        for worker in list(self._workers):
            if worker.child.pidfd is None:
                self.look_for_exit(worker)

    def look_for_exit(self, worker: Worker) -> None:
        """Reap a child that has ended, after reading what it left behind."""
        if worker.stage is Stage.GONE or worker.child.reap() is None:
            return
        left = LAST_READ
        while left > 0 and (nbytes := self.listen(worker, min(left, READ_BUDGET))) > 0:
            left -= nbytes
        worker.child.log.drain(LAST_LOG)
        self._remove(worker)

    def _remove(self, worker: Worker) -> None:
        """Take a child off the books and tell who waits for its end."""
        before, worker.stage = worker.stage, Stage.GONE
        worker.gone_at = self._monotonic()
        self._workers.remove(worker)
        child = worker.child
        for fd in (child.channel.fileno(), child.log.fileno(), child.pidfd):
            if fd is not None:
                self._loop.unwatch(fd)
        if before is Stage.STARTING or (before is Stage.READY and worker.gone_at - worker.ready_at < SETTLED):
            self._starts.failed(worker.profile, worker.complaint or f"the child ended too soon: {child.exit}")
        self.listener.gone(worker)
        child.close()

    # --- starts that fail

    @property
    def held(self) -> Mapping[Profile, str]:
        """Return the profiles whose children do not start, and why."""
        return self._starts.held

    def slow_starts(self) -> Iterator[Profile]:
        """Yield the profiles of children that have been starting for a long time."""
        late = self._monotonic() - SLOW_START
        for worker in self._workers:
            if worker.stage is Stage.STARTING and worker.started_at < late:
                yield worker.profile

    def next_start(self) -> float | None:
        """Return when a start that waits after a failure may be tried again."""
        return self._starts.next_try()


def sooner(climb: Climb, start: float, grace: float) -> Climb:
    """Let a ladder that is being climbed reach its KILL `grace` seconds after `start`."""
    if climb.last is None:
        return Climb(min(climb.decided, start), grace, climb.rss_gib)
    return replace(climb, grace=max(0.0, start + grace - climb.decided))
