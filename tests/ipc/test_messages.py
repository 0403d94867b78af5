"""The words on the wire (SPEC C151)."""

import pytest
from msgspec import DecodeError, Raw, ValidationError
from msgspec.msgpack import encode

from ipc.messages import (
    FRAME_LIMIT,
    KINDS_LIMIT,
    MARK_LIMIT,
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
    Yielded,
    down_decoder,
    encoder,
    up_decoder,
)
from policies import options

POINT = ResumePoint("mark", 3, b"d" * 16)
UP = [
    Ready(7, ["a", "b"]),
    Started(),
    Batch(1, 2, 3, [1], ["a", "b", "c"], POINT, 1, None, 5, Raw(b"\x90")),
    Read(1, "verb", Raw(b"\x80")),
    Progress(1, 2, 3),
    Yielded(4, 5),
    Done(4, "{}", 5),
    Failed(1, "retry", "code", "Type", "message", "trace", ["a.B"], 1.5, 6),
]
DOWN = [
    Run(1, "kind", "{}", 2, "key", "replay", POINT, 9, 256, 1 << 20, 8, FRAME_LIMIT),
    Ack(3),
    ReadReply(1, Raw(b"\xc0"), "error"),
    Stop("why"),
]


@pytest.mark.parametrize("message", UP, ids=lambda one: type(one).__name__)
def test_each_message_up_survives_the_wire(message):
    assert encode(up_decoder.decode(encoder.encode(message))) == encode(message)
    with pytest.raises(ValidationError):
        down_decoder.decode(encoder.encode(message))


@pytest.mark.parametrize("message", DOWN, ids=lambda one: type(one).__name__)
def test_each_message_down_survives_the_wire(message):
    assert encode(down_decoder.decode(encoder.encode(message))) == encode(message)
    with pytest.raises(ValidationError):
        up_decoder.decode(encoder.encode(message))


@pytest.mark.parametrize(
    "body",
    [
        ["done", -1],
        ["done", 2**63],
        ["done", 1.0],
        ["done"],
        ["done", 1, None, 0, 0],
        ["yielded", None],
        ["batch", 1, -2, 1, [], None, [None, 0, b""], None, None, 0, []],
        ["batch", 1, 2, 1, [], None, ["m" * (16 << 10) + "m", 0, b""], None, None, 0, []],
        ["batch", 1, 2, 1, [], None, [None, 0, b"d" * 17], None, None, 0, []],
        ["failed", 1, "fail", "", "t" * 129, "m"],
        ["failed", 1, "else", "", "t", "m"],
        ["failed", 1, "fail", "c" * 65, "t", "m"],
        ["failed", 1, "fail", "", "t", "m" * 4001],
        ["failed", 1, "fail", "", "t", "m", "", ["b"] * 65],
        ["ready", 1, ["k"] * (KINDS_LIMIT + 1)],
        ["ready", 1, ["k" * 1001]],
    ],
)
def test_fields_out_of_bounds_are_refused(body):
    with pytest.raises((ValidationError, DecodeError)):
        up_decoder.decode(encode(body))


def test_the_limits_of_two_rooms_are_the_same_numbers():
    """K15, K16."""
    assert options.FRAME_LIMIT == FRAME_LIMIT == 8 * 1024 * 1024
    assert MARK_LIMIT == 16 * 1024
