"""From a claimed job to its receipt: one value, the attempt, walks through named steps.

    place -> [message ...] -> end -> finish -> settled
                               ^
                               +-- the child's word, its exit, a clock, a cancel, a stop

Nothing here waits. Landings and receipts go to the lander's inbox and come back as calls on
the loop thread; kills go up the pool's ladder and never wait for the store.
"""

from collections.abc import Callable, Iterator, Set
from typing import Any, Final

from ipc.errors import ProtocolError
from ipc.messages import FRAME_LIMIT, Ack, ResumePoint, Run, Stop, Up
from ipc.oom import Witness, evidence
from landing.batches import LanderRaised
from landing.claim import Claimed
from landing.finish import Finish, Finished
from landing.lander import Lander, Raised
from landing.reader import Reader
from policies import deadlines
from supervisor import events
from supervisor.application import LoadedKind
from supervisor.attempt.behind import Behind
from supervisor.attempt.conversation import Conversation, World
from supervisor.attempt.death import LIMIT_GRACE, died, over_limit, was_stopped
from supervisor.attempt.ending import Ending, hung_up, interrupted, timed_out
from supervisor.attempt.receipt import bare, ended_event, finish_of
from supervisor.attempt.state import Attempt, with_own_limits
from supervisor.attempt.view import discard_for, point_for, view_of
from supervisor.children.pool import Pool
from supervisor.children.worker import Worker
from supervisor.told.kills import with_survivors

HANG_UP_SECONDS: Final = 0.5
"""A child that closed its channel gets so long to end by itself."""


class Dispatch:
    """The attempts in flight. All calls come from the loop thread."""

    def __init__(self, world: World, pool: Pool, lander: Lander, reader: Reader) -> None:
        self._world = world
        self._pool = pool
        self._lander = lander
        self._talk = Conversation(world, pool, lander, reader, self._step)
        self._witness = Witness()
        self._attempts: dict[Worker, Attempt] = {}
        self.behind = Behind(world.report, self._attempts)
        self._stop_at: float | None = None
        self._grace = 0.0
        self.freed: Callable[[], None] = lambda: None

    def __len__(self) -> int:
        return len(self._attempts)

    def __iter__(self) -> Iterator[Attempt]:
        return iter(tuple(self._attempts.values()))

    @property
    def jobs(self) -> tuple[int, ...]:
        """Return the ids of the jobs in flight, lowest first."""
        return tuple(sorted(attempt.claimed.job for attempt in self._attempts.values()))

    @property
    def in_slots(self) -> int:
        """Return how many of them take a slot."""
        return sum(attempt.loaded.takes_slot for attempt in self._attempts.values())

    def close(self) -> None:
        """Look at nothing any more: no attempt is in flight."""
        self._witness.close()

    # --- begin

    def place(self, claimed: Claimed, loaded: LoadedKind, worker: Worker) -> None:
        """Give a claimed job to a ready child and start its clocks."""
        options = with_own_limits(loaded.options, claimed.options)
        clocks = deadlines.began(self._world.monotonic(), claimed.awake)
        view = view_of(claimed, loaded.lane)
        discard = discard_for(claimed, options.resume, loaded.lane, view)
        before = self._witness.recent(self._world.monotonic())
        attempt = Attempt(claimed, loaded, options, worker, clocks, view, before, discard)
        self._attempts[worker] = attempt
        if options.memory_limit or options.process_limit:
            worker.child.keeper.limit(options.memory_limit, options.process_limit)
        mark, skip, digest = point_for(options.resume, (claimed.mark, claimed.skip, claimed.digest))
        self._talk.send(
            attempt,
            Run(
                job=claimed.job,
                kind=claimed.kind,
                payload=claimed.payload,
                number=claimed.number,
                key=claimed.key,
                resume=options.resume,
                point=ResumePoint(mark, skip, digest),
                landed_seq=claimed.landed_seq,
                batch_rows=options.batch_rows,
                batch_bytes=options.batch_bytes,
            ),
        )

    # --- what children say (supervisor.children.pool.Listener)

    def message(self, worker: Worker, message: Up) -> None:
        """Take one message of a busy child."""
        attempt = self._attempts.get(worker)
        if attempt is None:
            return
        if not attempt.listening:
            self._talk.late(attempt, message)
            return
        try:
            self._talk.take(attempt, message)
        except ProtocolError as error:
            self.broke(worker, error)
        self._step(attempt)

    def ready(self) -> None:
        """A child can take work now."""
        self.freed()

    def broke(self, worker: Worker, error: ProtocolError) -> None:
        """A busy child broke a rule of the wire: it is killed and nothing more of it is read."""
        if (attempt := self._attempts.get(worker)) is not None:
            self._talk.refuse(attempt, error.code, error.detail)
            self._step(attempt)

    def hung_up(self, worker: Worker) -> None:
        """A busy child closed its channel: it is ending by itself, or it is made to."""
        attempt = self._attempts.get(worker)
        if attempt is not None and attempt.ending is None:
            self._pool.stop(worker, grace=attempt.options.grace, after=HANG_UP_SECONDS)

    def crossed(self, worker: Worker) -> None:
        """A busy child, with all that it started, holds more than it may: it is ended."""
        attempt, found = self._attempts.get(worker), worker.child.crossed
        if attempt is not None and found is not None and attempt.ending is None:
            attempt.end(over_limit(found, attempt.options))
            self._pool.stop(worker, grace=min(attempt.options.grace, LIMIT_GRACE))

    def rested(self, worker: Worker) -> None:
        """A child that has finished its job may be given another."""
        if (attempt := self._attempts.get(worker)) is not None:
            self._release(attempt)

    def gone(self, worker: Worker) -> None:
        """A child has been reaped (or given up as unkillable): judge what is not judged yet."""
        if (attempt := self._attempts.get(worker)) is not None:
            attempt.end(self._death(attempt))
            self._warn_of_survivors(attempt)
            self.behind.note(attempt)
            self._step(attempt)
        self.freed()

    def _warn_of_survivors(self, attempt: Attempt) -> None:
        """Name who is left of a job that ended by its own word: its receipt was written before."""
        left = attempt.worker.child.left
        if left and attempt.ending is not None and attempt.ending.by_word:
            words = f"job #{attempt.claimed.job} has left processes behind"
            text = with_survivors(words, {"survivors": list(left)})
            self._world.report(events.Warned("survivors", text))

    def _death(self, attempt: Attempt) -> Ending:
        worker = attempt.worker
        if worker.hung_up and was_stopped(worker):
            return hung_up()
        found = evidence(attempt.before, self._witness.look(), worker.child.pid)
        return died(worker, attempt.options, found)

    # --- the end

    def _step(self, attempt: Attempt) -> None:
        """Write the receipt as soon as nothing more can change it."""
        if not attempt.may_finish():
            self._release(attempt)
            return
        self._finish(attempt, finish_of(attempt, self._world.run, self._world.now(), self._world.monotonic()))

    def _finish(self, attempt: Attempt, finish: Finish) -> None:
        attempt.finish_sent = attempt.ending
        self._lander.submit(finish, lambda reply: self._finished(attempt, finish, reply))

    def _finished(self, attempt: Attempt, finish: Finish, reply: Any) -> None:
        overridden = attempt.finish_sent is not attempt.ending
        attempt.finish_sent = None
        if reply is Finished.STALE and overridden:
            self._step(attempt)
            return
        if isinstance(reply, Raised) and isinstance(reply.error, LanderRaised):
            self._talk.cannot_land(attempt, reply.error)  # its discard, at the end
            self._step(attempt)
            return
        if isinstance(reply, Raised) and not attempt.retried_receipt:
            attempt.retried_receipt = True
            self._finish(attempt, bare(finish))
            return
        attempt.settled = True
        if reply in {Finished.HELD, Finished.CANCELLED}:
            self._world.report(ended_event(attempt, finish, cancelled=reply is Finished.CANCELLED))
        else:
            why = reply.error if isinstance(reply, Raised) else "its fence is dead"
            self._world.report(events.Warned("late_completion", f"job #{finish.job}: no receipt: {why}"))
        self._release(attempt)

    def _release(self, attempt: Attempt) -> None:
        """Free the slot once the receipt is written and the child is gone, or at rest."""
        worker = attempt.worker
        if not attempt.settled or not (worker.gone or worker.may_stay):
            return
        if self._attempts.pop(worker, None) is not None:
            if worker.may_stay and not worker.gone:
                self._pool.back(worker)
            self.freed()

    # --- clocks, cancels, stops

    def tick(self, now: float, lost: float) -> None:
        """Check every clock; `lost` seconds in which nobody ran are taken off first (CONTRACTS K5)."""
        for attempt in list(self._attempts.values()):
            if lost:
                attempt.clocks = deadlines.slept(attempt.clocks, lost)
            if attempt.ending is None and self._is_overdue(attempt, now):
                self._judge_overdue(attempt)
            if attempt.ack_due and not attempt.worker.gone:
                attempt.ack_due = False
                self._talk.send(attempt, Ack(attempt.landed_seq))
        if self._stop_at is not None and now >= self._stop_at:
            self.stop_now()

    def _is_overdue(self, attempt: Attempt, now: float) -> bool:
        return deadlines.overdue(attempt.clocks, attempt.options, now) is not None

    def _judge_overdue(self, attempt: Attempt) -> None:
        """Read one more frame limit of what is there; only a batch in it saves the child."""
        self._pool.listen(attempt.worker, FRAME_LIMIT)
        over = deadlines.overdue(attempt.clocks, attempt.options, self._world.monotonic())
        if over is not None and attempt.ending is None:
            attempt.end(timed_out(over))
            self._pool.stop(attempt.worker, grace=attempt.options.grace)

    def next_due(self) -> Iterator[float]:
        """Yield the times at which `tick` has something to do."""
        for attempt in self._attempts.values():
            due = deadlines.first_due(attempt.clocks, attempt.options)
            if attempt.ending is None and due is not None:
                yield due.at
        if self._stop_at is not None:
            yield self._stop_at

    def cancelled(self, pairs: Set[tuple[int, int]]) -> None:
        """End the attempts (job id, attempt number) that were cancelled from outside."""
        for attempt in list(self._attempts.values()):
            if (attempt.claimed.job, attempt.claimed.number) in pairs and not attempt.settled:
                self._talk.lost(attempt)
                self._step(attempt)

    def ask_to_yield(self, attempt: Attempt, why: str) -> bool:
        """Ask a child to give its slot back after its next batch; tell whether it had not been asked yet."""
        if attempt.stop_sent or attempt.ending is not None:
            return False
        attempt.stop_sent = True
        self._talk.send(attempt, Stop(why))
        return True

    def drain(self) -> float:
        """Ask every child to yield; what has not by its grace is stopped. Return when that is."""
        grace = 0.0
        for attempt in self._attempts.values():
            grace = max(grace, attempt.options.grace)
            attempt.stop_sent = True
            self._talk.send(attempt, Stop("the supervisor stops"))
        self._grace = grace
        self._stop_at = self._world.monotonic() + grace
        return self._stop_at

    def stop_now(self) -> None:
        """End every attempt at once; interrupted is not failed."""
        graced = self._stop_at is not None and self._world.monotonic() >= self._stop_at
        self._stop_at = None
        for attempt in list(self._attempts.values()):
            attempt.end(interrupted(self._grace if graced else 0.0))
            self._pool.stop(attempt.worker, grace=0.0)
            self._step(attempt)
