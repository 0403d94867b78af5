"""Limits that the kernel holds: open files, bytes in a file, CPU seconds of a job.

They are this process's own. A program that a job starts has the same ones and counts for itself. Memory
counts for the whole tree, so the supervisor watches it.
"""

import resource
import signal
import time
from math import ceil, inf
from typing import Final

PROFILED: Final = -8
"""The clock by which Linux holds a CPU limit: in ticks, so it can be a tenth and more off the exact one."""
LAST_SECONDS: Final = 5
"""CPU seconds that are left to a job which blocks SIGXCPU."""


def set_limits(open_files: int, file_size: int) -> None:
    """Bound what this process may open and write, for good; 0 leaves that limit as it is.

    Past it, a job sees an OSError: EMFILE when it opens, and EFBIG when it writes, because Python ignores
    SIGXFSZ. Programs that it starts die of that signal, since `subprocess` has it act again.

    Args:
        open_files: descriptors that may be open at once.
        file_size: bytes that each file it writes may reach.

    Raises:
        ValueError: one is no whole number, or below 0.
        OSError: the system refuses it.
    """
    for name, kind, value in (
        ("open_files_limit", resource.RLIMIT_NOFILE, open_files),
        ("file_size_limit", resource.RLIMIT_FSIZE, file_size),
    ):
        if type(value) is not int or value < 0:
            raise ValueError(f"{name} is {value!r}; it must be a whole number, 0 for no limit")
        if value:
            bound = within(value, resource.getrlimit(kind)[1])
            change(name, kind, bound, bound)


def limit_cpu(seconds: float, *, last: bool) -> None:
    """Allow the job that now begins so much CPU time, of all threads of this process together.

    What the jobs before it used does not count. Past it the process dies of SIGXCPU, less than 1 CPU second
    late, because the kernel takes whole seconds. To be called in the main thread.

    Args:
        seconds: CPU seconds; 0 takes the limit of the job before away again.
        last: this process will run no other job, so it may get a limit that cannot be lifted: a job that
            blocks SIGXCPU dies of SIGKILL, 5 CPU seconds later. Without it, nothing ends such a job here.

    Raises:
        ValueError: `seconds` is below 0 or infinite.
        OSError: the system refuses the limit.
    """
    if not 0 <= seconds < inf:
        raise ValueError(f"cpu_limit is {seconds!r}; it must be a number of seconds, 0 for no limit")
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    if not seconds:
        change("cpu_limit", resource.RLIMIT_CPU, hard, hard)
        return
    soft = within(ceil(cpu_seconds() + seconds), hard)
    change("cpu_limit", resource.RLIMIT_CPU, soft, within(soft + LAST_SECONDS, hard) if last else hard)
    let_sigxcpu_kill()


def let_sigxcpu_kill() -> None:
    """Undo what the job before made of SIGXCPU, so that a death by it tells the reason.

    One that came while it was blocked must not hit the job that begins; to ignore the signal drops it.
    """
    signal.signal(signal.SIGXCPU, signal.SIG_IGN)
    signal.signal(signal.SIGXCPU, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGXCPU,))


def cpu_seconds() -> float:
    """Return the CPU seconds that all threads of this process have used, as the limit on them counts."""
    try:
        return time.clock_gettime(PROFILED)
    except OSError:  # not Linux
        used = resource.getrusage(resource.RUSAGE_SELF)
        return used.ru_utime + used.ru_stime


def within(value: int, hard: int) -> int:
    """Return `value`, or the hard limit where that is lower: nobody gets more than he had."""
    return value if hard == resource.RLIM_INFINITY else min(value, hard)


def change(name: str, kind: int, soft: int, hard: int) -> None:
    """Set a limit; an error names the option."""
    try:
        resource.setrlimit(kind, (soft, hard))
    except (OSError, ValueError, OverflowError) as error:
        raise OSError(f"{name} = {soft} was refused by the system: {error}") from error
