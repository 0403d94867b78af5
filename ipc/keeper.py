"""The supervisor's side of one guardian: started, told what to do, heard, and in the end put down.

Keeper.start(order, fds) -> Started | Failed        one worker at a time
Keeper.term | dump | kill -> Left* -> Over          its tree has ended, or cannot be
"""

import errno
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ipc.dump import DUMP_SIGNAL
from ipc.errors import ProtocolError
from ipc.guardian import orders
from ipc.inlet import Inlet

PROGRAM: Final = str(Path(__file__).with_name("guardian") / "__main__.py")
FLAGS: Final = ("-I", "-S")
"""The guardian's interpreter is isolated and has no site packages: nothing of the user's runs in it."""
HEARD: Final = 64 << 10
BUFFER: Final = 2 * orders.LONGEST
"""Bytes that may wait in the lifeline: any order finds room where those before it have been taken."""


@dataclass(frozen=True, slots=True)
class Started:
    """A process has been started; `tier` is how surely it can be ended, `spawn` how it came about.

    `template` is the process that its guardian keeps beside it, 0 for none.
    """

    pid: int
    template: int
    tier: str
    spawn: str


@dataclass(frozen=True, slots=True)
class Failed:
    """No process could be started; `errno` is the system's error, 0 for none."""

    why: str
    errno: int = 0


@dataclass(frozen=True, slots=True)
class Crossed:
    """The tree went over its limit: it holds so many bytes in so many processes."""

    memory: int
    processes: int


@dataclass(frozen=True, slots=True)
class Beside:
    """So many processes run beside the worker, which itself holds so many bytes."""

    processes: int
    memory: int


@dataclass(frozen=True, slots=True)
class Left:
    """These are still there, though they were killed."""

    pids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Over:
    """The worker ended, with `ended` processes in all that were alive until then.

    `code` is negative for a signal; `peak` is bytes, `cpu` seconds, its own and of those it waited for.
    """

    code: int
    ended: int
    peak: int
    cpu: float = 0.0


Told = Started | Failed | Crossed | Beside | Left | Over


class Keeper:
    """One guardian. Call from one lasting thread.

    Args:
        environment: what the guardian gets; the children's own comes with each start.
        lock: the file that it holds while it lives.

    Attributes:
        pid: its process id.
        gone: its lifeline has ended: it is dead, or about to be.
        free: nothing that it started lives.
        spec: what its last child was started from.

    Raises:
        OSError: it cannot be started.
    """

    def __init__(self, environment: Mapping[str, str], lock: Path) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        inlet = Inlet(ours)
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER)
        theirs.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER)  # macOS counts what waits there
        words = (theirs.fileno(), lock, int(DUMP_SIGNAL), os.getpid())
        argv = [sys.executable, *FLAGS, PROGRAM, *map(str, words)]
        try:
            self._process = subprocess.Popen(  # noqa: S603 - our own file under our own interpreter
                argv,
                env=dict(environment),
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,  # one that cannot be ended must not keep our caller's pipe open
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        ours.setblocking(False)
        self._lifeline = ours
        self._inlet = inlet
        self._heard = b""
        self.pid = self._process.pid
        self.gone = False
        self.free = True
        self.spec: orders.Start | None = None

    def fileno(self) -> int:
        """Return the descriptor to wait on."""
        return self._lifeline.fileno()

    @property
    def group(self) -> str:
        """Return the control group that its children are in, "" for none."""
        return "" if self.spec is None else self.spec[6]

    # --- orders

    def start(self, spec: orders.Start, fds: tuple[int, int, int]) -> None:
        """Have a child started with its channel, output and stack descriptors; the answer comes as told.

        Raises:
            OSError: the command line and the environment are too long.
        """
        order = orders.pack(orders.START, spec)
        if len(order) > orders.LONGEST:
            limit = orders.LONGEST >> 10
            raise OSError(errno.E2BIG, f"its command line and environment are longer than {limit} KiB")
        self.free, self.spec = False, spec
        self._send(order, fds)

    def term(self) -> None:
        """Have the child dump its stacks and die; wake both first if they were stopped."""
        self._order(orders.TERM)

    def dump(self) -> None:
        """Have the child dump its stacks and go on."""
        self._order(orders.DUMP)

    def kill(self) -> None:
        """Have the child and all that it started ended."""
        self._order(orders.KILL)

    def limit(self, memory: int, processes: int) -> None:
        """Have the tree measured: bytes and processes, 0 for no limit; crossing one is told once."""
        self._order(orders.LIMIT, memory, processes)

    def ask(self) -> None:
        """Have it told what runs beside the child."""
        self._order(orders.ASK)

    def _order(self, word: str, *values: int) -> None:
        self._send(orders.pack(word, *values))

    def _send(self, order: bytes, fds: Sequence[int] = ()) -> None:
        try:
            sent = socket.send_fds(self._lifeline, [order], fds)
        except (BrokenPipeError, ConnectionResetError):  # gone: its lifeline says so
            return
        except OSError:
            sent = 0
        if sent < len(order):  # it has not read for long, and what comes next would be out of step
            self.put_down()
        self._wake()

    def _wake(self) -> None:
        """Let it run on: a job may have stopped it."""
        if not self.gone and self._process.returncode is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGCONT)

    # --- what it tells

    def receive(self) -> list[Told]:
        """Return what it has told since, without waiting; nonsense is left out."""
        try:
            data = self._inlet.recv(HEARD)
        except BlockingIOError:
            return []
        except (OSError, ProtocolError):
            data = b""
        self.gone = self.gone or not data
        *lines, self._heard = (self._heard + data).split(b"\n")
        self._heard = self._heard[-orders.LINE :]
        texts = (one[: orders.LINE].decode("utf-8", "replace") for one in lines)
        return [told for text in texts if (told := read(text)) is not None]

    # --- its end

    def let_go(self) -> None:
        """End the lifeline: it ends what it keeps, and leaves."""
        self._wake()
        with suppress(OSError):
            self._lifeline.shutdown(socket.SHUT_WR)

    def put_down(self) -> None:
        """Kill it: a guardian that does not answer is no guardian. What it kept becomes ours."""
        if self._process.returncode is None:
            self._process.kill()

    def reap(self) -> bool:
        """Tell whether it has ended, without waiting."""
        return self._process.poll() is not None

    def close(self) -> None:
        """Close the descriptor of one that has ended."""
        self._inlet.close()


def read(text: str) -> Told | None:
    """Return what a line tells, None for nonsense."""
    word, *values = text.split(" ")
    try:
        return READERS[word](values)
    except (KeyError, ValueError, IndexError):
        return None


def whole(values: list[str], count: int) -> Iterator[int]:
    """Yield exactly `count` whole numbers that are no absurdity."""
    if len(values) != count:
        raise ValueError(values)
    for value in values:
        if len(value) > 18 or not (value.isascii() and value.removeprefix("-").isdigit()):
            raise ValueError(value)
        yield int(value)


def read_started(values: list[str]) -> Started:
    """Read that a worker has been started."""
    pid, template = whole(values[:2], 2)
    return Started(pid, template, values[2], " ".join(values[3:]))


def read_failed(values: list[str]) -> Failed:
    """Read why no worker could be started; what a template says of that need not begin with a number."""
    try:
        (number,) = whole(values[:1], 1)
    except ValueError:
        return Failed(" ".join(values))
    return Failed(" ".join(values[1:]), number)


def read_over(values: list[str]) -> Over:
    """Read the end of a worker; the system counts its peak in KiB, macOS in bytes."""
    code, ended, peak, cpu = whole(values, 4)
    return Over(code, ended, peak if sys.platform == "darwin" else peak << 10, cpu / 1000)


READERS: Final[Mapping[str, Callable[[list[str]], Told]]] = {
    orders.STARTED: read_started,
    orders.FAILED: read_failed,
    orders.CROSSED: lambda values: Crossed(*whole(values, 2)),
    orders.BESIDE: lambda values: Beside(*whole(values, 2)),
    orders.LEFT: lambda values: Left(tuple(whole(values, len(values)))),
    orders.OVER: read_over,
}
