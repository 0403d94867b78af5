"""One child process: started, watched, signalled and reaped here and nowhere else.

    supervisor                                   child (own session and process group)
      channel  <======= socketpair =======>      --channel FD
      log      <------- pipe --------------      stdout and stderr
      stack    <------- memfd -------------      --stack FD, written on SIGTERM and crashes
      pidfd    tells the exit

Signals go out only before the reap, so a process id is never one that was reissued.
"""

import os
import signal
import socket
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ipc.channel import Channel
from ipc.dump import DUMP_SIGNAL
from ipc.logtail import LogTail

STACK_BYTES: Final = 64 << 10
ALWAYS_PASSED: Final = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "PYTHONPATH", "VIRTUAL_ENV")
"""Environment variables that every child gets (SPEC C156); a kind may list more."""


@dataclass(frozen=True, slots=True)
class Command:
    """What to start. `argv` gets the options --channel FD --stack FD --parent PID before its `tail`."""

    argv: Sequence[str]
    tail: Sequence[str]
    env: Mapping[str, str]
    folder: Path
    nice: int = 0


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


class Child:
    """A started child. Call from one lasting thread: the parent-death signal follows the starting thread."""

    def __init__(self, command: Command) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        log_read, log_write = os.pipe2(os.O_CLOEXEC) if hasattr(os, "pipe2") else os.pipe()
        self._stack: int | None = open_stack()
        self._stacks = ""
        try:
            self._process = self._start(command, theirs, log_write, self._stack)
        except BaseException:
            ours.close()
            os.close(log_read)
            os.close(self._stack)
            raise
        finally:
            theirs.close()
            os.close(log_write)
        self.pid = self._process.pid
        self.exit: Exit | None = None
        try:
            self.pidfd = os.pidfd_open(self.pid) if hasattr(os, "pidfd_open") else None
        except OSError:
            self.kill_group()
            self._process.wait()
            ours.close()
            os.close(log_read)
            os.close(self._stack)
            raise
        self.channel = Channel(ours)
        os.set_blocking(log_read, False)
        self.log = LogTail(log_read)
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, self.pid, command.nice)

    def _start(
        self, command: Command, theirs: socket.socket, log: int, stack: int
    ) -> subprocess.Popen[bytes]:
        options = ["--channel", str(theirs.fileno()), "--stack", str(stack), "--parent", str(os.getpid())]
        return subprocess.Popen(  # noqa: S603 - our own module under our own interpreter
            [*command.argv, *options, *command.tail],
            env=dict(command.env),
            cwd=command.folder,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=(theirs.fileno(), stack),
            start_new_session=True,
        )

    def terminate(self) -> None:
        """Ask it to dump its stacks and die; wake it first if it was stopped."""
        if self.exit is None:
            os.kill(self.pid, signal.SIGTERM)
            os.kill(self.pid, signal.SIGCONT)

    def dump(self) -> None:
        """Ask it to dump its stacks and go on."""
        if self.exit is None:
            os.kill(self.pid, DUMP_SIGNAL)

    def kill_group(self) -> None:
        """SIGKILL it and everything that stayed in its process group."""
        if self.exit is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)

    def reap(self) -> Exit | None:
        """Return how it ended, or None while it lives; its group is killed before its id is given back."""
        if self.exit is None and has_exited(self.pid):
            self.kill_group()
            code = self._process.wait()
            self.exit = Exit(code, None) if code >= 0 else Exit(None, -code)
        return self.exit

    def rss_gib(self) -> float:
        """Return the memory it holds in GiB, 0.0 where the system does not say."""
        return rss_gib(self.pid)

    def stack(self) -> str:
        """Return the stacks that it dumped, at most 64 KiB of text; they are kept after `close`."""
        if self._stack is not None:
            self._stacks = os.pread(self._stack, STACK_BYTES, 0).decode("utf-8", "backslashreplace")
        return self._stacks

    def close(self) -> None:
        """Let go of all descriptors of a child that is gone; its stacks and its log stay readable."""
        self.stack()
        self.channel.close()
        self.log.close()
        for fd in (self._stack, self.pidfd):
            if fd is not None:
                os.close(fd)
        self._stack = self.pidfd = None


def has_exited(pid: int) -> bool:
    """Tell whether our child has ended, leaving it unreaped, so that its id stays its own."""
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:  # somebody else in this process has reaped it
        return True


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
