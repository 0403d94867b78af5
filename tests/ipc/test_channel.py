"""Both ends over a real socket pair."""

import os
import select
import signal
import socket
import threading

import pytest
from msgspec import Raw
from msgspec.msgpack import encode

from ipc.channel import NOTHING, PIECE, QUEUE_LIMIT, Channel, Pipe, write_all
from ipc.errors import ChannelClosed, ChannelFull, ProtocolError
from ipc.frame import pack
from ipc.messages import (
    FRAME_LIMIT,
    Ack,
    Batch,
    Done,
    Progress,
    Read,
    ReadReply,
    Ready,
    ResumePoint,
    Run,
    Started,
    Stop,
    Yielded,
    encoder,
)

BUDGET = 1 << 30


@pytest.fixture
def ends():
    """A Channel, a Pipe, and the Pipe's raw socket."""
    ours, theirs = socket.socketpair()
    channel = Channel(ours)
    yield channel, Pipe(theirs.fileno()), theirs
    channel.close()
    theirs.close()


def batch(rows):
    return Batch(1, 2, 1, [], None, ResumePoint(), None, None, 0, rows)


def test_messages_arrive_in_order_both_ways(ends):
    """C151."""
    channel, pipe, _ = ends
    up = [
        Ready(1, ["a"]),
        Started(),
        batch(Raw(encode([[1], ["x"]]))),
        Progress(1, None),
        Yielded(3),
        Done(3, "{}"),
    ]
    for message in up:
        pipe.send(message)
    received = channel.receive(BUDGET)
    assert encode(received.messages) == encode(up)
    assert (received.closed, received.error, received.torn) == (False, None, 0)
    run = Run(1, "k", "null", 1, None, "replay", ResumePoint("m", 2, b"d"), 4, 256, 1000)
    down = [run, Ack(1), ReadReply(1, Raw(b"\x01")), Stop("why")]
    for message in down:
        channel.send(message)
    assert pipe.recv() == run
    assert encode(pipe.poll()) == encode(down[1:])
    assert pipe.poll() == []


def test_rows_in_pieces_are_the_same_message(ends):
    channel, pipe, _ = ends
    whole = encode([[1], ["x"]])
    nbytes = pipe.send(batch(NOTHING), (whole[:1], memoryview(whole)[1:]))
    received = channel.receive(BUDGET)
    assert received.messages == [batch(Raw(whole))]
    assert received.nbytes == nbytes


def test_nothing_to_read_is_not_the_end(ends):
    channel, _, theirs = ends
    assert not channel.receive(BUDGET).closed
    theirs.shutdown(socket.SHUT_RDWR)
    assert channel.receive(BUDGET).closed


def test_what_came_before_the_end_is_delivered(ends):
    """C155: batches before the end of the stream count; half a frame is seen as torn."""
    channel, pipe, theirs = ends
    pipe.send(Done(7))
    theirs.sendall(pack(encoder.encode(Started()))[:-1])
    theirs.close()
    received = channel.receive(BUDGET)
    assert received.messages == [Done(7)]
    assert received.closed
    assert received.torn == 4 + len(encoder.encode(Started())) - 1


def test_a_peer_that_dies_with_bytes_unread_is_closed_and_its_last_words_count(ends):
    """A reset instead of an end: what Linux makes of it."""
    channel, pipe, theirs = ends
    channel.send(Stop("unread"))
    pipe.send(Done(7))
    theirs.close()
    first = channel.receive(BUDGET)
    assert first.messages == [Done(7)]
    assert first.closed or channel.receive(BUDGET).closed
    with pytest.raises(ChannelClosed):
        channel.send(Ack(1))


def test_a_budget_bounds_one_call_and_loses_nothing(ends):
    channel, pipe, _ = ends
    for seq in range(50):
        pipe.send(Done(seq))
    got = []
    while len(got) < 50:
        received = channel.receive(7)
        assert received.nbytes <= 7
        got += received.messages
    assert got == [Done(seq) for seq in range(50)]


@pytest.mark.parametrize(
    "body",
    [
        encode(["nonsense", 1]),
        encode(["done", -1]),
        encode(["done", 1, None, 0, "more"]),
        encode({"tag": "done"}),
        b"\xc1",
        b"\x91" * 100_000,
        encoder.encode(batch(NOTHING))[:-1] + b"\x91" * 100_000,
        encode(["failed", 0, "fail", "c" * 65, "t", "m"]),
    ],
)
def test_what_is_no_message_of_ours_ends_the_channel(ends, body):
    """C151: unknown, out of bounds, too long, or nested until the stack ends; messages before it count."""
    channel, pipe, theirs = ends
    pipe.send(Started())
    theirs.sendall(pack(body) + pack(encoder.encode(Done(1))))
    received = channel.receive(BUDGET)
    assert received.messages == [Started()]
    assert received.error is not None
    assert received.error.code == "message"
    pipe.send(Done(2))
    again = channel.receive(BUDGET)
    assert again.messages == []
    assert again.error is received.error


def test_a_bad_length_ends_the_channel_after_what_came_before(ends):
    channel, pipe, theirs = ends
    pipe.send(Started())
    theirs.sendall(b"\xff\xff\xff\xfe" + b"x" * 100)
    received = channel.receive(BUDGET)
    assert received.messages == [Started()]
    assert received.error is not None
    assert received.error.code == "frame_length"


def test_the_largest_frame_crosses_without_either_side_waiting_for_the_other(ends):
    """A child that blocks in send is only paused: the supervisor always reads."""
    channel, pipe, _ = ends
    rows = bytes(FRAME_LIMIT - 1000)
    head = b"\xc6" + len(rows).to_bytes(4, "big")
    sender = threading.Thread(target=pipe.send, args=(batch(NOTHING), (head, rows)))
    sender.start()
    messages = []
    while not messages:
        select.select([channel], [], [], 10)
        messages = channel.receive(PIECE).messages
    sender.join()
    assert len(memoryview(messages[0].rows)) == len(head) + len(rows)


def fill(channel, message):
    """Send until the channel refuses; return how many it took."""
    for sent in range(1000):
        try:
            channel.send(message)
        except ChannelFull:
            return sent
    return 1000


def test_what_a_child_does_not_read_is_queued_and_then_refused(ends):
    """C161: a child that does not read can fill no memory; nobody blocks."""
    channel, pipe, _ = ends
    reply = ReadReply(1, Raw(encode("x" * (FRAME_LIMIT // 4))))
    sent = fill(channel, reply)
    assert abs(sent - QUEUE_LIMIT // (FRAME_LIMIT // 4)) <= 1
    assert channel.wants_write
    got = 0
    while got < sent:
        if channel.wants_write:
            channel.flush()
        got += len(pipe.poll())
    assert not channel.wants_write


def test_a_message_over_the_frame_is_refused_by_its_sender(ends):
    channel, pipe, _ = ends
    with pytest.raises(ProtocolError) as caught:
        channel.send(ReadReply(1, Raw(encode("x" * FRAME_LIMIT))))
    assert caught.value.code == "frame_length"
    with pytest.raises(ProtocolError):
        pipe.send(Read(1, "v", Raw(encode("x" * FRAME_LIMIT))))
    pipe.send(Started())
    assert channel.receive(BUDGET).messages == [Started()]
    assert not channel.wants_write


def test_the_child_sees_the_end_after_the_last_message(ends):
    channel, pipe, _ = ends
    channel.send(Ack(1))
    channel.send(Stop(""))
    channel.close()
    assert pipe.recv() == Ack(1)
    assert pipe.poll() == [Stop("")]
    assert pipe.closed
    assert pipe.recv() is None
    with pytest.raises(ChannelClosed):
        pipe.send(Started())


def test_a_child_that_meets_a_reset_sees_the_end(ends):
    channel, pipe, _ = ends
    pipe.send(Started())
    channel.close()
    assert pipe.recv() is None


def test_a_child_that_is_hung_up_on_may_still_finish_its_words(ends):
    channel, pipe, _ = ends
    channel.send(Stop(""))
    channel.hang_up()
    assert pipe.recv() == Stop("")
    assert pipe.recv() is None
    pipe.send(Done(3))
    assert channel.receive(BUDGET).messages == [Done(3)]


def test_a_write_that_a_signal_interrupts_goes_on_where_it_was(ends):
    """A blocking write that has begun returns early; nothing is lost or sent twice."""
    channel, _, theirs = ends
    parts = [bytes([n]) * 1_000_000 for n in range(1, 4)]
    seen = bytearray()
    main = threading.get_ident()

    def interrupt_and_read():
        full = select.poll()
        full.register(theirs, select.POLLOUT)
        while full.poll(0):
            pass
        signal.pthread_kill(main, signal.SIGUSR1)
        while len(seen) < sum(map(len, parts)):
            select.select([channel], [], [], 10)
            seen.extend(os.read(channel.fileno(), 1 << 16))

    old = signal.signal(signal.SIGUSR1, lambda *_: None)
    reader = threading.Thread(target=interrupt_and_read)
    reader.start()
    try:
        assert write_all(theirs.fileno(), parts) == 3_000_000
    finally:
        reader.join()
        signal.signal(signal.SIGUSR1, old)
    assert seen == b"".join(parts)


def test_a_child_whose_descriptor_no_longer_blocks_still_waits(ends):
    """C154: user code may have changed it; half a frame would be all that comes of the next large one."""
    channel, pipe, theirs = ends
    theirs.setblocking(False)
    heard = []
    listener = threading.Thread(target=lambda: heard.append(pipe.recv()))
    listener.start()
    channel.send(Ack(1))
    listener.join()
    rows = bytes(FRAME_LIMIT - 1000)
    tail = (b"\xc6" + len(rows).to_bytes(4, "big"), rows)
    sender = threading.Thread(target=lambda: [pipe.send(batch(NOTHING), tail), pipe.send(Done(1))])
    sender.start()
    while Done(1) not in heard:
        select.select([channel], [], [], 10)
        received = channel.receive(PIECE)
        assert received.error is None
        heard += received.messages
    sender.join()
    assert heard == [Ack(1), batch(Raw(b"".join(tail))), Done(1)]


def test_nothing_follows_a_frame_that_an_exception_cut_off(ends):
    """C150: the bytes that are missing would be taken from the next frame, and land in a row."""
    channel, pipe, theirs = ends
    main = threading.get_ident()

    def interrupt(_number, _frame):
        raise LookupError("a signal handler of the user's")

    def interrupt_when_full():
        full = select.poll()
        full.register(theirs, select.POLLOUT)
        while full.poll(0):
            pass
        signal.pthread_kill(main, signal.SIGUSR1)

    old = signal.signal(signal.SIGUSR1, interrupt)
    other = threading.Thread(target=interrupt_when_full)
    other.start()
    try:
        with pytest.raises(LookupError):
            pipe.send(batch(NOTHING), (b"\xc6\x00\x40\x00\x00", bytes(4 << 20)))
    finally:
        other.join()
        signal.signal(signal.SIGUSR1, old)
    with pytest.raises(ChannelClosed):
        pipe.send(Done(1))
    theirs.close()
    received = channel.receive(BUDGET)
    assert (received.messages, received.error, received.closed) == ([], None, True)
    assert received.torn > 0


def test_descriptors_above_1024_work():
    """C154: no select() inside."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 1300:
        pytest.skip("the system allows too few descriptors")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 1300), hard))
    held = [os.open(os.devnull, os.O_RDONLY) for _ in range(1050)]
    ours, theirs = socket.socketpair()
    try:
        assert theirs.fileno() > 1024
        channel, pipe = Channel(ours), Pipe(theirs.fileno())
        channel.send(Ack(5))
        assert pipe.poll() == [Ack(5)]
        pipe.send(Done(5))
        assert channel.receive(BUDGET).messages == [Done(5)]
    finally:
        for fd in held:
            os.close(fd)
        ours.close()
        theirs.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
