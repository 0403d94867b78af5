"""Entry of the guardian: `python -I -S PATH LIFELINE LOCK DUMP_SIGNAL PARENT`, PATH being this file's.

Isolated and without site packages it runs none of the user's code, and needs little time and memory.
"""

import os
import signal
import sys
from contextlib import suppress

HERE = os.path.dirname(os.path.abspath(__file__))
FAULTS = (
    signal.SIGABRT,
    signal.SIGBUS,
    signal.SIGFPE,
    signal.SIGILL,
    signal.SIGSEGV,
    signal.SIGSYS,
    signal.SIGTRAP,
)


def main(lifeline: int, lock: str, dump_signal: int, parent: int) -> None:
    """Guard until the end of `lifeline`, a descriptor, or of the process `parent`; hold the file `lock`."""
    sys.path.append(os.path.dirname(os.path.dirname(HERE)))
    from _socket import socket  # noqa: PLC0415 - below the path that it needs

    from ipc.guardian import birth, keep  # noqa: PLC0415
    from ipc.guardian.lifeline import Lifeline  # noqa: PLC0415
    from ipc.guardian.orders import GROUP, GUARDIAN  # noqa: PLC0415

    handle_signals()
    wakes, wake = os.pipe()
    for fd in (wakes, wake):
        os.set_blocking(fd, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    os.set_inheritable(lifeline, False)
    birth.prctl(
        birth.PR_SET_PDEATHSIG, signal.SIGCONT
    )  # one that was stopped must see the end of its supervisor
    if os.getppid() != parent:  # it died before we asked
        return
    tier = GUARDIAN if birth.prctl(birth.PR_SET_CHILD_SUBREAPER, 1) else GROUP
    try:
        hold(lock)
    except OSError:  # the store's folder is gone, and with it the run: its supervisor says so
        return
    keep.Guardian(Lifeline(socket(fileno=lifeline), parent), wakes, dump_signal, tier).serve()


def handle_signals() -> None:
    """Have no signal end or stop this process that a job may send, but for those of a fault of its own.

    They are handled, not ignored: that would outlast the exec of a child, where it may have been inherited.
    """
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    for number in range(1, signal.NSIG):
        with suppress(OSError):  # it cannot be changed
            signal.signal(number, signal.SIG_DFL if number in FAULTS else lambda *_: None)


def hold(lock: str) -> None:
    """Show the next supervisor that children of this one may live: it waits for this file (CONTRACTS K9)."""
    from fcntl import LOCK_SH, flock  # noqa: PLC0415

    flock(os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600), LOCK_SH)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
    os._exit(0)
