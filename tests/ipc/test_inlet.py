"""Descriptors that a job sends over our sockets: its own trouble, never the loop's."""

import ctypes
import os
import socket
import struct
from contextlib import suppress
from pathlib import Path

import pytest

from ipc import inlet
from ipc.channel import Channel, Pipe
from ipc.doorbell import DOORBELL, Doorbell
from ipc.keeper import Beside
from ipc.messages import Started

BUDGET = 1 << 20
NO_OPTION = 9999
PIDFD_GETFD = 438
LINGER = 600
"""Seconds; more than any test may take."""


def knows_option():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        return inlet.refuse_descriptors(ours)


refusing = pytest.mark.skipif(not knows_option(), reason="this kernel takes descriptors for any unix socket")


@pytest.fixture
def older_kernel(monkeypatch):
    """Ask the kernel for what it does not know, as one before 6.16 would answer."""
    monkeypatch.setattr(inlet, "SO_PASSRIGHTS", NO_OPTION)


@pytest.fixture
def ends():
    """What makes a Channel and its other end."""
    theirs = []

    def make():
        ours, other = socket.socketpair()
        theirs.append(other)
        return Channel(ours), other

    yield make
    for one in theirs:
        one.close()


def lifeline_of(guardian):
    """Take a copy of the only socket that a guardian has; skip where that is not allowed."""
    folder = Path(f"/proc/{guardian}/fd")
    number = next(int(one.name) for one in folder.iterdir() if str(one.readlink()).startswith("socket:"))
    handle = os.pidfd_open(guardian)
    taken = ctypes.CDLL(None).syscall(PIDFD_GETFD, handle, number, 0)
    os.close(handle)
    if taken < 0:
        pytest.skip("no process may take what another has open here")
    return socket.socket(fileno=taken)


@pytest.fixture
def lingering():
    """A connection that nobody reads, whose last close takes 600 s, and its other end."""
    server = socket.create_server(("127.0.0.1", 0))
    ours = socket.create_connection(server.getsockname())
    theirs, _ = server.accept()
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, LINGER))
    ours.setblocking(False)
    with suppress(BlockingIOError):
        while ours.send(b"x" * 65536):
            pass
    yield ours
    theirs.close()  # the close that waits ends with this
    server.close()


@refusing
def test_the_kernel_refuses_descriptors_at_a_channel_and_the_bytes_still_come(ends):
    channel, theirs = ends()
    with pytest.raises(PermissionError):
        socket.send_fds(theirs, [b"x"], [theirs.fileno()])
    Pipe(theirs.fileno()).send(Started())
    assert channel.receive(BUDGET).messages == [Started()]
    channel.close()


@refusing
def test_the_kernel_refuses_descriptors_at_a_lifeline_whoever_holds_its_other_end(kept):
    """C150: a job has the rights of its user, and may take from a guardian what that has open."""
    with lifeline_of(kept.keeper.pid) as theirs:
        with pytest.raises(PermissionError):
            socket.send_fds(theirs, [b"beside 0 0\n"], [theirs.fileno()])
        theirs.sendall(b"beside 1 2\n")
        kept.wait_for(lambda: kept.told == [Beside(1, 2)])


@refusing
def test_the_kernel_refuses_descriptors_at_the_doorbell(tmp_path):
    bell = Doorbell(tmp_path)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as theirs:
        theirs.connect(str(tmp_path / DOORBELL))
        with pytest.raises(PermissionError):
            socket.send_fds(theirs, [b"1"], [theirs.fileno()])
    assert not bell.drain()
    bell.close()


@pytest.mark.usefixtures("older_kernel")
def test_descriptors_that_are_taken_break_the_protocol_and_are_closed(ends):
    channel, theirs = ends()
    Pipe(theirs.fileno()).send(Started())
    reads, writes = os.pipe()
    socket.send_fds(theirs, [b"x"], [writes] * inlet.MOST)
    os.close(writes)
    error = channel.receive(BUDGET).error
    assert error is not None
    assert (error.code, error.detail) == ("descriptors", "253 came; none may be sent")
    assert os.read(reads, 1) == b""  # nobody holds the other end any more
    os.close(reads)
    assert channel.receive(BUDGET).error is error
    channel.close()


@pytest.mark.usefixtures("older_kernel")
def test_no_read_waits_for_a_connection_that_lingers(ends, lingering):
    channel, theirs = ends()
    socket.send_fds(theirs, [b"x"], [lingering.fileno()])
    lingering.close()
    error = channel.receive(BUDGET).error
    assert error is not None
    assert error.code == "descriptors"
    channel.close()


@pytest.mark.usefixtures("older_kernel")
def test_no_close_waits_for_a_connection_that_lingers_unread(ends, lingering):
    channel, theirs = ends()
    socket.send_fds(theirs, [b"x"], [lingering.fileno()])
    lingering.close()
    channel.close()
    assert channel.fileno() == -1


@pytest.mark.usefixtures("older_kernel")
def test_a_ring_with_a_descriptor_is_a_ring(tmp_path):
    bell = Doorbell(tmp_path)
    reads, writes = os.pipe()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as theirs:
        theirs.connect(str(tmp_path / DOORBELL))
        socket.send_fds(theirs, [b"1"], [writes])
    os.close(writes)
    assert bell.drain()
    assert os.read(reads, 1) == b""
    os.close(reads)
    bell.close()
