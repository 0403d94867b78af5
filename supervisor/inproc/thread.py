"""A thread that speaks the wire of a child, and a keeper that does for it what a guardian does.

    supervisor ==socketpair== thread        the same Run, Batch, Ack, Stop, Done as with a process
         |                      |
         `------ keeper --------'           its end: end-of-file, and then it is left behind

A thread cannot be killed. One that does not leave at the end of the wire in its grace is abandoned: its
attempt is over, what it says goes nowhere, and another takes its place.
"""

import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from socket import SHUT_RD, socket
from types import FrameType
from typing import Final, NoReturn

from ipc.channel import Pipe
from ipc.guardian import orders
from ipc.keeper import Beside, Over, Started, Told
from supervisor.loop import Loop
from worker.host import Gone, Host
from worker.registry import Lane, Loaded
from worker.serve import ANY, serve

THREAD: Final = "thread"
"""How surely it can be ended, in the place of a guardian's tier: not at all."""
INPROC: Final = "inproc"
"""How it came about."""
STACK_BYTES: Final = 64 << 10


class ThreadKeeper:
    """Keeps one thread (see `ipc.keeper.Keeper`, whose place it takes). Call from the loop thread.

    Args:
        lanes: the compute halves that it may run, by kind.
        loop: the one of the thread that calls.
        tell: told what a guardian would tell.
        back: called when a thread that was left behind has ended after all.

    Attributes:
        pid: this process's id.
        free: nothing that it started lives, as far as it is waited for.
        left_behind: its thread did not leave, and is not waited for any more.
    """

    def __init__(
        self,
        lanes: Mapping[str, Lane],
        loop: Loop,
        tell: Callable[["ThreadKeeper", Told], None],
        back: Callable[["ThreadKeeper"], None],
    ) -> None:
        self._lanes = lanes
        self._post = loop.post
        self._descriptors = loop.descriptors
        self._tell = tell
        self._back = back
        self._clock: int | None = None
        self._asked = self._over = False
        self._wire: socket
        self._stack = -1
        self._thread: threading.Thread
        self.pid = os.getpid()
        self.free = True
        self.left_behind = False

    def start(self, _spec: orders.Start, fds: tuple[int, int, int]) -> None:
        """Start a thread on copies of the channel, output and stack descriptors.

        Raises:
            OSError: there are no descriptors left.
        """
        own: list[int] = []
        try:
            own += [os.dup(fd) for fd in (fds[0], fds[0], fds[1], fds[2])]
        except OSError:
            close(own)
            raise
        for fd in own:
            self._descriptors.note(fd, "the wire of a job in this process")
        wire, channel, log, self._stack = own
        self._wire, self.free = socket(fileno=wire), False
        name = f"laneway-{'-'.join(sorted(self._lanes))[:40]}"
        self._thread = threading.Thread(target=self._serve, args=(channel, log), name=name, daemon=True)
        self._thread.start()
        self._say(Started(self.pid, 0, THREAD, INPROC))

    # --- orders, as a guardian takes them

    def term(self) -> None:
        """Note where the thread is, and end the wire: it leaves at its next look."""
        self.dump()
        self._asked = True
        with suppress(OSError):
            self._wire.shutdown(SHUT_RD)

    def dump(self) -> None:
        """Note where the thread is now.

        Raises:
            Severed: what it would be noted in is not ours any more.
        """
        self._descriptors.check()
        frame = sys._current_frames().get(self._thread.ident or 0)  # noqa: SLF001 - as the docs offer it
        if frame is not None and not self._over:
            os.ftruncate(self._stack, 0)
            os.pwrite(self._stack, stack_text(frame), 0)

    def kill(self) -> None:
        """Wait no more for a thread that has not left, or ask it now where nobody has."""
        if self._asked:
            self.put_down()
        else:
            self.term()

    def put_down(self) -> None:
        """Wait no more."""
        if not self._over:
            self.dump()
            self._over = self.left_behind = True
            self._let_go_of_ends()
            self._say(Over(0, 0, 0))

    def limit(self, memory: int, processes: int) -> None:
        """Do nothing: what a thread holds is the supervisor's."""

    def ask(self) -> None:
        """Have it told that nothing runs beside the thread that anybody knows of.

        Raises:
            Severed: the job, which has just ended, or anybody else has closed what is the run's.
        """
        self._descriptors.check()
        self._say(Beside(0, 0))

    def let_go(self) -> None:
        """Do nothing: it leaves at the end of the wire."""

    # --- the thread's own time, and its end

    @property
    def thread_id(self) -> int:
        """Return the number by which the system knows the thread."""
        return self._thread.native_id or 0

    def cpu(self) -> float:
        """Return the CPU seconds that the thread has used, 0.0 where the system does not say."""
        if self._clock is None:
            return 0.0
        try:
            return time.clock_gettime(self._clock)
        except OSError:  # it has just ended
            return 0.0

    def _serve(self, channel: int, log: int) -> None:
        if hasattr(time, "pthread_getcpuclockid"):
            self._clock = time.pthread_getcpuclockid(threading.get_ident())
        try:
            with suppress(Gone, OSError):  # an error of the wire: what the job raises is told by it
                serve(Pipe(channel), Loaded(self._lanes), ANY, Host(leave, writer(log), nothing))
        finally:
            self._descriptors.close(channel)
            self._descriptors.close(log)
            self._post(self._ended, None)

    def _ended(self, _answer: object) -> None:
        """The thread is no more: tell it, or that one which was given up has come back."""
        self._clock = None
        self._descriptors.check()
        if self.left_behind:
            self._back(self)
        else:
            self._over = True
            self._let_go_of_ends()
            self._say(Over(0, 0, 0))

    def _let_go_of_ends(self) -> None:
        self._descriptors.close(self._wire.detach())
        self._descriptors.close(self._stack)

    def _say(self, told: Told) -> None:
        """Tell it in the next turn, as a guardian would: never within the call that gave the order."""
        self._post(lambda one: self._tell(self, one), told)


def leave() -> NoReturn:
    """End the thread's job: nobody listens any more."""
    raise Gone


def nothing() -> None:
    """Flush nothing: what is printed here goes where the supervisor's own output goes."""


def writer(log: int) -> Callable[[bytes], object]:
    """Return what writes lines into the job's log, until nobody reads it any more."""

    def write(line: bytes) -> None:
        try:
            os.write(log, line)
        except BrokenPipeError:
            leave()

    return write


def close(fds: list[int]) -> None:
    """Close descriptors."""
    for fd in fds:
        os.close(fd)


def stack_text(frame: FrameType) -> bytes:
    """Return where a thread is, in the form in which a child dumps it."""
    lines: list[str] = ["Current thread 0x0 (most recent call first):"]
    walker: FrameType | None = frame
    while walker is not None and walker.f_code is not ThreadKeeper._serve.__code__:  # noqa: SLF001
        code = walker.f_code
        lines.append(f'  File "{code.co_filename}", line {walker.f_lineno} in {code.co_name}')
        walker = walker.f_back
    return "\n".join([*lines, ""]).encode("utf-8", "backslashreplace")[:STACK_BYTES]
