"""One child process: started by a guardian, watched and signalled through it, and nowhere else.

    supervisor                                   child (own session and process group)
      channel  <======= socketpair =======>      --channel FD
      log      <------- pipe --------------      stdout and stderr
      stack    <------- memfd -------------      --stack FD, written on SIGTERM and crashes
      keeper   <===> guardian ------------>      signals, its exit, the end of all that it started

Only the guardian knows the child as its own, and signals before it reaps: no process id is one that
was reissued.
"""

import os
import signal
import socket
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from ipc.channel import Channel
from ipc.guardian.orders import Start
from ipc.keeper import Beside, Crossed, Failed, Left, Over, Started, Told
from ipc.logtail import LogTail

STACK_BYTES: Final = 64 << 10
ALWAYS_PASSED: Final = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "PYTHONPATH", "VIRTUAL_ENV")
"""Environment variables that every child gets (SPEC C156); a kind may list more."""


@dataclass(frozen=True, slots=True)
class Command:
    """What to start. `argv` gets the options --channel FD --stack FD --parent PID before its `tail`.

    Attributes:
        closed: a folder that the child and all that it starts are shut out of, None for none.
        group: a control group below which each guardian makes one for its children, None for none.
        template: the child may be a copy of one that has imported the application.
    """

    argv: Sequence[str]
    tail: Sequence[str]
    env: Mapping[str, str]
    folder: Path
    nice: int = 0
    closed: Path | None = None
    group: str | None = None
    template: bool = False

    def start(self, keeper: int) -> Start:
        """Return it as an order to the guardian with that process id."""
        group = "" if self.group is None else f"{self.group}-{keeper}"
        closed = "" if self.closed is None else str(self.closed)
        folder, env = str(self.folder), dict(self.env)
        return [*self.argv], [*self.tail], env, folder, self.nice, closed, group, self.template


@dataclass(frozen=True, slots=True)
class Exit:
    """How a process ended: an exit code, or the number of the signal that killed it."""

    code: int | None
    signal: int | None

    def __str__(self) -> str:
        if self.signal is None:
            return f"exit code {self.code}"
        try:
            name = signal.Signals(self.signal).name
        except ValueError:
            name = "signal"
        return f"killed by signal {self.signal} ({name})"


def pruned(environ: Mapping[str, str], names: Sequence[str]) -> dict[str, str]:
    """Return a child's environment: what all get, what its kind names, and a fixed hash seed."""
    passed = {name: environ[name] for name in (*ALWAYS_PASSED, *names) if name in environ}
    return passed | {"PYTHONHASHSEED": "0"}


class Keeping(Protocol):
    """What a child needs of its keeper; `ipc.keeper.Keeper` is one, and says what each order means."""

    pid: int
    free: bool

    def start(self, spec: Start, fds: tuple[int, int, int], /) -> None: ...
    def term(self) -> None: ...
    def dump(self) -> None: ...
    def kill(self) -> None: ...
    def put_down(self) -> None: ...
    def limit(self, memory: int, processes: int) -> None: ...
    def ask(self) -> None: ...


class Child:
    """A child that `keeper`, which must be free, starts. Everything that is told of it goes to `take`.

    Raises:
        OSError: there is no descriptor left, or the command is too long; nothing has been started.

    Attributes:
        pid: its process id, 0 until it has been started.
        template: the process that it is a copy of, 0 for none.
        tier: how surely it can be ended.
        spawn: how it came about.
        over: it and all that it started have ended, or it could not be started, or it was lost.
        exit: how it ended, None where nobody knows.
        failed: why it could not be started, None if it could.
        errno: the system's error that was the reason, 0 for none.
        ended: how many processes ended with it, itself included; who was dead before does not count.
        peak: bytes that it held at most.
        cpu: CPU seconds that it used.
        left: processes that are still there, though they were killed.
        crossed: what its tree held when it went over its limit.
        beside: what ran beside it when that was asked last.
    """

    def __init__(self, command: Command, keeper: Keeping) -> None:
        with ExitStack() as kept, ExitStack() as given:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
            kept.callback(ours.close)
            given.callback(theirs.close)
            log_read, log_write = os.pipe()
            kept.callback(os.close, log_read)
            given.callback(os.close, log_write)
            self._stack: int | None = open_stack()
            kept.callback(os.close, self._stack)
            keeper.start(command.start(keeper.pid), (theirs.fileno(), log_write, self._stack))
            kept.pop_all()
        self._stacks = ""
        os.set_blocking(log_read, False)
        self.keeper = keeper
        self.channel = Channel(ours)
        self.log = LogTail(log_read)
        self.pid = self.template = 0
        self.tier = self.spawn = ""
        self.over = False
        self.exit: Exit | None = None
        self.failed: str | None = None
        self.errno = 0
        self.ended = self.peak = 0
        self.cpu = 0.0
        self.left: tuple[int, ...] = ()
        self.crossed: Crossed | None = None
        self.beside: Beside | None = None

    def take(self, told: Told) -> None:
        """Note what its guardian told."""
        match told:
            case Started(pid, template, tier, spawn):
                self.pid, self.template, self.tier, self.spawn = pid, template, tier, spawn
            case Failed(why, number):
                self.failed, self.errno, self.over = why, number, True
            case Over(code, ended, peak, cpu):
                self.exit = Exit(code, None) if code >= 0 else Exit(None, -code)
                self.ended, self.peak, self.cpu = ended, peak, cpu
                self.over, self.left = True, ()
            case Left(pids):
                self.left = pids
            case Crossed():
                self.crossed = told
            case Beside():
                self.beside = told

    @property
    def stack_fd(self) -> int:
        """Return the descriptor of its stacks, -1 once it is closed."""
        return -1 if self._stack is None else self._stack

    @property
    def sessions(self) -> set[int]:
        """Return the sessions that it, and the template that it is a copy of, lead."""
        return {self.pid, self.template} - {0}

    def rss_gib(self) -> float:
        """Return the memory it holds in GiB, 0.0 where the system does not say."""
        return rss_gib(self.pid)

    def stack(self) -> str:
        """Return the stacks that it dumped, at most 64 KiB of text; they are kept after `close`."""
        if self._stack is not None:
            self._stacks = os.pread(self._stack, STACK_BYTES, 0).decode("utf-8", "backslashreplace")
        return self._stacks

    def begin_anew(self) -> None:
        """Forget what the last job printed and dumped: another begins."""
        if self._stack is not None:
            os.ftruncate(self._stack, 0)
            os.lseek(self._stack, 0, os.SEEK_SET)  # where the child writes, too: it is the same open file
        self.log.begin_anew()

    def close(self) -> None:
        """Let go of all descriptors of a child that is gone; its stacks and its log stay readable."""
        self.stack()
        self.channel.close()
        self.log.close()
        if self._stack is not None:
            os.close(self._stack)
        self._stack = None


def rss_gib(pid: int) -> float:
    """Return the memory that a process holds in GiB, 0.0 where the system does not say."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, IndexError, ValueError):
        return 0.0
    return pages * os.sysconf("SC_PAGE_SIZE") / (1 << 30)


def open_stack() -> int:
    """Open the nameless file that stacks are dumped to: a regular file, which never blocks a writer."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("laneway-stack", os.MFD_CLOEXEC)
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())
