"""A template: it has imported the application once, and makes a copy of itself for each job.

    guardian  --- one byte, with channel, output and stacks --->  template
    template  --fork--> go-between --fork--> copy               (the go-between leaves at once)
    guardian  <-- "pid N" --- copy --- serves its job

The copy's parent is then the guardian, which watches, kills and reaps it as if it had started it. A
process with threads cannot be copied safely, nor one that holds connections: it says so and does the
work itself.
"""

import gc
import os
import sys
from _socket import AF_UNIX, CMSG_SPACE, SCM_RIGHTS, SOCK_STREAM, SOL_SOCKET, socket
from array import array
from contextlib import suppress
from typing import Final

from worker.guard import leave_with_parent

DESCRIPTORS: Final = 3
SPACE: Final = CMSG_SPACE(DESCRIPTORS * array("i").itemsize)


class Place:
    """Where a copy has its descriptors, whatever numbers they came with.

    Args:
        channel: the number of the wire.
        stack: the number that stacks are dumped to.
        parent: the process to live no longer than.
    """

    def __init__(self, channel: int, stack: int, parent: int) -> None:
        self.channel = channel
        self.stack = stack
        self.parent = parent

    def put(self, channel: int, output: int, stack: int) -> None:
        """Put descriptors where they belong."""
        os.dup2(channel, self.channel, inheritable=False)
        os.dup2(stack, self.stack, inheritable=False)
        os.dup2(output, 1)
        os.dup2(output, 2)


def stay(control: int, place: Place) -> None:
    """Make copies as they are asked for; return in each copy, and at once where there can be none."""
    guardian = socket(AF_UNIX, SOCK_STREAM, 0, control)
    os.set_inheritable(control, False)
    if why := why_alone({place.channel, control}):
        guardian.sendall(f"alone {why}\n".encode())
        guardian.close()
        return
    gc.collect()
    gc.freeze()  # what the copies share must not be written to by their collectors
    if copy(guardian, place):
        return
    null = os.open(os.devnull, os.O_RDWR)
    place.put(null, null, null)
    os.close(null)
    while fds := asked(guardian):
        if copy(guardian, place, fds):
            break
        for fd in fds:
            os.close(fd)
    else:
        os._exit(0)


def asked(guardian: socket) -> tuple[int, ...]:
    """Wait until a copy is asked for; return channel, output and stacks, or nothing at the end."""
    _, ancillary, _, _ = guardian.recvmsg(1, SPACE)
    fds = array("i")
    for level, kind, value in ancillary:
        if (level, kind) == (SOL_SOCKET, SCM_RIGHTS):
            fds.frombytes(value[: len(value) - len(value) % fds.itemsize])
    return tuple(fds) if len(fds) == DESCRIPTORS else ()


def copy(guardian: socket, place: Place, fds: tuple[int, ...] = ()) -> bool:
    """Make a copy of this process; return True in it. `fds` are its own, where they are not in place yet."""
    try:
        is_copy = fork_away()
    except OSError as error:
        guardian.sendall(f"none a copy cannot be made: {error.strerror}\n".encode())
        return False
    if not is_copy:
        return False
    leave_with_parent(place.parent, place.channel)
    os.setsid()
    if fds:
        place.put(*fds)
        for fd in fds:
            os.close(fd)
    reseed()
    guardian.sendall(b"pid %d\n" % os.getpid())
    guardian.close()
    return True


def fork_away() -> bool:
    """Fork twice, so that the copy belongs to the guardian; return True in the copy, once it does.

    Raises:
        OSError: no process can be started.
    """
    closed, gate = os.pipe()
    sys.stdout.flush()
    try:
        between = os.fork()  # noqa: TID251 - this is where copies are made
    except OSError:
        os.close(closed)
        os.close(gate)
        raise
    if between == 0:
        with suppress(BaseException):
            if os.fork() == 0:  # noqa: TID251
                os.close(gate)
                os.read(closed, 1)  # ends when the template has reaped the go-between
                os.close(closed)
                return True
            os._exit(0)
        os._exit(1)
    os.close(closed)
    _, status = os.waitpid(between, 0)
    os.close(gate)
    if status:
        raise OSError(0, "the second fork failed")
    return False


def why_alone(ours: set[int]) -> str:
    """Say why this process must not be copied, "" when it may; `ours` are the sockets that we know of."""
    if (threads := len(os.listdir("/proc/self/task")) - 1) > 0:
        return f"importing the application left {threads} thread{'s' * (threads > 1)} running"
    if strangers := sum(is_socket(fd) for fd in set(map(int, os.listdir("/proc/self/fd"))) - ours):
        return f"importing the application left {strangers} socket{'s' * (strangers > 1)} open"
    return ""


def is_socket(fd: int) -> bool:
    """Tell whether a descriptor is a socket."""
    try:
        return os.readlink(f"/proc/self/fd/{fd}").startswith("socket:")
    except OSError:
        return False


def reseed() -> None:
    """Give a copy random numbers of its own; Python's own module sees to itself."""
    if (numpy_random := sys.modules.get("numpy.random")) is not None:
        numpy_random.seed()
