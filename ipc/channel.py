"""The two ends of the wire: one socketpair, frames both ways, a bound on every direction.

    supervisor   Channel   never blocks; queues what the child does not take, reads within a budget
    child        Pipe      blocks; the supervisor always reads, so a full socket is only a pause

Both own their buffers: every complete frame is parsed before anybody waits again (SPEC C160).
"""

import os
import select
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final, TypeVar

from msgspec import MsgspecError, Raw, Struct
from msgspec.msgpack import Decoder

from ipc.errors import ChannelClosed, ChannelFull, ProtocolError
from ipc.frame import Splitter, head, pack
from ipc.messages import (
    FRAME_LIMIT,
    PLAIN_LIMIT,
    Down,
    Up,
    down_decoder,
    encoder,
    large_decoders,
    up_decoder,
)

if TYPE_CHECKING:
    from socket import socket

SHUT_WR: Final = 1
"""`socket.SHUT_WR`; importing socket would cost every child some ms."""

Message = TypeVar("Message")

QUEUE_LIMIT: Final = 2 * FRAME_LIMIT
"""Bytes that may wait for a child that does not read."""

PIECE: Final = 256 << 10
"""Bytes asked for in one read: more than a socket of this family holds by default."""

ENOUGH: Final = 1 << 20
"""Bytes in whole messages after which one call reads no further: text takes up to five times its bytes
once decoded, and a frame limit of it would be held at once."""

EACH: Final = 512
"""Bytes that a message counts for beside its own: the smallest take twenty times theirs."""

DETAIL: Final = 300
"""Characters of what the codec says is wrong: it may quote all that was sent."""

NOTHING: Final = Raw(b"\xc0")
"""Stands for the last field of a message whose bytes follow separately (see `Pipe.send`)."""


class Received(Struct, frozen=True):
    """What one call of `Channel.receive` brought.

    `messages` came first; then, if there is one, `error`: the other side broke the
    protocol and is not listened to again. `torn` bytes of an unfinished frame are
    held; with `closed` they are the end of a frame that will never come.
    """

    messages: list[Up]
    nbytes: int
    closed: bool
    torn: int
    error: ProtocolError | None


class Channel:
    """The supervisor's end; never blocks.

    Args:
        sock: one end of an AF_UNIX stream pair; owned and closed by this object.
    """

    def __init__(self, sock: "socket") -> None:
        from ipc.inlet import Inlet  # noqa: PLC0415 - no child needs it

        sock.setblocking(False)
        self._sock = sock
        self._inlet = Inlet(sock)
        self._unsent = bytearray()
        self._splitter = Splitter()
        self._error: ProtocolError | None = None

    def fileno(self) -> int:
        """Return the descriptor to wait on."""
        return self._sock.fileno()

    @property
    def wants_write(self) -> bool:
        """Tell whether bytes wait until the descriptor takes more."""
        return bool(self._unsent)

    def send(self, message: Down) -> None:
        """Queue one message and write what fits.

        Raises:
            ChannelFull: the child has left too much unread; nothing of this message is sent.
            ChannelClosed: the child is gone; what it sent before can still be received.
            ProtocolError: with code "frame_length" when the message is larger than a frame.
        """
        frame = pack(encoder.encode(message))
        if len(self._unsent) + len(frame) > QUEUE_LIMIT:
            raise ChannelFull(f"{len(self._unsent)} bytes wait unread; {QUEUE_LIMIT} are allowed")
        self._unsent += frame
        self.flush()

    def flush(self) -> None:
        """Write what the socket takes now; raises ChannelClosed like `send`."""
        try:
            while self._unsent:
                del self._unsent[: self._sock.send(self._unsent)]
        except BlockingIOError:
            return
        except (BrokenPipeError, ConnectionResetError) as error:
            self._unsent.clear()
            raise ChannelClosed("the child has closed its end") from error

    def receive(self, budget: int) -> Received:
        """Read at most `budget` bytes of what is there and decode every complete frame.

        It ends early once it has whole messages of a MiB; what is left wakes the next wait.
        """
        messages: list[Up] = []
        nbytes, weight, closed = 0, 0, False
        while self._error is None and not closed and nbytes < budget and weight < ENOUGH:
            try:
                if (chunk := self._read(min(PIECE, budget - nbytes))) is None:
                    break
                nbytes += len(chunk)
                closed = not chunk
                for body in self._splitter.feed(chunk):
                    messages.append(decode_up(body))
                    weight += EACH + len(body)
            except ProtocolError as error:
                self._error = error
        return Received(messages, nbytes, closed, self._splitter.pending, self._error)

    def hang_up(self) -> None:
        """Say nothing more: the child reads end-of-file, what it sends is still received."""
        self._unsent.clear()
        with suppress(OSError):
            self._sock.shutdown(SHUT_WR)

    def close(self) -> None:
        """Close the descriptor; the child reads end-of-file."""
        self._inlet.close()

    def _read(self, size: int) -> bytes | None:
        """Read once: None when nothing is there, b"" at the end; raises ProtocolError like `Inlet.recv`.

        A peer that died with bytes unread makes a reset out of the end of the stream.
        """
        try:
            return self._inlet.recv(size)
        except BlockingIOError:
            return None
        except ConnectionResetError:
            return b""


class Pipe:
    """The child's end; blocks, even when user code took the descriptor out of that mode. One thread uses it.

    Args:
        fd: a descriptor of one end of an AF_UNIX stream pair.

    Attributes:
        closed: the supervisor is gone; what it sent before may still be received.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._splitter = Splitter()
        self._inbox: deque[Down] = deque()
        self._readable = select.poll()
        self._readable.register(fd, select.POLLIN)
        self._cut_off = False
        self.closed = False

    def recv(self) -> Down | None:
        """Wait for the next message; None at the end of the stream."""
        while not self._inbox and not self.closed:
            self._read()
        return self._inbox.popleft() if self._inbox else None

    def poll(self) -> list[Down]:
        """Return the messages that are there, without waiting."""
        while not self.closed and self._readable.poll(0):
            self._read()
        messages = list(self._inbox)
        self._inbox.clear()
        return messages

    def send(self, message: Up, tail: Sequence[bytes | memoryview] = ()) -> int:
        """Write one message and return how many bytes its frame had.

        Args:
            message: what to say.
            tail: the encoding of the message's last field, in pieces, where that field is
                `NOTHING`: rows go out from where they lie, without being copied.

        Raises:
            ChannelClosed: the supervisor is gone, or an earlier frame was cut off, which nothing may follow.
            ProtocolError: with code "frame_length" when the message is larger than a frame.
        """
        if self._cut_off:
            raise ChannelClosed("a frame was cut off")
        body: bytes | memoryview = encoder.encode(message)
        if tail:
            body = memoryview(body)[:-1]
        parts = [body, *tail]
        parts.insert(0, head(sum(map(len, parts))))
        try:
            return write_all(self._fd, parts)
        except (BrokenPipeError, ConnectionResetError) as error:
            self.closed = True
            raise ChannelClosed("the supervisor has closed its end") from error
        except BaseException:  # also what a signal handler of the user's raises, at any byte
            self._cut_off = True
            raise

    def give_up(self) -> None:
        """Say and hear nothing any more: this process is a copy of the one that the wire belongs to."""
        self.closed = self._cut_off = True
        with suppress(OSError):  # user code may have closed it
            os.close(self._fd)

    def _read(self) -> None:
        try:
            chunk = os.read(self._fd, PIECE)
        except BlockingIOError:
            self._readable.poll()
            return
        except ConnectionResetError:
            chunk = b""
        self.closed = not chunk
        self._inbox.extend(decode(body, down_decoder) for body in self._splitter.feed(chunk))


def decode_up(body: bytes | bytearray) -> Up:
    """Decode what a child said; raises like `decode`, before anything is allocated that is over the frame."""
    if len(body) > PLAIN_LIMIT:
        weigh(body)
    return decode(body, up_decoder)


def weigh(body: bytes | bytearray) -> None:
    """Refuse a large body, unless it is large by its last field alone, which stays as it is."""
    if (decoder := large_decoders.get(body[0])) is None:
        raise ProtocolError("message", f"{len(body)} bytes in a message that is no Batch and no Read")
    *plain, _raw = decode(body, decoder)
    if (size := sum(len(memoryview(one)) for one in plain)) > PLAIN_LIMIT:
        raise ProtocolError("message", f"{size} bytes beside the last field; {PLAIN_LIMIT} are allowed")


def decode(body: bytes | bytearray, decoder: Decoder[Message]) -> Message:
    """Decode one body; anything but a message of ours is a ProtocolError with code "message"."""
    try:
        return decoder.decode(body)
    except (MsgspecError, UnicodeError, RecursionError) as error:
        raise ProtocolError("message", str(error)[:DETAIL]) from None


def write_all(fd: int, parts: Sequence[bytes | memoryview]) -> int:
    """Write all of `parts`, waiting for room; return how many bytes that was."""
    total = sum(map(len, parts))
    written = write(fd, parts)
    if written < total:
        rest = memoryview(b"".join(parts))
        while written < total:
            written += write(fd, [rest[written:]])
    return total


def write(fd: int, parts: Sequence[bytes | memoryview]) -> int:
    """Write what fits; wait for room where the descriptor does not, and return 0."""
    try:
        return os.writev(fd, parts)
    except BlockingIOError:
        room = select.poll()
        room.register(fd, select.POLLOUT)
        room.poll()
        return 0
