"""A batch on its way to the supervisor: its resume point, its credit, its bytes."""

from collections.abc import Callable
from math import inf

from ipc.channel import NOTHING
from ipc.messages import Batch
from ipc.rows import array_head
from worker.batches.line import Line, Meter
from worker.batches.refusal import Leave
from worker.batches.shape import Shape
from worker.batches.trail import Trail


class Outbox:
    """Sends batches, waiting for credit.

    Args:
        line: where they go.
        trail: at the resume point that holds before the first of them.
        shape: what their rows have in common.
        meter: what is said with every batch.
        clock: monotonic seconds.
        seq: of the last batch that landed.

    Attributes:
        last_seq: of the last batch that was sent.
        sent_at: when that was.
        mark_sent_at: when a mark was last sent.
        owes_mark: a checkpoint has been set that no batch has told of.
    """

    def __init__(
        self, line: Line, trail: Trail, shape: Shape, meter: Meter, clock: Callable[[], float], *, seq: int
    ) -> None:
        self._line = line
        self._trail = trail
        self._shape = shape
        self._meter = meter
        self._clock = clock
        self.last_seq = seq
        self.sent_at = self.mark_sent_at = -inf
        self.owes_mark = False

    def checkpoint(self, mark: str) -> None:
        """Let all rows after this be rows after `mark`."""
        self._trail.checkpoint(mark)
        self.owes_mark = True

    def has_credit(self, rows: int, nbytes: int) -> bool:
        """Tell whether a batch of this size may be sent now."""
        return self._line.has_credit(len(array_head(rows)) + nbytes)

    def send(self, rows: int, encoded: memoryview, since: tuple[int, int]) -> None:
        """Send a batch; wait for credit first.

        Args:
            rows: how many rows it has.
            encoded: their encodings, one after the other.
            since: how many of the rows, and of the bytes, lie before the last checkpoint.

        Raises:
            Leave: the supervisor asked to yield while we waited; nothing was sent.
        """
        while not self.has_credit(rows, len(encoded)):
            if self._line.stopping:
                raise Leave
            self._line.wait()
        self._trail.add(rows - since[0], encoded[since[1] :])
        self.last_seq += 1
        self._line.send_batch(self._header(rows), (array_head(rows), encoded))
        self.sent_at = self._clock()
        if self.owes_mark:
            self.owes_mark, self.mark_sent_at = False, self.sent_at

    def _header(self, rows: int) -> Batch:
        shape, meter = self._shape, self._meter
        return Batch(
            seq=self.last_seq,
            count=rows,
            width=shape.width,
            blobs=shape.blobs,
            keys=shape.keys,
            point=self._trail.point(),
            done=meter.done,
            total=meter.total,
            spent=meter.spent,
            rows=NOTHING,
        )
