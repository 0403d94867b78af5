"""What the compute half is given: the job, and the few things it may ask for."""

from _thread import get_ident
from collections.abc import Callable
from math import inf
from typing import Any, Final, TypeVar

from msgspec import Raw, Struct
from msgspec.msgpack import Decoder

from ipc.messages import MARK_LIMIT, Progress, Read, encoder
from worker.batches.cutter import Cutter
from worker.batches.line import Line, Meter

PROGRESS_PAUSE: Final = 0.25
"""Seconds between two reports of progress that no batch carries."""

READ_LIMIT: Final = 4 << 20
"""Bytes in the arguments of a read (CONTRACTS K16)."""

COUNT_LIMIT: Final = 2**63 - 1

decoder: Final = Decoder()

Kept = TypeVar("Kept")
in_use: Final[dict[Callable[[], Any], Any]] = {}
"""What this child keeps from one job to the next, by what loaded it."""


class ReadFailed(Exception):
    """The supervisor did not answer a read: it knows no such read, or the read raised."""


class Job(Struct, frozen=True):
    """The job as a compute half sees it; `attempt` is the number of this attempt, from 1."""

    id: int
    kind: str
    payload: Any
    key: str | None
    attempt: int


class Context:
    """`ctx` of a compute half; belongs to the thread that runs it (CONTRACTS K13).

    Attributes:
        resume: the last mark that landed, or None.
    """

    def __init__(
        self, resume: str | None, cutter: Cutter, line: Line, meter: Meter, clock: Callable[[], float]
    ) -> None:
        self.resume = resume
        self._cutter = cutter
        self._line = line
        self._meter = meter
        self._clock = clock
        self._thread: int | None = get_ident()
        self._reads = 0
        self._progress_at = -inf

    def checkpoint(self, mark: str) -> None:
        """Say that everything yielded so far is complete up to `mark`.

        Raises:
            TypeError: the mark is no text.
            ValueError: it has more than 16 KiB, or a lone surrogate.
        """
        self._check_thread("checkpoint")
        if not isinstance(mark, str):
            raise TypeError(no_mark(mark))
        text = str.__str__(mark)  # exactly text, whatever a subclass makes of itself
        if (size := len(text.encode())) > MARK_LIMIT:
            raise ValueError(f"a mark of {size} bytes; {MARK_LIMIT} are allowed")
        self._cutter.checkpoint(text)

    def use(self, load: Callable[[], Kept]) -> Kept:
        """Return what `load()` made when this child first asked for it, as a model that is slow to load.

        A child that runs several jobs (`jobs_per_child`) keeps it between them. What `load` raises is raised
        here, and the next call tries again.

        Args:
            load: a function of a module; by it the thing is known, so a lambda would be loaded each time.
        """
        self._check_thread("use")
        if load not in in_use:
            in_use[load] = load()
        kept: Kept = in_use[load]
        return kept

    def read(self, query: Any, /, **args: Any) -> Any:
        """Run a registered read in the supervisor and return its answer; it sees landed rows only.

        Args:
            query: the read, or its name.
            args: what it is called with: plain data.

        Raises:
            ReadFailed: the supervisor refused or the read raised.
            TypeError: an argument is no plain data.
            ValueError: the arguments take more than 4 MiB.
        """
        self._check_thread("read")
        packed = encoder.encode(args)
        if len(packed) > READ_LIMIT:
            raise ValueError(f"the arguments of a read take {len(packed)} bytes; {READ_LIMIT} are allowed")
        self._reads += 1
        verb = query if isinstance(query, str) else query.name
        reply = self._line.ask(Read(self._reads, verb, Raw(packed)))
        if reply.error is not None:
            raise ReadFailed(reply.error)
        return decoder.decode(reply.body)

    def progress(self, done: int, total: int | None = None) -> None:
        """Say how far the work is: whole numbers; shown to people, moves no clock."""
        self._check_thread("progress")
        self._meter.done = count_of("done", done)
        self._meter.total = None if total is None else count_of("total", total)
        now = self._clock()
        if now - self._progress_at >= PROGRESS_PAUSE:
            self._progress_at = now
            self._line.send(Progress(self._meter.done, self._meter.total))

    def spend(self, micros: int) -> None:
        """Add to what this attempt has cost, in millionths of the currency."""
        self._check_thread("spend")
        self._meter.spent = count_of("spent", self._meter.spent + count_of("micros", micros))

    def log(self, message: str) -> None:
        """Write one line into the job's log tail."""
        self._check_thread("log")
        line = str(message).replace("\r", "\\r").replace("\n", "\\n")
        self._line.log(line.encode("utf-8", "backslashreplace") + b"\n")

    def close(self) -> None:
        """Let nothing be asked for any more: the attempt has ended."""
        self._thread = None

    def _check_thread(self, name: str) -> None:
        self._cutter.check()
        if self._thread is None:
            raise RuntimeError(f"ctx.{name} was called after its job had ended")
        if get_ident() != self._thread:
            raise RuntimeError(
                f"ctx.{name} was called from another thread; ctx belongs to the compute half's"
            )


def no_mark(value: object) -> str:
    """Say that something else was given as a mark, and how to write it; a number is easy to read back."""
    name = type(value).__name__
    back = f", and {name}(ctx.resume) to read it back" if type(value) in {int, float} else ""
    return f"a mark is text, not {name}; ctx.checkpoint(str(...)){back}"


def count_of(name: str, value: int) -> int:
    """Return a count that the wire can carry, or raise in the compute half."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} is a whole number, not {type(value).__name__}")
    if not 0 <= value <= COUNT_LIMIT:
        raise ValueError(f"{name} is {value}; 0 to {COUNT_LIMIT} are allowed")
    return int(value)
