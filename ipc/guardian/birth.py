"""Starting a process: fork, and in the copy all that must be so before the program begins.

A session of its own, death with the guardian, niceness, the first place in the queue of the kernel's
out-of-memory killer, the shield, the control group; then exec. What goes wrong on the way comes
back as text through a pipe that exec closes. Nobody waits for that: a folder may hang.
"""

import os
import signal
import sys
from contextlib import suppress

from ipc.guardian import cgroup, shield
from ipc.guardian.orders import LINE, Start

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
OOM_SCORE = b"800"
"""Added to a child's badness (of 1000): the kernel picks it before its owner's editor."""

NOT_BEGUN = 126


class NotBegun(Exception):
    """The process could not be started; the text says why, after the number of the system's error or 0."""


def not_begun(error: OSError) -> NotBegun:
    """Return that a process could not be started for this reason."""
    return NotBegun(f"{error.errno or 0} a process cannot be started: {error.strerror}")


class Birth:
    """A process between fork and exec. Args: its process id, and where it tells what went wrong."""

    def __init__(self, pid: int, told: int) -> None:
        os.set_blocking(told, False)
        self.pid = pid
        self._told = told
        self._said = b""

    def fileno(self) -> int:
        """Return the descriptor to wait on."""
        return self._told

    def listen(self) -> bool:
        """Tell whether the program has begun; one that was killed before counts, too: its end will tell.

        Raises:
            NotBegun: something went wrong.
        """
        try:
            while piece := os.read(self._told, LINE):
                self._said += piece
        except BlockingIOError:
            return False
        self.close()
        if self._said:
            os.waitpid(self.pid, 0)  # it said that, and left
            raise NotBegun(self._said.decode("utf-8", "backslashreplace"))
        return True

    def close(self) -> None:
        """Listen no more."""
        os.close(self._told)


def prctl(option: int, value: int) -> bool:
    """Call prctl; tell whether the kernel took it. Without it (not Linux, no ctypes) nothing happens."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        from ctypes import CDLL  # noqa: PLC0415 - not every Python has it
    except ImportError:
        return False
    return bool(CDLL(None).prctl(option, value, 0, 0, 0) == 0)


def bear(start: Start, fds: tuple[int, int, int], control: int | None) -> Birth:
    """Start a child with its channel, output and stack descriptors.

    Args:
        start: what to run.
        fds: channel, output, stacks.
        control: the descriptor by which a template is asked for copies, None for a child of its own.

    Raises:
        OSError: no process, or no pipe, can be made.
    """
    told, tell = os.pipe()
    guardian = os.getpid()
    try:
        pid = os.fork()  # noqa: TID251 - this is where children are started
    except OSError:
        os.close(told)
        os.close(tell)
        raise
    if pid == 0:
        try:
            os.close(told)
            become(start, fds, control, guardian)
        except BaseException as error:  # noqa: BLE001 - nothing of the guardian may run on in the copy
            number = getattr(error, "errno", None) or 0
            text = f"{number} {str(error) or type(error).__name__}"
            os.write(tell, text.encode("utf-8", "backslashreplace")[:1000])
        os._exit(NOT_BEGUN)
    os.close(tell)
    return Birth(pid, told)


def become(start: Start, fds: tuple[int, int, int], control: int | None, guardian: int) -> None:
    """Turn this copy of the guardian into the program that `start` names.

    Its signals are left as they are: exec has those act by default again that the guardian handles.
    """
    argv, tail, environment, folder, nice, closed, group, _ = start
    channel, output, stacks = fds
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != guardian:  # it died before we asked
        os._exit(NOT_BEGUN)
    os.setsid()
    os.dup2(output, 1)
    os.dup2(output, 2)
    prefer_for_oom_kill()
    be_nice(nice)
    if group and control is None:
        with suppress(OSError):  # its guardian looks whether it is in there
            cgroup.join(group)
    os.chdir(folder)
    if closed:
        argv = shielded(argv, closed)
    options = ["--channel", str(channel), "--stack", str(stacks), "--parent", str(guardian)]
    kept = [channel, stacks]
    if control is not None:
        options += ["--template", str(control)]
        kept.append(control)
    for fd in kept:
        os.set_inheritable(fd, True)
    os.execve(argv[0], [*argv, *options, *tail], environment)  # noqa: S606 - what the supervisor says


def shielded(argv: list[str], closed: str) -> list[str]:
    """Close a folder to this process and all that it starts; return what to run."""
    if sys.platform == "darwin":
        return shield.sandboxed(argv, closed)
    shield.close_off(closed)
    return argv


def prefer_for_oom_kill() -> None:
    """Have the kernel end this process before others when memory runs out."""
    try:
        fd = os.open("/proc/self/oom_score_adj", os.O_WRONLY)
    except OSError:
        return
    with suppress(OSError):  # its parent has a higher one, and only root may go below that
        os.write(fd, OOM_SCORE)
    os.close(fd)


def be_nice(value: int) -> None:
    """Set the niceness; a user who may not raise its priority keeps what it has."""
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, value)
