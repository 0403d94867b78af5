"""The children: started ahead of need, watched, led up the stop ladder, used again or let go.

    starting --Ready--> ready --taken--> busy --its word--> resting --> ready
                                           `------------------ | -----> leaving --over--> gone

One child more than there are slots, so that a warm one stands by, each kept by a guardian. A child is
made for one profile and takes only kinds of that profile (CONTRACTS K13).
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from ipc.child import Child, Command
from ipc.errors import ProtocolError
from ipc.keeper import Beside, Crossed, Keeper, Over, Started, Told
from ipc.messages import Failed, Ready, Up
from policies.options import Options
from supervisor.application import Profile
from supervisor.children import rest
from supervisor.children.keepers import Keepers
from supervisor.children.ladders import Ladders, patience
from supervisor.children.lines import Lines
from supervisor.children.roll import Roll
from supervisor.children.sight import sight_of
from supervisor.children.starts import Starts
from supervisor.children.worker import Listener, Stage, Worker, end_of, release_keeper
from supervisor.inproc.thread import ThreadKeeper
from supervisor.loop import Loop

if TYPE_CHECKING:
    from supervisor.inproc.threads import Threads

SETTLED: Final = 5.0
"""Seconds; a child that ends sooner after it became ready, with no work, counts as a failed start."""


class Pool:
    """Children of one supervisor. All calls come from the loop thread.

    Args:
        limit: how many there may be.
        command: how a child of a profile is started.
        keepers: makes the guardians, given whom they tell.

    Attributes:
        starts: the starts that failed, and what is not tried again.
        threads: makes what takes a child's place in this process.
    """

    def __init__(
        self,
        loop: Loop,
        limit: int,
        command: Callable[[Profile], Command],
        keepers: Callable[[Callable[[Keeper], None]], Keepers],
        monotonic: Callable[[], float],
    ) -> None:
        self._roll = Roll(limit, monotonic)
        self._command = command
        self._keepers = keepers(self._heard)
        self._monotonic = monotonic
        self._workers = self._roll.workers
        self.ready, self.slow_starts = self._roll.ready, self._roll.slow_starts
        self._lines = Lines(loop, self)
        self.send, self.listen = self._lines.send, self._lines.listen
        self.starts = Starts(monotonic)
        self._ladders = Ladders(self._workers, monotonic, self._remove)
        self._closed = False
        self.listener: Listener
        self.threads: Threads

    # --- who is there

    def alive(self) -> int:
        """Return how many children are not over with."""
        return len(self._workers)

    def __iter__(self) -> Iterator[Worker]:
        return iter(tuple(self._workers))

    def want(self, profile: Profile, many: int = 1, better: Sequence[Profile] = ()) -> None:
        """Have `many` children of `profile` ready soon, but one at a time until one has started well.

        If need be they replace an idle one of another, unless that is `better`, or one whose start hangs.
        """
        good = self.starts.good
        missing = (many if profile in good else 1) - self._roll.coming(profile)
        if self._closed or missing <= 0 or not self.starts.may_start(profile):
            return
        if (room := self._roll.room(profile, good)) > 0:
            for _ in range(min(room, missing)):
                if self.starts.may_start(profile):
                    self._start(profile)
        elif (other := self._roll.to_replace(profile, good, better, self.starts.patience)) is not None:
            if other.stage is Stage.STARTING:
                self.starts.put_off(other.profile)
                self.stop(other, grace=0.0)
            self.dismiss(other)

    def take(self, profile: Profile, since: float) -> Worker | None:
        """Hand over a ready child of `profile` that sees all that there was at `since`, or None."""
        for worker in self._roll.ready_for(profile):
            if worker.is_blind(since):
                self.dismiss(worker)
            else:
                worker.stage = Stage.BUSY
                self.starts.held_up(profile)
                return worker
        return None

    # --- start

    def _start(self, profile: Profile) -> None:
        command = self._command(profile)
        try:
            keeper = self.threads.keeper(profile) if profile.thread else self._keepers.free(command)
            if keeper is None:
                return
            sight = sight_of(command)
            worker = Worker(Child(command, keeper), profile, sight, started_at=self._monotonic())
        except OSError as error:
            why = f"a process cannot be started: {error.strerror}"
            self.starts.failed(profile, why, self._monotonic(), error.errno or 0)
            return
        self._workers.append(worker)
        self._lines.open(worker)

    def _look_whether_ready(self, worker: Worker) -> None:
        """A child is ready once it says so and its guardian has it: whichever comes last."""
        if worker.stage is Stage.STARTING and worker.said_ready and worker.child.pid:
            worker.stage, worker.ready_at = Stage.READY, self._monotonic()
            self.starts.began_well(worker.profile)
            self.listener.ready()

    # --- what guardians tell

    def heard_of(self, keeper: ThreadKeeper, told: Told) -> None:
        """Take what the keeper of a thread tells; of one that was given up nobody asks any more."""
        if (worker := self._roll.kept_by(keeper)) is not None:
            self._take_told(worker, told)

    def _heard(self, keeper: Keeper) -> None:
        """Pass on what a guardian tells of its child; take over when it is no more."""
        for told in keeper.receive():
            worker = self._roll.kept_by(keeper)
            if worker is not None:
                self._take_told(worker, told)
            elif isinstance(told, Over):  # of a child that was given up
                keeper.let_go()
        if keeper.gone:
            self._lose(keeper)

    def _take_told(self, worker: Worker, told: Told) -> None:
        worker.child.take(told)
        match told:
            case Started():
                self.starts.came(worker.profile, told.spawn)
                self._look_whether_ready(worker)
            case Crossed() if worker.stage is Stage.BUSY:
                self.listener.crossed(worker)
            case Beside() if worker.stage is Stage.RESTING:
                self._judge_rest(worker, told)
        if worker.child.over:
            release_keeper(worker)
            worker.complaint = worker.complaint or worker.child.failed or ""
            self._is_over(worker)

    def _lose(self, keeper: Keeper) -> None:
        """A guardian is no more: what it kept is ended first, then its child is over."""
        sessions, rss = {keeper.pid}, 0.0
        if (worker := self._roll.kept_by(keeper)) is not None:
            worker.lost, worker.complaint = True, worker.complaint or "its guardian ended"
            sessions, rss = sessions | worker.child.sessions, worker.child.rss_gib()
            self._ladders.take_over(worker, rss)
        self._keepers.lose(keeper, sessions, self._monotonic() + patience(rss))

    def _end_lost(self, now: float) -> None:
        for lost in self._keepers.ended(now):
            if (worker := self._roll.kept_by(lost.keeper)) is not None:
                worker.child.ended, worker.child.left = lost.orphans.ended, tuple(lost.left)
                worker.child.over = True
                self._is_over(worker)

    # --- what children say (supervisor.children.lines.Hearer)

    def said(self, worker: Worker, message: Up) -> None:
        """Pass on what a busy child says; an idle one may say that it is ready, or why it is not."""
        match worker.stage, message:
            case Stage.STARTING, Ready() if not self.starts.agrees(worker.profile, message.sources):
                self.dismiss(worker)
            case Stage.STARTING, Ready() if not worker.said_ready:
                worker.said_ready = True
                self._look_whether_ready(worker)
            case Stage.STARTING, Failed():
                worker.complaint = message.message
            case Stage.BUSY, _:
                self.listener.message(worker, message)
            case Stage.LEAVING | Stage.GONE, _:
                pass
            case _:
                self.broke(
                    worker, ProtocolError("order", f"{type(message).__name__} came from an idle child")
                )

    def broke(self, worker: Worker, error: ProtocolError) -> None:
        """Judge a busy child that broke a rule; an idle one is of no use any more."""
        if worker.stage is Stage.BUSY:
            self.listener.broke(worker, error)
        else:
            worker.complaint = worker.complaint or str(error)
            self.stop(worker, grace=0.0)

    def closed(self, worker: Worker) -> None:
        """Judge a busy child that closed its channel; an idle one is of no use any more."""
        if worker.stage is not Stage.BUSY:
            self._ladders.let_leave(worker)
        elif not worker.hung_up:
            worker.hung_up = True
            self.listener.hung_up(worker)

    # --- rest, leave and stop

    def rest(self, worker: Worker, options: Options) -> None:
        """A child has said its last word on a job: see whether it may be given another."""
        if rest.after_word(worker, options) is not None and not worker.profile.thread:
            self.dismiss(worker)
            return
        worker.stage, worker.rests_since = Stage.RESTING, self._monotonic()
        worker.child.keeper.limit(0, 0)
        worker.child.keeper.ask()

    def _judge_rest(self, worker: Worker, beside: Beside) -> None:
        if worker.profile.thread or rest.after_look(worker, beside) is None:
            worker.may_stay = True
            self.listener.rested(worker)
        else:
            self.dismiss(worker)

    def back(self, worker: Worker) -> None:
        """The last job of a child that may stay has its receipt: it is ready for another."""
        worker.may_stay = False
        if self._closed or worker.climb is not None:
            self.dismiss(worker)
            return
        worker.child.begin_anew()
        worker.stage, worker.ready_at = Stage.READY, self._monotonic()
        self.listener.ready()

    def dismiss(self, worker: Worker) -> None:
        """Let an idle or finished child go: it leaves at end-of-file, or is stopped when it does not."""
        worker.stage = Stage.LEAVING
        worker.child.channel.hang_up()
        self._ladders.let_leave(worker)

    def stop(self, worker: Worker, grace: float, *, after: float = 0.0, asks: bool = False) -> None:
        """Begin the ladder in `after` seconds; grace 0 kills at once. Again can only make it sooner."""
        self._ladders.stop(worker, grace, after=after, asks=asks)

    def stop_all(self, *, idle_only: bool) -> None:
        """Start no more, and end every child that works on nothing, or simply every child."""
        self._closed = True
        for worker in list(self._workers):
            if worker.stage in {Stage.STARTING, Stage.READY}:
                self.dismiss(worker)
                self.stop(worker, grace=0.0)
            elif not idle_only:
                self.stop(worker, grace=0.0)

    def turn(self, now: float) -> float | None:
        """Take every rung that is due, end what lost guardians left; return when the next step is."""
        self._end_lost(now)
        return min(filter(None, (self._ladders.climb(now), self._keepers.next_pass(now))), default=None)

    def close(self, turn: Callable[[float], object]) -> None:
        """Let all guardians go, once no child is left; `turn` waits until something happens."""
        self._keepers.close(turn, self._monotonic, patience(0.0))

    # --- exit

    def _is_over(self, worker: Worker) -> None:
        """Take leave of a child that has ended, after reading what it left behind."""
        self._lines.read_rest(worker)
        self._remove(worker)

    def _remove(self, worker: Worker) -> None:
        """Take a child off the books and tell who waits for its end."""
        before, worker.stage = worker.stage, Stage.GONE
        worker.gone_at = self._monotonic()
        self._workers.remove(worker)
        child = worker.child
        if worker.abandoned:
            self._keepers.abandon(child.keeper)
        self._lines.close(worker)
        if before is Stage.STARTING or (before is Stage.READY and worker.gone_at - worker.ready_at < SETTLED):
            self.starts.failed(worker.profile, end_of(worker), worker.started_at, child.errno)
        self.listener.gone(worker)
        child.close()
