"""Streams of any nature, over a real socket pair: the same messages or the same refusal."""

import socket
from collections.abc import Sequence
from itertools import cycle, pairwise
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import MsgspecError, Raw
from msgspec.msgpack import encode

from ipc.channel import Channel, Pipe
from ipc.frame import HEAD, pack
from ipc.messages import (
    FRAME_LIMIT,
    Ack,
    Batch,
    Done,
    Failed,
    Progress,
    Read,
    ReadReply,
    Ready,
    ResumePoint,
    Run,
    Started,
    Stop,
    Up,
    Yielded,
    encoder,
    up_decoder,
)

# --- what may be said

counts = st.integers(0, 2**63 - 1)
some = st.none() | counts
short = st.text(max_size=12)
cells = (
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | short | st.binary(max_size=9)
)
plain = st.recursive(
    cells, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(short, inner, max_size=3)
)
raws = plain.map(lambda value: Raw(encode(value)))
points = st.builds(ResumePoint, mark=st.none() | short, skip=counts, digest=st.binary(max_size=16))
batches = st.builds(
    Batch,
    seq=counts,
    count=counts,
    width=counts,
    blobs=st.lists(counts, max_size=4),
    keys=st.none() | st.lists(short, max_size=4),
    point=points,
    done=some,
    total=some,
    spent=counts,
    rows=raws,
)
failures = st.builds(
    Failed,
    last_seq=counts,
    disposition=st.sampled_from(["retry", "fail", "optional", "skip", "unstated"]),
    code=short,
    type=short,
    message=short,
    traceback=short,
    bases=st.lists(short, max_size=3),
    retry_after=st.none() | st.floats(0, 1e9),
    spent=counts,
)
ups = st.one_of(
    st.builds(Ready, pid=st.integers(0, 2**31), kinds=st.lists(short, max_size=4)),
    st.builds(Started),
    batches,
    st.builds(Read, id=counts, verb=short, args=raws),
    st.builds(Progress, done=some, total=some, replayed=counts),
    st.builds(Yielded, last_seq=counts, spent=counts),
    st.builds(Done, last_seq=counts, result=st.none() | short, spent=counts),
    failures,
)
runs = st.builds(
    Run,
    job=counts,
    kind=short,
    payload=short,
    number=counts,
    key=st.none() | short,
    resume=short,
    point=points,
    landed_seq=counts,
    batch_rows=counts,
    batch_bytes=counts,
)
downs = st.one_of(
    runs,
    st.builds(Ack, seq=counts),
    st.builds(ReadReply, id=counts, body=raws, error=st.none() | short),
    st.builds(Stop, reason=short),
)
cuts = st.lists(st.integers(0, 4000), max_size=12)
budgets = st.lists(st.integers(1, 3000), min_size=1, max_size=4)


def pieces(stream: bytes, where: Sequence[int]) -> list[bytes]:
    edges = sorted({0, len(stream), *(cut % (len(stream) + 1) for cut in where)})
    return [stream[begin:end] for begin, end in pairwise(edges)]


# --- what becomes of it

Heard = tuple[list[bytes], str | None, int | None]
"""The messages, the code of the refusal after them, and the bytes of a frame that never became whole."""


def hear(parts: Sequence[bytes], reads: Sequence[int]) -> Heard:
    """Send the parts through a real socket pair, reading within each of `reads` bytes, to the end."""
    ours, theirs = socket.socketpair()
    channel, budget = Channel(ours), cycle(reads)
    messages: list[Up] = []
    try:
        for part in parts:
            theirs.sendall(part)
            messages += channel.receive(next(budget)).messages
        theirs.close()
        while not (last := channel.receive(next(budget))).closed and last.error is None:
            messages += last.messages
        messages += last.messages
    finally:
        channel.close()
        theirs.close()
    told = [encoder.encode(one) for one in messages]
    return (told, last.error.code, None) if last.error else (told, None, last.torn)


def expect(stream: bytes) -> Heard:
    """Read the whole stream by the rule of the format, one frame after another."""
    told: list[bytes] = []
    while len(stream) >= HEAD:
        size = int.from_bytes(stream[:HEAD], "big")
        if not 0 < size <= FRAME_LIMIT:
            return told, "frame_length", None
        if len(stream) < HEAD + size:
            break
        try:
            told.append(encoder.encode(up_decoder.decode(stream[HEAD : HEAD + size])))
        except (MsgspecError, UnicodeError):
            return told, "message", None
        stream = stream[HEAD + size :]
    return told, None, len(stream)


@settings(deadline=None)
@given(said=st.lists(ups, max_size=8), where=cuts, reads=budgets)
def test_any_slicing_of_what_a_child_may_say_gives_the_same_messages(
    said: list[Up], where: list[int], reads: list[int]
) -> None:
    """C150, C151, C160, FIELD D11."""
    bodies = [encoder.encode(one) for one in said]
    assert hear(pieces(b"".join(map(pack, bodies)), where), reads) == (bodies, None, 0)


@settings(deadline=None)
@given(said=st.lists(downs, max_size=8), where=cuts)
def test_any_slicing_of_what_a_supervisor_may_say_gives_the_same_messages(
    said: list[Any], where: list[int]
) -> None:
    """C151."""
    ours, theirs = socket.socketpair()
    pipe = Pipe(theirs.fileno())
    heard = []
    with ours, theirs:
        for part in pieces(b"".join(pack(encoder.encode(one)) for one in said), where):
            ours.sendall(part)
            heard += pipe.poll()
    assert [encoder.encode(one) for one in heard] == [encoder.encode(one) for one in said]


@settings(deadline=None)
@given(stream=st.binary(max_size=400), where=cuts, reads=budgets)
def test_any_slicing_of_any_bytes_gives_the_same_messages_or_the_same_refusal(
    stream: bytes, where: list[int], reads: list[int]
) -> None:
    """C150, C151."""
    assert hear(pieces(stream, where), reads) == expect(stream)


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A stream of good frames that something has happened to, up to four times."""
    frames = [pack(encoder.encode(one)) for one in draw(st.lists(ups, min_size=1, max_size=6))]
    for _ in range(draw(st.integers(0, 2))):
        at, other = (draw(st.integers(0, len(frames) - 1)) for _ in range(2))
        frames[at], frames[other] = frames[other], frames[at]
    stream = bytearray(b"".join(frames))
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, len(stream)))
        end = min(len(stream), at + draw(st.integers(1, 40)))
        match draw(st.sampled_from(["flip", "cut", "repeat", "insert", "end"])):
            case "flip" if at < end:
                stream[at] ^= 1 << draw(st.integers(0, 7))
            case "cut":
                del stream[at:end]
            case "repeat":
                stream[at:at] = stream[at:end]
            case "insert":
                stream[at:at] = draw(st.binary(max_size=9))
            case "end":
                del stream[end:]
    return bytes(stream)


@settings(deadline=None)
@given(stream=damaged(), where=cuts, reads=budgets)
def test_any_slicing_of_a_damaged_stream_gives_the_same_messages_or_the_same_refusal(
    stream: bytes, where: list[int], reads: list[int]
) -> None:
    """C150, C151, C155: bits flipped, bytes lost, repeated or put in, frames in another order."""
    assert hear(pieces(stream, where), reads) == expect(stream)
