"""Children that leave something behind: processes, threads of their world, a copy of themselves."""

import builtins
import json
import locale
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

from unruly import Context, Jobs, Pairs, application, child, note, touch, wait_for

app = application("untidy")
untidy = child(app)
GLOBAL: dict[str, Any] = {}


def program(job: Jobs, *argv: str, **how: Any) -> int:
    started = subprocess.Popen(argv, **how)
    note(job, started.pid)
    return started.pid


DAEMON = """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        {then}
os._exit(0)
"""


def daemon(then: str) -> None:
    """Leave a process whose parent is gone, whose session is its own and whose environment is empty."""
    subprocess.run([sys.executable, "-S", "-c", DAEMON.format(then=then)], check=True, env={})


# --- processes


@untidy
def leaves_a_program_behind(job: Jobs, ctx: Context) -> None:
    program(job, "sleep", "3600")


@untidy
def leaves_a_program_that_holds_its_output(job: Jobs, ctx: Context) -> None:
    program(job, "sh", "-c", "trap '' TERM HUP; while :; do echo on and on; sleep 0.01; done")


@untidy
def leaves_a_daemon_behind(job: Jobs, ctx: Context) -> None:
    daemon("time.sleep(3600)")


@untidy
def leaves_a_shell_that_has_left_its_folder(job: Jobs, ctx: Context) -> None:
    program(job, "sh", "-c", "cd /; exec env -i sleep 3600", start_new_session=True)


@untidy
def leaves_many_programs_behind(job: Jobs, ctx: Context) -> None:
    for _ in range(50):
        program(job, "sleep", "3600", start_new_session=True)


@untidy
def leaves_zombies_of_its_own(job: Jobs, ctx: Context) -> None:
    """Twenty children that it never waits for."""
    for _ in range(20):
        pid = os.fork()
        if pid == 0:
            os._exit(0)
        note(job, pid)


@untidy
def leaves_zombies_to_its_guardian(job: Jobs, ctx: Context) -> None:
    """Twenty grandchildren that end as orphans; it goes on only when none of them is left."""
    for _ in range(20):
        daemon("os._exit(0)")
    wait_for(lambda: not zombies(os.getppid()))


def zombies(parent: int) -> list[int]:
    found = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    return [int(pid) for pid in found if state_of(pid) == "Z"]


def state_of(pid: str) -> str:
    with suppress(FileNotFoundError, ProcessLookupError):  # reaped meanwhile
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    return ""


@untidy
def makes_a_world_of_its_own(job: Jobs, ctx: Context) -> None:
    """In another process namespace, where the kernel needs root for it, or a user namespace."""
    argv = ["unshare", "-rpf", "sh", "-c", f"setsid sleep 3600 & touch {job.payload['noted']}/inside; wait"]
    program(job, *argv)
    wait_for(Path(job.payload["noted"], "inside").exists)


# --- copies of itself


@untidy
def forks_a_copy_that_works_on(job: Jobs, ctx: Context) -> Pairs:
    """Both go on from here, as one does who does not know what a fork is."""
    os.fork()
    for n in range(100):
        yield n, "forked"


@untidy
def forks_a_copy_that_leaves_by_sys_exit(job: Jobs, ctx: Context) -> None:
    """As a program does that has started a process in the usual way."""
    if (pid := os.fork()) == 0:
        sys.exit(3)
    _, status = os.waitpid(pid, 0)
    touch(job, f"status {os.waitstatus_to_exitcode(status)}")


@untidy
def forks_a_copy_that_raises(job: Jobs, ctx: Context) -> None:
    if (pid := os.fork()) == 0:
        raise ValueError("in the copy")
    os.waitpid(pid, 0)


@untidy
def forks_a_copy_that_is_done(job: Jobs, ctx: Context) -> Pairs:
    """The copy has come to its end, and would say so, while the worker is still at it."""
    if (pid := os.fork()) == 0:
        return
    os.waitpid(pid, 0)
    yield 0, "forked"


@untidy
def forks_a_copy_that_stays(job: Jobs, ctx: Context) -> None:
    if os.fork() == 0:
        note(job)
        time.sleep(3600)


# --- the state of the process


def world() -> dict[str, Any]:
    """Return what a job finds of the process that it runs in."""
    umask = os.umask(0o22)
    os.umask(umask)
    return {
        "folder": os.getcwd(),
        "umask": umask,
        "nice": os.getpriority(os.PRIO_PROCESS, 0),
        "environment": sorted(os.environ),
        "path": sys.path,
        "modules": "antigravity" in sys.modules,
        "global": GLOBAL,
        "builtins": hasattr(builtins, "mine"),
        "sigusr1": str(signal.getsignal(signal.SIGUSR1)),
        "mask": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, ())),
        "locale": locale.setlocale(locale.LC_ALL),
        "recursion": sys.getrecursionlimit(),
        "files": resource.getrlimit(resource.RLIMIT_NOFILE),
        "warnings": len(warnings.filters),
        "stdout": type(sys.stdout).__name__,
        "descriptors": len(os.listdir("/proc/self/fd")),
        "pid": 0,
    }


@untidy
def says_what_it_finds(job: Jobs, ctx: Context) -> Pairs:
    yield os.getpid(), json.dumps(world())


@untidy
def changes_all_that_it_finds(job: Jobs, ctx: Context) -> None:
    os.chdir("/")
    os.umask(0)
    os.nice(5)
    os.environ["MINE"] = "yes"
    sys.path.insert(0, "/mine")
    sys.modules["antigravity"] = sys
    GLOBAL["mine"] = True
    builtins.mine = True  # type: ignore[attr-defined]
    signal.signal(signal.SIGUSR1, lambda *_: None)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2})
    sys.setrecursionlimit(99)
    resource.setrlimit(resource.RLIMIT_NOFILE, (100, 200))
    warnings.simplefilter("ignore", ResourceWarning)
    for _ in range(20):
        os.open(os.devnull, os.O_RDONLY)
    sys.stdout = None  # type: ignore[assignment]


@untidy
def throws_dice(job: Jobs, ctx: Context) -> Pairs:
    yield 0, f"{random.random()} {os.urandom(8).hex()} {hash('seeded')}"


@untidy
def deletes_its_own_folder(job: Jobs, ctx: Context) -> None:
    os.mkdir(f"own-{job.id}")
    os.chdir(f"own-{job.id}")
    shutil.rmtree(os.path.abspath("."))


# --- its limits


@untidy
def takes_all_its_descriptors_away(job: Jobs, ctx: Context) -> None:
    """No more can be opened; what is open stays. With 0 nobody could even wait for one, by poll."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (1, 1))


@untidy
def takes_its_files_away(job: Jobs, ctx: Context) -> None:
    """No file may grow, not even the one that its stacks go to."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


@untidy
def takes_its_processes_away(job: Jobs, ctx: Context) -> None:
    resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))


@untidy
def takes_its_memory_away(job: Jobs, ctx: Context) -> None:
    """No page more, for whatever."""
    resource.setrlimit(resource.RLIMIT_AS, (0, 0))
    bytearray(1 << 20)


@untidy
def takes_its_stack_away(job: Jobs, ctx: Context) -> None:
    resource.setrlimit(resource.RLIMIT_STACK, (0, 0))


@untidy
def takes_its_signals_away(job: Jobs, ctx: Context) -> None:
    resource.setrlimit(resource.RLIMIT_SIGPENDING, (0, 0))


@child(app, batch_deadline=0.5, grace=10.0)
def hangs_without_any_limit_left(job: Jobs, ctx: Context) -> None:
    for name in ("NOFILE", "FSIZE", "NPROC", "STACK", "SIGPENDING"):
        resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (0, 0))
    time.sleep(3600)
