"""Whom a job is a guest of: the process that is its own, or a thread of the supervisor.

What differs is how it leaves when nobody listens any more, where its log lines go, and what is to be
flushed after it. All else is the same code.
"""

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Final, NamedTuple, NoReturn

STDERR: Final = 2


class Gone(BaseException):
    """Nobody listens any more, and the process is not the job's own to end: only its thread ends."""


class Host(NamedTuple):
    """What a job's surroundings do for it.

    Attributes:
        leave: called when the supervisor is gone; does not return.
        write: takes one line of its log, in bytes.
        flush: called after each job.
    """

    leave: Callable[[], NoReturn]
    write: Callable[[bytes], object]
    flush: Callable[[], None]


def leave_process() -> NoReturn:
    """End this process at once: the supervisor is gone, nobody is left to compute for."""
    os._exit(0)


def write_stderr(line: bytes) -> None:
    """Write a line to where everything goes that the process prints."""
    os.write(STDERR, line)


def flush_output() -> None:
    """Let what the job printed without a newline reach its log."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(BaseException):  # user code may have closed it, or put anything there
            stream.flush()
    # What C code prints waits in a buffer of its own until the process ends, after the receipt.
    if (ctypes := sys.modules.get("ctypes")) is not None:
        ctypes.CDLL(None).fflush(None)


PROCESS: Final = Host(leave_process, write_stderr, flush_output)
