"""Rows are decoded as narrowly as their batch says (CONTRACTS K3)."""

import math
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw
from msgspec.msgpack import encode

from ipc.errors import ProtocolError
from ipc.rows import WIDTH_LIMIT, array_head, array_length, decode_rows

plain = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False), st.text()
)
blob = st.one_of(st.none(), st.booleans(), st.integers(-(2**63), 2**63 - 1), st.binary())


@given(rows=st.lists(st.tuples(plain, blob, plain), max_size=40))
def test_what_was_encoded_is_decoded_exactly(rows):
    """Types included: True is no 1, 1.0 is no 1."""
    decoded = decode_rows(Raw(encode(rows)), len(rows), 3, [1])
    assert decoded == rows
    assert [[*map(type, row)] for row in decoded] == [[*map(type, row)] for row in rows]


@given(count=st.integers(0, 2**32 - 1))
def test_the_head_of_an_array_tells_its_length(count):
    assert array_length(array_head(count)) == count
    if count < 1000:
        assert encode([None] * count).startswith(array_head(count))


@pytest.mark.parametrize("head", [b"", b"\x80", b"\xdc", b"\xdc\x01", b"\xdd\0\0\0", b"\xc0", b"\xa3abc"])
def test_what_is_no_array_has_no_length(head):
    assert array_length(head) is None


@pytest.mark.parametrize(
    ("block", "count", "width", "blobs"),
    [
        ([[1, "a"]], 2, 2, []),
        ([[1, "a"]], 0, 2, []),
        ([[1, "a"], [1]], 2, 2, []),
        ([[1, "a", 2]], 1, 2, []),
        ([[1, b"a"]], 1, 2, []),
        ([[1, "a"]], 1, 2, [1]),
        ([[1, ["a"]]], 1, 2, []),
        ([[1, {"a": 1}]], 1, 2, []),
        ([[2**63, "a"]], 1, 2, []),
        ({"a": 1}, 1, 2, []),
        ("text", 4, 1, []),
        ([[1, "a"]], 1, WIDTH_LIMIT + 1, []),
        ([[1, "a"]], 1, 2, [0, 1, 2]),
    ],
)
def test_rows_that_are_not_as_announced_are_refused(block, count, width, blobs):
    with pytest.raises(ProtocolError) as caught:
        decode_rows(Raw(encode(block)), count, width, blobs)
    assert caught.value.code == "rows"


def test_text_that_is_no_utf8_is_refused():
    with pytest.raises(ProtocolError):
        decode_rows(Raw(b"\x91\x91\xa1\xff"), 1, 1, [])


def test_a_frame_of_empty_lists_never_becomes_objects():
    """K3: 8 MiB of empty lists would become 614 MB."""
    block = Raw(array_head(1 << 20) + b"\x90" * (1 << 20))
    tracemalloc.start()
    try:
        with pytest.raises(ProtocolError):
            decode_rows(block, 256, 1, [])
        with pytest.raises(ProtocolError):
            decode_rows(block, 1 << 20, 1, [])
        assert tracemalloc.get_traced_memory()[1] < 200_000
    finally:
        tracemalloc.stop()


def test_floats_that_are_no_numbers_cross():
    (row,) = decode_rows(Raw(encode([[math.nan, math.inf]])), 1, 2, [])
    assert math.isnan(row[0])
    assert row[1] == math.inf
