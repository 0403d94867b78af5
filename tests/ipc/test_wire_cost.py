"""What a hostile child may make the supervisor hold: never a frame limit beside the frame itself."""

import select
import socket
import threading
import tracemalloc
from collections.abc import Iterator

import pytest
from msgspec import Raw
from msgspec.msgpack import encode

from ipc.channel import ENOUGH, Channel
from ipc.errors import ProtocolError
from ipc.frame import pack
from ipc.messages import (
    FRAME_LIMIT,
    KINDS_LIMIT,
    PLAIN_LIMIT,
    Batch,
    Done,
    Failed,
    Read,
    Ready,
    ResumePoint,
    Up,
    encoder,
)
from ipc.rows import array_head, decode_rows

MiB = 1 << 20


def text(size: int) -> bytes:
    """A msgpack text of `size` bytes whose last character makes every character take four."""
    return b"\xdb" + size.to_bytes(4, "big") + b"x" * (size - 4) + "\U0001f600".encode()


def many(item: bytes, size: int) -> bytes:
    return array_head(size // len(item)) + item * (size // len(item))


def pairs(size: int) -> bytes:
    return b"\xdf" + (size // 2).to_bytes(4, "big") + b"\0" * (size // 2 * 2)


def said(tag: str, *fields: bytes) -> bytes:
    return bytes([0x90 | len(fields) + 1]) + encode(tag) + b"".join(fields)


def batch(**fields: bytes) -> bytes:
    given = {
        "seq": b"\0",
        "count": b"\0",
        "width": b"\0",
        "blobs": b"\x90",
        "keys": b"\xc0",
        "point": b"\x90",
    }
    given |= {"done": b"\xc0", "total": b"\xc0", "spent": b"\0", "rows": b"\x90"}
    return said("batch", *(given | fields).values())


def failed(**fields: bytes) -> bytes:
    given = {"last_seq": b"\0", "disposition": encode("retry"), "code": b"\xa0", "type": b"\xa0"}
    given |= {"message": b"\xa0", "traceback": b"\xa0", "bases": b"\x90"}
    return said("failed", *(given | fields).values())


ROOM = FRAME_LIMIT - 200
ALMOST = PLAIN_LIMIT - 200
"""The two sizes that hurt most: a whole frame, and the most that may be decoded."""

BOMBS = {
    f"{name} in {size >> 10} KiB": body
    for size in (ROOM, ALMOST)
    for name, body in {
        "ready with kinds of nothing": said("ready", b"\1", many(b"\xa0", size)),
        "ready with kinds of two letters": said("ready", b"\1", many(b"\xa2ab", size)),
        "ready with one kind": said("ready", b"\1", b"\x91" + text(size)),
        "failed with bases of nothing": failed(bases=many(b"\xa0", size)),
        "failed with 64 long bases": failed(bases=b"\xdc\0\x40" + text(size // 64 - 8) * 64),
        "failed with a long disposition": failed(disposition=text(size)),
        "failed with a long traceback": failed(traceback=text(size)),
        "done with a long result": said("done", b"\0", text(size)),
        "read of a long verb": said("read", b"\0", text(size), b"\x80"),
        "read with a map of a million keys": said("read", b"\0", b"\xa1v", pairs(size)),
        "read with ext types": said("read", b"\0", b"\xa1v", many(b"\xd4\x05x", size)),
        "batch with a long mark": batch(point=b"\x93" + text(size) + b"\0\xc4\0"),
        "batch with blobs": batch(blobs=many(b"\xcf\x7f" + b"\xff" * 7, size)),
        "batch with keys": batch(keys=many(b"\xa2ab", size)),
        "batch with 2000 long keys": batch(keys=b"\xdc\x07\xd0" + text(size // 2000 - 8) * 2000),
        "batch of empty lists": batch(rows=many(b"\x90", size)),
        "batch of times": batch(rows=many(b"\xd6\xff\0\0\0\0", size)),
        "batch nested without end": batch(rows=b"\x91" * size),
        "batch that is a map": batch(rows=pairs(size)),
        "a tag that is no word": b"\x92" + text(size) + b"\xc0",
        "no message but a list": many(b"\x90", size),
        "no message but a map": pairs(size),
        "no message but text": text(size),
    }.items()
}
HUGE = {
    f"{name} in {where}": start + length
    for name, length in {
        "array": b"\xdd\xff\xff\xff\xff",
        "map": b"\xdf\xff\xff\xff\xff",
        "text": b"\xdb\xff\xff\xff\xff",
        "bytes": b"\xc6\xff\xff\xff\xff",
        "ext": b"\xc9\xff\xff\xff\xff\x05",
    }.items()
    for where, start in {
        "place of the message": b"",
        "its tag": b"\x92",
        "the kinds of a ready": b"\x93" + encode("ready") + b"\1",
        "the arguments of a read": b"\x94" + encode("read") + b"\0\xa1v",
        "the rows of a batch": batch()[:-1],
        "the result of a done": b"\x93" + encode("done") + b"\0",
    }.items()
}


class Feeding:
    """A thread that writes into one end of a socket pair, as a child would, while the other end reads."""

    def __init__(self, stream: bytes) -> None:
        ours, self._theirs = socket.socketpair()
        self.channel = Channel(ours)
        self._thread = threading.Thread(target=self._write, args=(stream,))

    def __enter__(self) -> "Feeding":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.channel.close()
        self._thread.join()

    def _write(self, stream: bytes) -> None:
        with self._theirs:
            try:
                self._theirs.sendall(stream)
            except (BrokenPipeError, ConnectionResetError):
                return

    def reads(self, budget: int) -> Iterator[tuple[int, int, ProtocolError | None]]:
        """Yield for each read its highest allocation, how many messages it brought, and its refusal."""
        tracemalloc.start()
        try:
            closed, error = False, None
            while not closed and error is None:
                select.select([self.channel], [], [])
                tracemalloc.reset_peak()
                got = self.channel.receive(budget)
                number, closed, error = len(got.messages), got.closed, got.error
                del got
                yield tracemalloc.get_traced_memory()[1], number, error
        finally:
            tracemalloc.stop()


def cost(body: bytes) -> tuple[int, ProtocolError | None]:
    """Receive one frame; return the highest allocation while that went on, and the refusal."""
    with Feeding(pack(body)) as feeding:
        reads = list(feeding.reads(MiB))
    return max(peak for peak, _, _ in reads), reads[-1][2]


@pytest.mark.parametrize("body", BOMBS.values(), ids=BOMBS)
def test_no_frame_takes_much_more_memory_than_it_has_bytes(body: bytes) -> None:
    """C150, K3: beside its own bytes never a frame limit; 8 MiB of text took 72, of short names 168."""
    assert len(body) <= FRAME_LIMIT
    peak, error = cost(body)
    assert peak - 1.25 * len(body) < FRAME_LIMIT
    if error is not None:
        assert error.code == "message"
        assert len(error.detail) <= 300


@pytest.mark.parametrize("body", HUGE.values(), ids=HUGE)
def test_a_length_that_is_only_declared_allocates_nothing(body: bytes) -> None:
    """C150: of an array, a map, text, bytes or an extension, wherever it stands."""
    peak, error = cost(body)
    assert error is not None
    assert error.code == "message"
    assert peak < 1.5 * MiB  # the buffer of one read, and nothing that grows with the length


CHEAP = {
    "tiny batches": batch(),
    "reads of long verbs": said("read", b"\0", text(PLAIN_LIMIT - 100), b"\x80"),
}


@pytest.mark.parametrize("body", CHEAP.values(), ids=CHEAP)
def test_messages_that_cost_nothing_to_send_are_read_a_few_at_a_time_and_none_is_lost(body: bytes) -> None:
    """C150: a frame limit of tiny batches, read at once, took 126 MiB."""
    total = ENOUGH // len(body)
    with Feeding(pack(body) * total) as feeding:
        reads = list(feeding.reads(FRAME_LIMIT))
    assert sum(number for _, number, _ in reads) == total
    assert max(peak for peak, _, _ in reads) < FRAME_LIMIT


def test_the_largest_honest_messages_pass() -> None:
    """K3, K15: every field as long as its own limit lets it be."""
    letter = "\U0001f600"
    words = [
        Ready(1, [f"{n:04}" + "k" * 124 for n in range(KINDS_LIMIT)]),
        Failed(1, "fail", "c" * 64, "t" * 128, letter * 4000, letter * 16384, [letter * 1000] * 64),
        Done(1, letter * 16384),
        Batch(1, 1, 1, [], [letter * 8] * 2000, ResumePoint("m" * 16384), 1, 1, 1, Raw(encode([[None]]))),
        Read(1, "verb", Raw(encode("x" * (FRAME_LIMIT - 100)))),
    ]
    with Feeding(b"".join(pack(encoder.encode(word)) for word in words)) as feeding:
        heard: list[Up] = []
        while len(heard) < len(words):
            select.select([feeding.channel], [], [])
            got = feeding.channel.receive(MiB)
            assert got.error is None
            heard += got.messages
    assert [encoder.encode(one) for one in heard] == [encoder.encode(word) for word in words]


@pytest.mark.parametrize("cell", [b"\xc0", b"\xa2ab", b"\xcb" + b"\x7f" * 8, b"\x90", b"\x80", b"\xd4\x05x"])
@pytest.mark.parametrize("width", [1, 2000])
def test_no_more_rows_are_decoded_than_the_header_names(cell: bytes, width: int) -> None:
    """K3: a frame full of rows under a header of 256 is refused at its first bytes, whatever they hold."""
    row = array_head(width) + cell * width
    block = Raw(many(row, ROOM))
    tracemalloc.start()
    try:
        with pytest.raises(ProtocolError):
            decode_rows(block, 256, width, [])
        assert tracemalloc.get_traced_memory()[1] < MiB
    finally:
        tracemalloc.stop()
