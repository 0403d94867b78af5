"""One attempt in flight: what was received, what landed, which clocks run, and how it ended.

    Assigned --Started--> working --ending--> (child gone, landings answered) --> finished

The first ending wins, except that a cancel overrides and a refused batch overrides `Done`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ipc.errors import ProtocolError
from ipc.messages import UNIT_ROWS, WINDOW_BATCHES, WINDOW_BYTES, Batch
from ipc.oom import Look
from ipc.rows import array_length
from landing.batches import Discard
from landing.claim import Claimed
from policies import deadlines
from policies.deadlines import Clocks
from policies.job import Outcome, Resume
from policies.options import Options, readable_options
from policies.verdict import Ended
from supervisor.application import LoadedKind
from supervisor.attempt.ending import Ending
from supervisor.attempt.view import JobView
from supervisor.children.worker import Worker

KEYS_LIMIT: Final = 64 << 10
SMALL_TALK: Final = 2000


@dataclass(slots=True)
class Attempt:
    """The state of one claim; times are monotonic seconds.

    `before` is what the kernel said of its out-of-memory killer when it began. `discard` is what the rows
    of earlier attempts still wait for; None once rows have been sent to land. `notes` are
    events that go with its receipt.
    """

    claimed: Claimed
    loaded: LoadedKind
    options: Options
    worker: Worker
    clocks: Clocks
    view: JobView
    before: Look
    discard: Discard | None = None
    started: bool = False
    received_seq: int = 0
    landed_seq: int = 0
    rows: int = 0
    done: int | None = None
    total: int | None = None
    spent: int = 0
    reads: int = 0
    replayed: int = 0
    small_talk: int = 0
    talk_since: float = 0.0
    stop_sent: bool = False
    retried_receipt: bool = False
    ack_due: bool = False
    unanswered: dict[int, int] = field(default_factory=dict)
    unanswered_bytes: int = 0
    stale: int = 0
    notes: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)
    ending: Ending | None = None
    finish_sent: Ending | None = None
    settled: bool = False

    def __post_init__(self) -> None:
        self.received_seq = self.landed_seq = self.claimed.landed_seq

    @property
    def batches(self) -> int:
        """How many batches of this attempt have landed."""
        return self.landed_seq - self.claimed.landed_seq

    @property
    def listening(self) -> bool:
        """Tell whether what the child says still counts: nothing lands once its end has been judged."""
        return self.ending is None

    def take(self, batch: Batch, now: float) -> None:
        """Take in a whole batch: check order, count and credit, restart the batch clock.

        Raises:
            ProtocolError: the child broke a rule; nothing of this batch counts.
        """
        if not self.started or batch.seq != self.received_seq + 1:
            raise ProtocolError("order", f"batch {batch.seq} came when {self.received_seq + 1} was due")
        if batch.count > (limit := self.row_limit()):
            raise ProtocolError("rows", f"{batch.count} rows in a batch, {limit} are allowed")
        if not batch.count and array_length(bytes(memoryview(batch.rows)[:5])) != 0:
            raise ProtocolError("rows", "rows in a batch that says it has none")  # nobody would decode them
        if len(self.unanswered) >= WINDOW_BATCHES:
            raise ProtocolError("credit", f"more than {WINDOW_BATCHES} batches without an answer")
        if batch.keys is not None and sum(map(len, batch.keys)) > KEYS_LIMIT:
            raise ProtocolError("rows", f"the names of the cells are over {KEYS_LIMIT} characters")
        size = len(memoryview(batch.rows))
        if self.unanswered and self.unanswered_bytes + size > WINDOW_BYTES:
            raise ProtocolError("credit", f"more than {WINDOW_BYTES} bytes without an answer")
        self.received_seq = batch.seq
        self.unanswered[batch.seq] = size
        self.unanswered_bytes += size
        self.spent = max(self.spent, batch.spent)
        self.note_progress(batch.done, batch.total)
        self.clocks = deadlines.received(self.clocks, now)
        self.tick_credit(now)

    def discard_for(self, batch: Batch) -> Discard | None:
        """Return the discard that a batch lands with: the first that has rows is the last that gets it."""
        owed = self.discard
        if batch.count:
            self.discard = None
        return owed

    def row_limit(self) -> int:
        """Return how many rows a batch may have, asked before any is decoded (CONTRACTS K3)."""
        return UNIT_ROWS if self.options.resume == Resume.CHECKPOINT else self.options.batch_rows

    def replay_reported(self, replayed: int, now: float) -> None:
        """Take a report of rows that a replay dropped, which restarts the batch clock (CONTRACTS K4).

        Raises:
            ProtocolError: there is nothing to replay, or the count does not rise.
        """
        skip = self.claimed.skip if self.options.resume == Resume.REPLAY else 0
        if not self.replayed < replayed <= skip:
            raise ProtocolError("order", f"{replayed} rows replayed after {self.replayed} of {skip}")
        self.replayed = replayed
        self.clocks = deadlines.received(self.clocks, now)

    def count_small_talk(self, now: float) -> None:
        """Count a message that costs the child nothing to send.

        Raises:
            ProtocolError: so many in a second that other children's clocks would suffer.
        """
        if now - self.talk_since >= 1.0:
            self.small_talk, self.talk_since = 0, now
        self.small_talk += 1
        if self.small_talk > SMALL_TALK:
            raise ProtocolError("flood", f"over {SMALL_TALK} messages a second that are no batch")

    def note_progress(self, done: int | None, total: int | None) -> None:
        """Keep what the child said about how far it is."""
        self.done = self.done if done is None else done
        self.total = self.total if total is None else total

    def answered(self, seq: int, now: float) -> None:
        """A landing was answered, whatever the answer: its credit is free."""
        self.unanswered_bytes -= self.unanswered.pop(seq)
        self.tick_credit(now)

    def tick_credit(self, now: float) -> None:
        """Run the batch clock only while the child can work (CONTRACTS K5)."""
        free = len(self.unanswered) < WINDOW_BATCHES and self.unanswered_bytes < WINDOW_BYTES
        step = deadlines.resumed if free and not self.reads else deadlines.stopped
        self.clocks = step(self.clocks, now)

    def end(self, ending: Ending) -> None:
        """Note how it ended, if it has not ended yet."""
        if self.ending is None:
            self.ending = ending

    def override(self, ending: Ending) -> None:
        """Note an ending that wins over the one before: a cancel, or a batch that was refused after Done."""
        if self.ending is not None and self.ending.outcome is Outcome.CANCELLED:
            return
        self.ending = ending

    def may_finish(self) -> bool:
        """Tell whether the receipt can be written now: `Done` at once, the rest when nothing is under way."""
        if self.ending is None or self.finish_sent is not None or self.settled:
            return False
        if self.ending.outcome is Outcome.DONE:
            return True
        return not self.unanswered and (self.ending.by_word or self.worker.gone)

    def ended(self) -> Ended:
        """Return the facts that the verdict is made from."""
        assert self.ending is not None
        return Ended(
            outcome=self.ending.outcome,
            disposition=self.ending.disposition,
            bases=self.ending.bases,
            retry_after=self.ending.retry_after,
            started=self.started,
            landed=self.batches > 0,
        )


def with_own_limits(options: Options, own: Mapping[str, Any]) -> Options:
    """Return the kind's limits with the job's own over them; what is stored and unreadable counts as none."""
    return readable_options(own, options)
