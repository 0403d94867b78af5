"""The wire during one attempt: credit, Stop, answers to reads.

Credit bounds what the supervisor may have to hold for this child: so many batches
and so many bytes that it has not acknowledged. A batch larger than the bytes travels alone.
"""

from collections import deque
from collections.abc import Sequence

from msgspec import Struct

from ipc.channel import Pipe
from ipc.errors import ChannelClosed, ProtocolError
from ipc.messages import Ack, Batch, Down, Read, ReadReply, Run, Stop, Up
from worker.host import PROCESS, Host


class Meter(Struct):
    """What the compute half last said of its work; travels with every batch."""

    done: int | None = None
    total: int | None = None
    spent: int = 0


class Line:
    """Sends for one attempt and obeys what comes back; has its host leave when nobody is there.

    Attributes:
        stopping: the supervisor asked this attempt to yield.
    """

    def __init__(self, pipe: Pipe, run: Run, host: Host = PROCESS) -> None:
        self._pipe = pipe
        self._host = host
        self._window = run.window
        self._window_bytes = run.window_bytes
        self._unacked: deque[tuple[int, int]] = deque()
        self._unacked_bytes = 0
        self._reply: ReadReply | None = None
        self.stopping = False

    @property
    def idle(self) -> bool:
        """Tell whether everything sent has been acknowledged."""
        return not self._unacked

    def has_credit(self, nbytes: int) -> bool:
        """Tell whether a batch with `nbytes` of rows may be sent now."""
        if not self._unacked:
            return True
        return len(self._unacked) < self._window and self._unacked_bytes + nbytes <= self._window_bytes

    def look(self) -> None:
        """Take what has come, without waiting."""
        for message in self._pipe.poll():
            self._take(message)
        if self._pipe.closed:
            self._host.leave()

    def wait(self) -> None:
        """Wait for one message and take it."""
        if (message := self._pipe.recv()) is None:
            self._host.leave()
        self._take(message)

    def send(self, message: Up, tail: Sequence[bytes | memoryview] = ()) -> None:
        """Send a message as `Pipe.send` does; it takes no credit."""
        try:
            self._pipe.send(message, tail)
        except ChannelClosed:
            self._host.leave()

    def send_batch(self, batch: Batch, rows: Sequence[bytes | memoryview]) -> None:
        """Send a batch, its rows in pieces, and charge them to the credit until an Ack covers it."""
        self.send(batch, rows)
        self._unacked.append((batch.seq, nbytes := sum(map(len, rows))))
        self._unacked_bytes += nbytes

    def ask(self, read: Read) -> ReadReply:
        """Send a read and wait for its answer, obeying whatever comes before it."""
        self.send(read)
        while self._reply is None or self._reply.id != read.id:
            self.wait()
        return self._reply

    def log(self, line: bytes) -> None:
        """Write one line into the job's log tail."""
        self._host.write(line)

    def _take(self, message: Down) -> None:
        match message:
            case Ack():
                while self._unacked and self._unacked[0][0] <= message.seq:
                    self._unacked_bytes -= self._unacked.popleft()[1]
            case ReadReply():
                self._reply = message
            case Stop():
                self.stopping = True
            case _:
                raise ProtocolError("order", f"{type(message).__name__} came while a job is under way")
