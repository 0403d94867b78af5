"""Cuts a stream of rows into batches (CONTRACTS K3).

    row --> buffer: | r r r | r r r r r | r r
                            ^ the last checkpoint: where a cut for size falls

A batch leaves when the next row would pass its limits, when nothing is unacknowledged, or
a second after its first row. In a replay, "leaves" means: is dropped and compared.
"""

from collections.abc import Callable, Iterator, Sequence
from math import inf
from typing import Any, Final, NoReturn

from msgspec.msgpack import Decoder

from ipc.messages import FRAME_LIMIT, UNIT_ROWS, Run, encoder
from ipc.rows import array_head
from worker.batches.line import Line, Meter
from worker.batches.outbox import Outbox
from worker.batches.refusal import Leave, Refusal
from worker.batches.replay import Replay
from worker.batches.shape import Shape, Unfit
from worker.batches.trail import Trail

LOOK: Final = 0.001
"""Seconds between two looks at the wire."""

PAUSE: Final = 0.020
"""Seconds between two batches that leave only because nothing is unacknowledged."""

AGE: Final = 1.0
"""Seconds that a row, or a mark without rows, waits at most, given credit."""

ROWS_LIMIT: Final = FRAME_LIMIT - (128 << 10)
"""Bytes of rows that fit a frame beside the longest mark and the longest keys."""

INT_MAX: Final = 2**63 - 1
UINT64: Final = b"\xcf"
"""Is part of every encoded integer over INT_MAX, and of some other things."""

decoder: Final = Decoder(list[list[Any]])


class Cutter:
    """One attempt's rows on their way out.

    Args:
        run: what to work on, and the limits.
        line: where batches go.
        shape: what rows look like.
        meter: what is said with every batch.
        clock: monotonic seconds.

    Attributes:
        over: what has ended this attempt from within a checkpoint; user code may have caught it.
    """

    def __init__(self, run: Run, line: Line, shape: Shape, meter: Meter, clock: Callable[[], float]) -> None:
        self._run = run
        self._line = line
        self._shape = shape
        self._clock = clock
        self._whole_units = run.resume == "checkpoint"
        mark = None if run.resume == "restart" else run.point.mark
        trail = Trail(mark, replayed=not self._whole_units)
        self._outbox = Outbox(line, trail, shape, meter, clock, seq=run.landed_seq)
        skips = run.resume == "replay" and run.point.skip > 0
        self._replay = Replay(run, trail, line, meter) if skips else None
        self._byte_limit = ROWS_LIMIT if self._whole_units else min(run.batch_bytes, ROWS_LIMIT)
        self._row_limit = self._row_limit_now()
        self._buffer = bytearray()
        self._count = 0
        self._unit = (0, 0)  # rows and bytes of the buffer before the last checkpoint
        self._passed = 0  # rows of this attempt that have left the buffer
        self._first_at = self._look_at = -inf
        self.over: Refusal | Leave | None = None

    @property
    def last_seq(self) -> int:
        """Return the last batch that was sent, by this attempt or one before it."""
        return self._outbox.last_seq

    def drain(self, rows: Iterator[Any]) -> Any:
        """Take rows until there are no more; return what the generator returned.

        The hot loop: it costs less than a microsecond a row, beside what the half itself does.

        Raises:
            Refusal: a row is against the rules.
            Leave: the supervisor asked to yield.
        """
        advance, clock, encode_into = rows.__next__, self._clock, encoder.encode_into
        buffer, shape = self._buffer, self._shape
        find = buffer.find
        while True:
            try:
                row = advance()
            except StopIteration as end:
                self.check()
                return end.value
            start = len(buffer)
            try:
                cells: Any = row if type(row) is shape.form else shape.cells(row)
                if (types := [*map(type, cells)]) != shape.types:
                    start = self._admit(types)
                encode_into(cells, buffer, -1)
                if find(UINT64, start) >= 0:
                    check_ints(cells)
            except (Unfit, OverflowError, UnicodeError) as error:
                raise self._unfit(error, start) from None
            except MemoryError:
                del buffer[start:]  # what was encoded so far is no row
                raise
            if self._count >= self._row_limit or len(buffer) > self._byte_limit:
                self._make_room(start)
            now = clock()
            if not self._count:
                self._first_at = now
            self._count += 1
            if now >= self._look_at:
                self._attend(now)

    def checkpoint(self, mark: str) -> None:
        """Let the rows so far be complete up to `mark`; raises like `drain`, through user code."""
        self.check()
        try:
            self._end_unit(mark)
            self._attend_checkpoint()
        except (Refusal, Leave) as over:
            self.over = over
            self._look_at = -inf
            raise

    def check(self) -> None:
        """Raise `over` again, if there is one."""
        if self.over is not None:
            raise self.over

    def finish(self) -> None:
        """Send what is left when the compute half has ended; raises like `drain`."""
        if self._count:
            self._cut(self._count, len(self._buffer))
        if self._replay is not None:
            raise self._replay.cut_short("the end")

    def salvage(self) -> None:
        """Send what is complete after the compute half has failed: it was yielded, so it lands."""
        if self.over is not None or self._replay is not None:
            return
        rows, nbytes = self._complete()
        if rows or self._outbox.owes_mark:
            self._cut(rows, nbytes)

    def _row_limit_now(self) -> int:
        if self._replay is not None:
            return min(self._run.batch_rows, self._replay.left)
        return UNIT_ROWS if self._whole_units else self._run.batch_rows

    def _complete(self) -> tuple[int, int]:
        """Say how much of the buffer could leave now: rows and bytes."""
        return self._unit if self._whole_units else (self._count, len(self._buffer))

    # --- a row needs a batch that it fits

    def _admit(self, types: list[type]) -> int:
        """Make the present batch one that a row with these cell types fits; return where the row begins."""
        if not self._shape.admit(types):
            rows, nbytes = self._complete()
            if rows:
                self._cut(rows, nbytes)
            self._shape.restart()
            for row in decoded(self._buffer, self._count):
                self._shape.admit([*map(type, row)])
            if not self._shape.admit(types):
                raise Unfit("row_type", "its width or its columns of bytes differ from its unit's")
        return len(self._buffer)

    def _make_room(self, start: int) -> None:
        """Let batches leave until the row that begins at `start` passes no limit."""
        size = len(self._buffer) - start
        if size > ROWS_LIMIT:
            why = f"it takes {size} bytes; {ROWS_LIMIT} are allowed"
            raise self._unfit(Unfit("row_too_large", why), start)
        while self._count and (self._count >= self._row_limit or len(self._buffer) > self._byte_limit):
            if self._unit[0]:
                self._cut(*self._unit)
            elif self._whole_units:
                limits = f"{ROWS_LIMIT} bytes or {UNIT_ROWS} rows"
                why = f"with it, the rows since the last checkpoint pass {limits}; set more of them"
                raise self._unfit(Unfit("unit_too_large", why), len(self._buffer) - size)
            else:
                self._cut(self._count, len(self._buffer) - size)

    def _unfit(self, error: Exception, start: int) -> Refusal:
        """Take the row that begins at `start` out of the buffer; return the refusal that names it."""
        del self._buffer[start:]
        number = self._passed + self._count + 1
        match error:
            case Unfit():
                return Refusal(error.code, f"row {number}: {error.why}")
            case UnicodeError():
                return Refusal("row_type", f"row {number}: a cell has a lone surrogate, which is no text")
            case _:
                return Refusal("row_type", f"row {number}: an int is outside of 64 bits, -2**63 to 2**63 - 1")

    # --- time and the wire

    def _attend(self, now: float) -> None:
        """Once a millisecond, at a yield: see what has come, let a batch leave whose time it is."""
        self.check()
        self._look(now)
        if self._line.stopping and self._run.resume == "replay":
            self._leave()
        rows, nbytes = self._complete()
        if rows and self._is_due(now) and self._has_credit(rows, nbytes):
            self._cut(rows, nbytes)

    def _attend_checkpoint(self) -> None:
        """At a checkpoint everything in the buffer is complete, a mark alone may leave, Stop is obeyed."""
        now = self._clock()
        if now >= self._look_at:
            self._look(now)
        if self._line.stopping:
            self._leave()
        rows, nbytes = self._unit
        is_due = self._is_full() or self._is_due(now) if rows else now - self._outbox.mark_sent_at >= AGE
        if is_due and self._has_credit(rows, nbytes):
            self._cut(rows, nbytes)

    def _end_unit(self, mark: str) -> None:
        if self._replay is not None:
            if self._count:
                self._cut(self._count, len(self._buffer))
            if self._replay is not None:
                raise self._replay.cut_short(f"mark {mark[:80]!r}")
        self._outbox.checkpoint(mark)
        self._unit = (self._count, len(self._buffer))

    def _look(self, now: float) -> None:
        self._look_at = now + LOOK
        self._line.look()

    def _is_full(self) -> bool:
        return self._count >= self._run.batch_rows or len(self._buffer) >= self._run.batch_bytes

    def _is_due(self, now: float) -> bool:
        """Tell whether a batch should leave although there is room in it."""
        if self._replay is not None and self._replay.silent:
            return True  # the first row moves the supervisor's clocks, also one that had landed
        if self._replay is None and self._line.idle:
            return now - self._outbox.sent_at >= PAUSE
        return now - self._first_at >= AGE

    def _has_credit(self, rows: int, nbytes: int) -> bool:
        return self._replay is not None or self._outbox.has_credit(rows, nbytes)

    def _leave(self) -> NoReturn:
        """End the attempt at a resume point: send what credit allows, wait for nothing."""
        rows, nbytes = self._complete()
        if self._replay is None and (rows or self._outbox.owes_mark) and self._has_credit(rows, nbytes):
            self._cut(rows, nbytes)
        raise Leave

    # --- a batch leaves

    def _cut(self, rows: int, nbytes: int) -> None:
        """Let the first rows leave the buffer; it waits for credit.

        What leaves ends at the last checkpoint or after it, so its resume point is known.
        """
        self.check()
        with memoryview(self._buffer) as buffer, buffer[:nbytes] as encoded:
            if self._replay is None:
                self._outbox.send(rows, encoded, self._unit)
            else:
                self._replay.drop(rows, encoded)
        if self._replay is not None and not self._replay.left:
            self._replay = None
        self._row_limit = self._row_limit_now()
        del self._buffer[:nbytes]
        self._count -= rows
        self._passed += rows
        self._unit = (0, 0)


def check_ints(cells: Sequence[Any]) -> None:
    """Raise OverflowError for an int of 64 bits without sign: the codec takes it, SQLite does not."""
    for cell in cells:
        if type(cell) is int and cell > INT_MAX:
            raise OverflowError(cell)


def decoded(encoded: bytes | bytearray, rows: int) -> list[list[Any]]:
    """Decode rows that this process encoded."""
    return decoder.decode(array_head(rows) + encoded)
