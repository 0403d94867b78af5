"""What the process is before it runs a line of the user's code.

Nothing here depends on the user: the descriptors that matter are ours alone, the way out
works whatever the code is stuck in, and the process does not outlive its supervisor.
"""

import faulthandler
import os
import resource
import select
import signal
import sys
from _thread import start_new_thread
from io import TextIOWrapper
from typing import Final

from ipc.dump import DUMP_SIGNAL

PR_SET_PDEATHSIG: Final = 1


def guard(channel: int, stack: int, parent: int) -> None:
    """Make this process safe to run anything in; called once, first.

    Args:
        channel: the descriptor of the wire.
        stack: the descriptor of a regular file that stacks are dumped to.
        parent: the process to live no longer than.
    """
    leave_with_parent(parent, channel)
    set_signals(stack)
    set_descriptors(channel, stack)
    forbid_core_dumps()


def set_descriptors(channel: int, stack: int) -> None:
    """Keep ours from programs that user code starts; stdin is empty; no text is too odd to print."""
    os.set_inheritable(channel, False)
    os.set_inheritable(stack, False)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(line_buffering=True, errors="backslashreplace")


def set_signals(stack: int) -> None:
    """Let SIGTERM dump all Python stacks and then kill, whoever holds the GIL.

    The dumping handler is C; a Python handler would never run while C code spins. A
    mask that our parent left would survive exec and hold SIGTERM back. Ctrl-C at the
    terminal is the supervisor's.
    """
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    faulthandler.enable(file=stack)
    faulthandler.register(signal.SIGTERM, file=stack, all_threads=True, chain=True)
    faulthandler.register(DUMP_SIGNAL, file=stack, all_threads=True)


def leave_with_parent(parent: int, channel: int) -> None:
    """Die when `parent` does, also when busy (SPEC U41)."""
    if not ask_for_death_signal():
        start_new_thread(leave_at_hangup, (channel,))
    if os.getppid() != parent:  # it died before we asked
        os._exit(0)


def ask_for_death_signal() -> bool:
    """Have the kernel kill this process when its parent dies; tell whether it will."""
    if sys.platform != "linux":
        return False
    try:
        import ctypes  # noqa: PLC0415 - costs 2 ms that other systems need not pay
    except ImportError:  # Python was built without it
        return False
    return bool(ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) == 0)


def leave_at_hangup(channel: int) -> None:
    """Wait, on a thread of its own, until the other end of `channel` is gone; then leave."""
    hangup = select.poll()
    hangup.register(channel, 0)
    hangup.poll()
    os._exit(0)


def forbid_core_dumps() -> None:
    """Keep what the process holds in memory from being written to disk when it crashes."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
