"""One attempt: enter the compute half, take its rows, and find the last word on it."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from types import GeneratorType
from typing import Any, Final

from ipc.capture import capture, frame_text, frames_of
from ipc.channel import Pipe
from ipc.messages import Done, Failed, Run, Up, Yielded
from worker.batches.cutter import Cutter
from worker.batches.line import Line, Meter
from worker.batches.refusal import Leave, Refusal
from worker.batches.shape import Shape
from worker.context import Context, Job
from worker.host import PROCESS, Gone, Host
from worker.projection import project
from worker.registry import Lane

NO_ROWS: Final = (str, bytes, bytearray, dict)
"""Can be iterated, and are results when a compute half returns them."""


class Answer:
    """What a half returned as its result, though it may be something that has items."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


class Attempt:
    """What one job needs while it runs.

    Args:
        pipe: the wire.
        run: what to work on.
        lane: how.
        clock: monotonic seconds.
        host: whose guest it is.
    """

    def __init__(
        self, pipe: Pipe, run: Run, lane: Lane, clock: Callable[[], float], host: Host = PROCESS
    ) -> None:
        self._lane = lane
        self._meter = Meter()
        self._line = Line(pipe, run, host)
        self._cutter = Cutter(run, self._line, Shape(lane.rows), self._meter, clock)
        resume = None if run.resume == "restart" else run.point.mark
        self._ctx = Context(resume, self._cutter, self._line, self._meter, clock)
        self._rows: Iterator[Any] | None = None

    def make(self, job: Job) -> Up:
        """Run the compute half to its end, whatever that is; return Done, Failed or Yielded."""
        word: Up
        try:
            word = self._compute(job)
        except BaseException as error:  # noqa: BLE001 - user code may raise anything, SystemExit too
            word = self._end(self._cutter.over or error)
        self._ctx.close()
        return word

    def _compute(self, job: Job) -> Done:
        answer = self._lane.compute(job, self._ctx)
        if isinstance(answer, Answer):
            answer = answer.value
        elif is_rows(answer):
            self._rows = iter(answer)
            answer = self._cutter.drain(self._rows)
        self._cutter.check()
        self._cutter.finish()
        result = None if answer is None else project(answer)
        return Done(self._cutter.last_seq, result, self._meter.spent)

    def _end(self, error: BaseException) -> Yielded | Failed:
        """Send what is complete, close the compute half, say how it ended."""
        if isinstance(error, Leave):
            self._close(error)
            return Yielded(self._cutter.last_seq, self._meter.spent)
        if isinstance(error, Gone):
            self._close(error)
            raise error
        with suppress(Leave, Refusal, MemoryError):
            self._cutter.salvage()
        word = self._refused(error) if isinstance(error, Refusal) else self._raised(error)
        self._close(error)
        return word

    def _refused(self, refusal: Refusal) -> Failed:
        return Failed(
            self._cutter.last_seq,
            disposition="unstated",
            code=refusal.code,
            type=refusal.code,
            message=refusal.message,
            traceback=frames_of(refusal) or place_of(self._rows),
            spent=self._meter.spent,
        )

    def _raised(self, error: BaseException) -> Failed:
        captured = capture(error)
        return Failed(
            self._cutter.last_seq,
            disposition=captured.disposition,
            code="",
            type=captured.type,
            message=captured.message,
            traceback=captured.traceback,
            bases=captured.bases,
            retry_after=captured.retry_after,
            spent=self._meter.spent,
        )

    def _close(self, error: BaseException) -> None:
        """End a generator that waits at a yield; its own cleanup can no longer send anything."""
        if self._cutter.over is None:
            self._cutter.over = error if isinstance(error, Leave | Refusal) else Leave()
        if isinstance(self._rows, GeneratorType):
            with suppress(BaseException):
                self._rows.close()


def is_rows(answer: Any) -> bool:
    """Tell whether what a compute half returned are its rows; anything else is its result.

    Raises:
        Refusal: the compute half is async.
    """
    kind = type(answer)
    if hasattr(kind, "__aiter__") or hasattr(kind, "__await__"):
        with suppress(AttributeError):
            answer.close()
        raise Refusal("row_type", "the compute half is async; it must be a plain generator or function")
    return hasattr(kind, "__iter__") and not issubclass(kind, NO_ROWS)


def place_of(rows: Any) -> str:
    """Return the line at which a generator waits, in the innermost one it delegates to."""
    while isinstance(rows, GeneratorType) and isinstance(rows.gi_yieldfrom, GeneratorType):
        rows = rows.gi_yieldfrom
    frame = rows.gi_frame if isinstance(rows, GeneratorType) else None
    return "" if frame is None else frame_text(frame, frame.f_lineno)
