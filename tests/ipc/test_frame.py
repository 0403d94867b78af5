"""Frames out of a stream that arrives in any pieces (SPEC C150)."""

import tracemalloc
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ipc.errors import ProtocolError
from ipc.frame import HEAD, Splitter, head, pack
from ipc.messages import FRAME_LIMIT

LIMIT = 40
bodies = st.lists(st.binary(min_size=1, max_size=LIMIT), max_size=8)
cuts = st.lists(st.integers(0, 400), max_size=12)


def pieces(stream, where):
    edges = sorted({0, len(stream), *(cut for cut in where if cut < len(stream))})
    return [stream[begin:end] for begin, end in pairwise(edges)]


def feed_all(splitter, parts):
    """Return the bodies, and the refusal that ended them if there was one."""
    found = []
    for part in parts:
        try:
            for body in splitter.feed(part):
                found.append(bytes(body))  # noqa: PERF401 - those before a refusal count
        except ProtocolError as error:
            return found, (error.code, error.detail)
    return found, None


@settings(deadline=None)
@given(sent=bodies, where=cuts)
def test_any_slicing_gives_the_same_frames(sent, where):
    """C150, FIELD D11."""
    splitter = Splitter(LIMIT)
    assert feed_all(splitter, pieces(b"".join(map(pack, sent)), where)) == (sent, None)
    assert splitter.pending == 0


@settings(deadline=None)
@given(stream=st.binary(max_size=300), where=cuts)
def test_any_slicing_of_any_bytes_gives_the_same_frames_or_the_same_refusal(stream, where):
    """C150."""
    whole, sliced = Splitter(LIMIT), Splitter(LIMIT)
    assert feed_all(sliced, pieces(stream, where)) == feed_all(whole, [stream])


@settings(deadline=None)
@given(
    sent=bodies,
    where=cuts,
    bad=st.sampled_from([0, LIMIT + 1, 2**31, 2**32 - 1, 2**32 - 2]),
    rest=st.binary(),
)
def test_frames_before_a_bad_length_are_delivered_before_the_refusal(sent, where, bad, rest):
    """C150: a length of 0, over the limit, or what a writer meant as -1 or -2."""
    splitter = Splitter(LIMIT)
    stream = b"".join(map(pack, sent)) + bad.to_bytes(4, "big") + rest
    found, refusal = feed_all(splitter, pieces(stream, where))
    assert found == sent
    assert refusal == ("frame_length", f"a frame of {bad} bytes; 1 to {LIMIT} are allowed")


def test_a_refused_stream_stays_refused():
    splitter = Splitter(LIMIT)
    for part in (b"\0\0\0\0", pack(b"fine"), b"x"):
        with pytest.raises(ProtocolError):
            list(splitter.feed(part))


def test_a_bad_length_is_refused_before_anything_is_allocated():
    """C150."""
    splitter = Splitter()
    tracemalloc.start()
    try:
        with pytest.raises(ProtocolError):
            list(splitter.feed((2**31 - 1).to_bytes(4, "big") + b"x" * 100))
        assert tracemalloc.get_traced_memory()[1] < 20_000
    finally:
        tracemalloc.stop()


def test_the_torn_rest_is_counted():
    splitter = Splitter(LIMIT)
    assert list(splitter.feed(pack(b"abc") + b"\0\0")) == [b"abc"]
    assert splitter.pending == 2
    assert list(splitter.feed(b"\0\5he")) == []
    assert splitter.pending == 6
    assert list(splitter.feed(b"llo" + pack(b"!"))) == [b"hello", b"!"]
    assert splitter.pending == 0
    one_by_one = [list(splitter.feed(bytes([byte]))) for byte in pack(b"hi")]
    assert one_by_one == [[], [], [], [], [], [b"hi"]]


@pytest.mark.parametrize("size", [1, FRAME_LIMIT])
def test_the_smallest_and_the_largest_frame_pass(size):
    body = bytes(size)
    frame = pack(body)
    assert frame[:HEAD] == head(size)
    splitter = Splitter()
    found = [one for at in range(0, len(frame), 1 << 20) for one in splitter.feed(frame[at : at + (1 << 20)])]
    assert found == [body]


@pytest.mark.parametrize("size", [0, FRAME_LIMIT + 1])
def test_a_frame_that_may_not_be_is_not_packed(size):
    with pytest.raises(ProtocolError) as caught:
        pack(bytes(size))
    assert caught.value.code == "frame_length"
