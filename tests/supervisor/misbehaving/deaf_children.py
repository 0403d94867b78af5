"""Children that do not obey signals, or that attack whoever watches them."""

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from unruly import Context, Jobs, application, child, note

app = application("deaf")
libc = ctypes.CDLL(None)

deaf = child(app, batch_deadline=0.5)
slow = child(app, batch_deadline=0.5, grace=10.0)
bold = child(app)

PTRACE_TRACEME, PTRACE_ATTACH = 0, 16
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_NAME, PR_SET_CHILD_SUBREAPER = 1, 4, 15, 36


def hang() -> None:
    while True:
        time.sleep(0.01)


def guardian() -> int:
    return os.getppid()


def template() -> int:
    """Return the other child of its guardian."""
    text = Path(f"/proc/{guardian()}/task/{guardian()}/children").read_text()
    (found,) = (int(pid) for pid in text.split() if int(pid) != os.getpid())
    return found


def helper(job: Jobs, code: str, *arguments: object) -> None:
    """Start a program that is none of its process group, and goes on by itself."""
    program = [sys.executable, "-S", "-c", f"import os, signal, sys, time\n{code}", *map(str, arguments)]
    note(job, subprocess.Popen(program, start_new_session=True).pid)


# --- signals


@deaf
def ignores_sigterm(job: Jobs, ctx: Context) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    hang()


@deaf
def handles_sigterm_for_ever(job: Jobs, ctx: Context) -> None:
    signal.signal(signal.SIGTERM, lambda *_: hang())
    hang()


@deaf
def handles_sigterm_and_works_on(job: Jobs, ctx: Context) -> None:
    signal.signal(signal.SIGTERM, lambda *_: None)
    hang()


@deaf
def handles_sigterm_in_c(job: Jobs, ctx: Context) -> None:
    """A handler that Python never gets to run, because C has the GIL."""
    signal.signal(signal.SIGTERM, lambda *_: None)
    while True:
        ctypes.PyDLL(None).pause()


@deaf
def blocks_all_signals(job: Jobs, ctx: Context) -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    hang()


@deaf
def ignores_all_signals(job: Jobs, ctx: Context) -> None:
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_IGN)
    hang()


@slow
def stops_itself(job: Jobs, ctx: Context) -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


@deaf
def is_stopped_again_and_again(job: Jobs, ctx: Context) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    helper(job, "while True: os.kill(int(sys.argv[1]), signal.SIGSTOP)", os.getpid())
    hang()


@deaf
def has_its_parent_trace_it(job: Jobs, ctx: Context) -> None:
    """From now on each signal but SIGKILL stops it and wakes its guardian, instead of reaching it."""
    libc.ptrace(PTRACE_TRACEME, 0, 0, 0)
    os.kill(os.getpid(), signal.SIGUSR1)
    hang()


@slow
def hides_what_it_is(job: Jobs, ctx: Context) -> None:
    """What it holds and what its environment says belong to root now."""
    libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
    hang()


@slow
def has_a_name_that_lies(job: Jobs, ctx: Context) -> None:
    """As a zombie that is a child of the first process would be listed."""
    libc.prctl(PR_SET_NAME, b"x) Z 1 1 (y\n", 0, 0, 0)
    hang()


@slow
def becomes_another_user(job: Jobs, ctx: Context) -> None:
    """The kernel then forgets that it was to die with its parent."""
    os.setresuid(65534, 65534, 65534)
    hang()


@slow
def adopts_orphans_itself(job: Jobs, ctx: Context) -> None:
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    helper(job, "os.fork() and os._exit(0); time.sleep(3600)")
    hang()


@slow
def hops_from_fork_to_fork(job: Jobs, ctx: Context) -> None:
    """Never there where it was seen: each copy forks on and leaves, in a session of its own."""
    helper(job, "while True: os.fork() and os._exit(0); os.setsid()")
    hang()


# --- its guardian


@slow
def stops_its_guardian(job: Jobs, ctx: Context) -> None:
    os.kill(guardian(), signal.SIGSTOP)
    hang()


@deaf
def stops_its_guardian_again_and_again(job: Jobs, ctx: Context) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    helper(job, "while True: os.kill(int(sys.argv[1]), signal.SIGSTOP)", guardian())
    hang()


@deaf
def traces_its_guardian(job: Jobs, ctx: Context) -> None:
    """Stopped so, a process hears no SIGCONT."""
    libc.ptrace(PTRACE_ATTACH, guardian(), 0, 0)
    hang()


@bold
def stops_its_guardian_and_is_done(job: Jobs, ctx: Context) -> None:
    os.kill(guardian(), signal.SIGSTOP)


@bold
def signals_its_guardian(job: Jobs, ctx: Context) -> None:
    """But for those that nobody can be deaf to."""
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP, *FATAL}:
        os.kill(guardian(), number)


FATAL = {signal.SIGILL, signal.SIGTRAP, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGSEGV}


@bold
def kills_its_guardian(job: Jobs, ctx: Context) -> None:
    os.kill(guardian(), signal.SIGKILL)
    hang()


@bold
def outlives_its_guardian(job: Jobs, ctx: Context) -> None:
    """With its whole family, each of them in another session."""
    libc.prctl(PR_SET_PDEATHSIG, 0, 0, 0, 0)
    for _ in range(5):
        helper(job, "time.sleep(3600)")
    os.kill(guardian(), signal.SIGKILL)
    hang()


@bold
def outlives_its_guardian_alone(job: Jobs, ctx: Context) -> None:
    libc.prctl(PR_SET_PDEATHSIG, 0, 0, 0, 0)
    note(job)
    os.kill(guardian(), signal.SIGKILL)
    hang()


@bold
def kills_its_guardian_and_is_done(job: Jobs, ctx: Context) -> None:
    libc.prctl(PR_SET_PDEATHSIG, 0, 0, 0, 0)
    os.kill(guardian(), signal.SIGKILL)


# --- its template


@bold
def kills_its_template(job: Jobs, ctx: Context) -> None:
    os.kill(template(), signal.SIGKILL)


@bold
def stops_its_template(job: Jobs, ctx: Context) -> None:
    os.kill(template(), signal.SIGSTOP)


@bold
def stops_its_template_and_traces_it(job: Jobs, ctx: Context) -> None:
    libc.ptrace(PTRACE_ATTACH, template(), 0, 0)


# --- many at once


@bold
def kills_its_process_group(job: Jobs, ctx: Context) -> None:
    os.killpg(0, signal.SIGKILL)
    threading.Event().wait()


@bold
def ends_its_process_group(job: Jobs, ctx: Context) -> None:
    os.killpg(0, signal.SIGTERM)
    threading.Event().wait()


def kill_everybody(job: Jobs) -> None:
    """All that the system lets it, but never where the test itself could be hit."""
    if os.readlink("/proc/self/ns/pid") == job.payload["outside"]:
        raise RuntimeError("this is no process namespace of its own")
    os.kill(-1, signal.SIGKILL)


@bold
def kills_everybody(job: Jobs, ctx: Context) -> None:
    kill_everybody(job)
    hang()


@child(app, shield=True)
def kills_everybody_behind_the_shield(job: Jobs, ctx: Context) -> None:
    kill_everybody(job)
