"""A template: it has imported the application once, and makes a copy of itself for each job.

    guardian  --- one byte, with channel, output and stacks --->  template
    template  --fork--> go-between --fork--> copy       the go-between tells the copy's number, and leaves
    guardian  <-- "up", then "pid N" --- template --- goes ahead --->  copy, which serves its job

The copy's parent is then the guardian, which watches, kills and reaps it as if it had started it. A
process that holds what copies must not share cannot be copied: it says so and does the work itself.
"""

import atexit
import gc
import os
import sys
from _socket import AF_UNIX, CMSG_SPACE, SCM_RIGHTS, SOCK_STREAM, SOL_SOCKET, socket
from array import array
from collections.abc import Sequence
from contextlib import suppress
from stat import S_ISREG, S_ISSOCK
from typing import Final

from worker.guard import leave_with_parent
from worker.host import flush_output

DESCRIPTORS: Final = 3
SPACE: Final = CMSG_SPACE(DESCRIPTORS * array("i").itemsize)
LINE: Final = 1000
SEEDS: Final = ("numpy.random", "torch")
"""Modules whose `seed()` gives them new random numbers; Python's own sees to itself."""
LIBRARIES: Final = (("logging", "shutdown"), ("multiprocessing.util", "_exit_function"))
"""What the standard library registers for the exit when it is imported."""
KEPT: Final[list[object]] = []
"""Objects of the template in a copy, which would let go of what they own if they were collected."""


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

    def put(self, fds: Sequence[int]) -> None:
        """Put channel, output and stacks where they belong; no descriptors are in place already."""
        if fds:
            self._copy(*fds)
            close(fds)

    def clear(self, null: int) -> None:
        """Let go of what the first copy has now; `null` takes its place."""
        self._copy(null, null, null)

    def _copy(self, channel: int, output: int, stack: int) -> None:
        os.dup2(channel, self.channel, inheritable=False)
        os.dup2(stack, self.stack, inheritable=False)
        os.dup2(output, 1)
        os.dup2(output, 2)


def stay(control: int, place: Place) -> bool:
    """Make copies as they are asked for; return True in each copy, and where there can be none.

    Returns:
        False in the template itself, when nobody will ask any more.
    """
    guardian = socket(AF_UNIX, SOCK_STREAM, 0, control)
    os.set_inheritable(control, False)
    guardian.sendall(b"up\n")  # what takes long from now on is no import
    null = os.open(os.devnull, os.O_RDWR)
    gc.collect()
    gc.freeze()  # what the copies share must not be written to by their collectors
    fds: Sequence[int] = ()  # those of the first copy are in place
    while True:
        if why := why_alone({place.channel, place.stack, control, *fds}):
            place.put(fds)
            guardian.sendall(f"alone {why}\n".encode())
            break
        flush_output()  # else each copy would print it
        if copy(guardian, place, fds):
            break
        if fds:
            close(fds)
        else:
            place.clear(null)
        if not (fds := asked(guardian)):
            return False
    guardian.close()
    os.close(null)
    return True


def asked(guardian: socket) -> Sequence[int]:
    """Wait until a copy is asked for; return channel, output and stacks, or nothing at the end."""
    while True:
        word, ancillary, _, _ = guardian.recvmsg(1, SPACE)
        fds = array("i")
        for level, kind, value in ancillary:
            if (level, kind) == (SOL_SOCKET, SCM_RIGHTS):
                fds.frombytes(value[: len(value) - len(value) % fds.itemsize])
        if not word or len(fds) == DESCRIPTORS:
            return fds
        close(fds)
        guardian.sendall(refusal(OSError("the application has too many files open")))


def copy(guardian: socket, place: Place, fds: Sequence[int]) -> bool:
    """Make a copy of this process, with these descriptors; return True in it."""
    pipes: list[int] = []
    try:
        pipes += os.pipe()
        pipes += os.pipe()
        between = os.fork()  # noqa: TID251 - this is where copies are made
    except OSError as error:
        close(pipes)
        guardian.sendall(refusal(error))
        return False
    told, tell, opened, gate = pipes
    if between == 0:
        try:
            step_aside(tell, opened, gate)
        except BaseException:  # noqa: BLE001 - nothing of the template may run on in the go-between
            os._exit(1)
        close((told, opened))
        begin(place, fds)
        return True
    close((tell, opened))
    with suppress(ChildProcessError):  # the application reaps what ends
        os.waitpid(between, 0)
    os.set_blocking(told, False)
    line = b""
    with suppress(BlockingIOError):
        line = os.read(told, LINE)
    guardian.sendall(line or refusal(OSError("it was killed")))
    with suppress(BrokenPipeError):  # it is dead; its parent sees that
        os.write(gate, line[:1])
    close((told, gate))
    return False


def step_aside(tell: int, opened: int, gate: int) -> None:
    """Fork once more, tell the number of the copy, and leave; return in the copy only, once it may begin."""
    try:
        pid = os.fork()  # noqa: TID251
    except OSError as error:
        os.write(tell, refusal(error))
        os._exit(1)
    if pid:
        os.write(tell, b"pid %d\n" % pid)
        os._exit(0)
    close((tell, gate))
    if os.read(opened, 1) != b"p":  # the template is gone, or knows nothing of us
        os._exit(1)


def begin(place: Place, fds: Sequence[int]) -> None:
    """Make of this copy a process of its own."""
    place.put(fds)
    leave_with_parent(place.parent, place.channel)
    os.setsid()
    leave_to_template()
    reseed()


def refusal(error: OSError) -> bytes:
    """Return what the guardian is told when there will be no copy."""
    return f"none {error.errno or 0} a copy cannot be made: {error.strerror or error}\n".encode()


def close(fds: Sequence[int]) -> None:
    """Close descriptors."""
    for fd in fds:
        os.close(fd)


# --- what must not be shared, or not be the same


def why_alone(ours: set[int]) -> str:
    """Say why this process must not be copied, "" when it may; `ours` are the descriptors that we know of."""
    try:
        return what_is_shared(ours)
    except OSError as error:
        return f"it cannot be seen what the application has open: {error.strerror}"


def what_is_shared(ours: set[int]) -> str:
    """Say what copies would share that they must not."""
    if (threads := len(os.listdir("/proc/self/task")) - 1) > 0:
        return left(threads, "thread", "running")
    strangers = [int(fd) for fd in os.listdir("/proc/self/fd") if int(fd) not in ours]
    for is_kind, name in ((is_socket, "socket"), (is_file, "file")):
        if found := sum(map(is_kind, strangers)):
            return left(found, name, "open")
    return left(1, "process", "running") if has_children() else ""


def left(count: int, what: str, how: str) -> str:
    """Say what copies would share."""
    return f"importing the application left {count} {what}{'s' * (count > 1)} {how}"


def is_socket(fd: int) -> bool:
    """Tell whether a descriptor is a socket."""
    return S_ISSOCK(mode_of(fd))


def is_file(fd: int) -> bool:
    """Tell whether a descriptor is a file with a position, which a copy would move for all the others.

    So is a database: SQLite's locks are lost in a copy. A log that is only appended to is neither.
    """
    if not S_ISREG(mode_of(fd)) or os.readlink(f"/proc/self/fd/{fd}").startswith("/memfd:"):
        return False
    from fcntl import F_GETFL, fcntl  # noqa: PLC0415 - few have such a file

    return not fcntl(fd, F_GETFL) & os.O_APPEND


def mode_of(fd: int) -> int:
    """Return what kind of thing a descriptor is, 0 when it is closed."""
    try:
        return os.fstat(fd).st_mode
    except OSError:
        return 0


def has_children() -> bool:
    """Tell whether this process has started another that is not reaped yet."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def leave_to_template() -> None:
    """Have what was registered for the exit before the copy was made run by the template alone.

    A temporary folder, say, is removed when the template leaves. Libraries that see at the exit to what
    was done since are registered anew, and what the template's objects own stays theirs, also when
    nobody here refers to them any more.
    """
    finalize = getattr(sys.modules.get("weakref"), "finalize", None)
    for finalizer in list(getattr(finalize, "_registry", ())):
        finalizer.atexit = False
        KEPT.append(finalizer.peek())
    if finalize is not None:
        finalize._registered_with_atexit = False  # noqa: SLF001 - it registers itself once, and is forgotten now
    atexit._clear()  # noqa: SLF001 - as multiprocessing does in its children
    for module, name in LIBRARIES:
        if (leave := getattr(sys.modules.get(module), name, None)) is not None:
            atexit.register(leave)


def reseed() -> None:
    """Give a copy random numbers of its own."""
    for name in SEEDS:
        seed = getattr(sys.modules.get(name), "seed", None)
        if callable(seed):
            seed()
