"""What passes between one attempt and the world: the child's messages in, landings out, answers back.

child --Batch--> Land --> lander --Landed--> count, ack
child --Read---> question --> reader --> ReadReply
child --Done, Failed, Yielded--> the attempt's ending
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from msgspec import Raw

from ipc.errors import ChannelFull, ProtocolError
from ipc.messages import (
    Ack,
    Batch,
    Done,
    Failed,
    Progress,
    Read,
    ReadReply,
    Ready,
    Run,
    Started,
    Stop,
    Up,
    Yielded,
)
from landing.batches import Land, Landed
from landing.faults import Reach, unarmed
from landing.lander import Lander, Raised
from landing.lease import Start
from landing.reader import Reader
from policies.job import Outcome
from supervisor import events, faults
from supervisor.attempt.ending import Ending, landing_failed, raised, refused
from supervisor.attempt.questions import answer, question, refusal
from supervisor.attempt.rows import rows_of
from supervisor.attempt.state import Attempt
from supervisor.children.pool import Pool

REFUSED: Final = frozenset({"lander", "discard", "row_type"})
"""Codes of endings that a batch brought about; what lands after it fails of that alone."""


@dataclass(frozen=True, slots=True)
class World:
    """What dispatch is given: who it is, its clocks and dice, and whom it tells."""

    run: int
    pid: int
    slots: int
    monotonic: Callable[[], float]
    now: Callable[[], int]
    fence: Callable[[], str]
    report: events.Report
    reach: Reach = unarmed


class Conversation:
    """Carries out what messages and answers ask for. `step(attempt)` is called after each change."""

    def __init__(
        self, world: World, pool: Pool, lander: Lander, reader: Reader, step: Callable[[Attempt], None]
    ) -> None:
        self._world = world
        self._pool = pool
        self._lander = lander
        self._reader = reader
        self._step = step

    def send(self, attempt: Attempt, message: Run | Ack | ReadReply | Stop) -> None:
        """Queue a message to the child; one that leaves too much unread is refused."""
        begin, done = (faults.ACK, faults.ACKED) if isinstance(message, Ack) else (faults.SEND, faults.SENT)
        self._world.reach(begin)
        try:
            self._pool.send(attempt.worker, message)
            self._world.reach(done)
        except ChannelFull:
            self.refuse(attempt, "unread", "the worker does not read what it is sent")

    def take(self, attempt: Attempt, message: Up) -> None:
        """Take one message.

        Raises:
            ProtocolError: it breaks a rule of the wire.
        """
        self._world.reach(faults.RECEIVE)
        match message:
            case Started():
                self._started(attempt)
            case Batch():
                self._batch(attempt, message)
            case Progress():
                attempt.count_small_talk(self._world.monotonic())
                attempt.note_progress(message.done, message.total)
                if message.replayed:
                    attempt.replay_reported(message.replayed, self._world.monotonic())
            case Read():
                attempt.count_small_talk(self._world.monotonic())
                self._read(attempt, message)
            case Done() | Failed() | Yielded():
                self._word(attempt, message)
            case Ready():
                raise ProtocolError("order", "Ready came from a child at work")

    def _started(self, attempt: Attempt) -> None:
        if attempt.started:
            raise ProtocolError("order", "Started came twice")
        attempt.started = True
        claimed = attempt.claimed
        self._world.report(events.JobStarted(claimed.job, claimed.kind, claimed.number))
        if attempt.loaded.profile.thread:  # its claim has said so
            return
        start = Start(claimed.job, claimed.fence, attempt.worker.child.pid)
        self._lander.submit(start, lambda reply: self._start_answered(attempt, reply))

    def _start_answered(self, attempt: Attempt, reply: Any) -> None:
        if isinstance(reply, Raised):
            self.cannot_land(attempt, reply.error)
        elif not reply:
            self.lost(attempt)

    def _batch(self, attempt: Attempt, batch: Batch) -> None:
        attempt.take(batch, self._world.monotonic())
        claimed, lane = attempt.claimed, attempt.loaded.lane
        assert lane.land is not None, "a kind without a lander is not loaded"
        land = Land(
            job=claimed.job,
            run=self._world.run,
            fence=claimed.fence,
            seq=batch.seq,
            count=batch.count,
            point={"mark": batch.point.mark, "skip": batch.point.skip, "digest": batch.point.digest},
            done=batch.done,
            total=batch.total,
            spent=batch.spent,
            rows=lambda: rows_of(batch, lane.rows),
            land=lane.land,
            view=attempt.view,
            discard=attempt.discard_for(batch),
        )
        self._lander.submit(land, lambda reply: self._landed(attempt, land, reply))

    def _read(self, attempt: Attempt, read: Read) -> None:
        if attempt.reads:
            raise ProtocolError("order", "a read came while one was unanswered")
        asked = question(read, attempt.loaded.reads)
        if isinstance(asked, str):
            self.send(attempt, refusal(read.id, asked))
            return
        attempt.reads += 1
        attempt.tick_credit(self._world.monotonic())
        self._reader.submit(*asked, lambda reply: self._answered(attempt, answer(read.id, reply)))

    def _answered(self, attempt: Attempt, reply: ReadReply) -> None:
        attempt.reads -= 1
        attempt.tick_credit(self._world.monotonic())
        if not attempt.worker.gone:
            self.send(attempt, reply)

    def _word(self, attempt: Attempt, message: Done | Failed | Yielded) -> None:
        if not attempt.started and not (isinstance(message, Failed) and message.disposition != "skip"):
            raise ProtocolError("order", f"{type(message).__name__} came before Started")
        if attempt.reads:  # its answer would reach the child's next job
            raise ProtocolError("order", f"{type(message).__name__} came while a read was unanswered")
        if isinstance(message, Yielded) and not attempt.stop_sent:
            raise ProtocolError("order", "Yielded came, but nobody had asked for it")
        if isinstance(message, Done) and not is_json(message.result):
            raise ProtocolError("result", "the result is no JSON")
        if message.last_seq != attempt.received_seq:
            raise ProtocolError(
                "order", f"the last batch was {attempt.received_seq}, the child says {message.last_seq}"
            )
        attempt.spent = max(attempt.spent, message.spent)
        match message:
            case Done():
                attempt.end(Ending(outcome=Outcome.DONE, by_word=True, result=message.result))
            case Failed():
                attempt.end(raised(message, attempt.loaded.closed))
            case Yielded():
                attempt.end(Ending(outcome=Outcome.YIELDED, by_word=True))
        self._pool.rest(attempt.worker, attempt.options)

    def late(self, attempt: Attempt, message: Up) -> None:
        """An attempt that has been judged said something: it changes nothing, a batch is counted as stale."""
        if not isinstance(message, Batch):
            return
        if not attempt.stale:
            self._world.report(events.StaleBatch(attempt.claimed.job, message.seq))
        attempt.stale += 1

    def refuse(self, attempt: Attempt, code: str, text: str) -> None:
        """End an attempt whose worker broke a rule: it is killed and nothing more of it is read."""
        attempt.end(refused(code, text))
        self._pool.stop(attempt.worker, grace=0.0)

    # --- what the lander says

    def _landed(self, attempt: Attempt, land: Land, reply: Any) -> None:
        attempt.answered(land.seq, self._world.monotonic())
        match reply:
            case Landed.LANDED:
                self._count(attempt, land)
            case Landed.STALE if attempt.ending is None or attempt.ending.outcome is Outcome.DONE:
                self._world.report(events.StaleBatch(land.job, land.seq))
                self.lost(attempt)
            case Raised(error) if attempt.ending is None or attempt.ending.code not in REFUSED:
                self.cannot_land(attempt, error)
        self._step(attempt)

    def cannot_land(self, attempt: Attempt, error: Exception) -> None:
        """What the child sends can no longer land: its later batches are dropped, it is stopped."""
        attempt.override(landing_failed(error))
        self._pool.stop(attempt.worker, grace=attempt.options.grace)

    def _count(self, attempt: Attempt, land: Land) -> None:
        attempt.landed_seq = land.seq
        attempt.rows += land.count
        attempt.ack_due = True
        claimed = attempt.claimed
        self._world.report(
            events.BatchLanded(
                claimed.job, claimed.kind, attempt.rows, attempt.batches, attempt.done, attempt.total
            )
        )

    def lost(self, attempt: Attempt) -> None:
        """The fence is dead: only a cancel does that to an attempt of ours."""
        attempt.override(Ending(outcome=Outcome.CANCELLED, code="cancelled", hung=True))
        self._pool.stop(attempt.worker, grace=attempt.options.grace, asks=True)


def is_json(text: str | None) -> bool:
    """Tell whether a result is JSON text, or none."""
    try:
        return text is None or msgspec.json.decode(text, type=Raw) is not None
    except msgspec.DecodeError:
        return False
