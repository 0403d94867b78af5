"""Children that end in the middle without a word, each in another way."""

import ctypes
import faulthandler
import mmap
import os
import signal
import subprocess
import threading
import time

from unruly import Context, Jobs, application, child, note

app = application("dying")
dies = child(app)


@dies
def exits_with_0(job: Jobs, ctx: Context) -> None:
    os._exit(0)


@dies
def exits_with_3(job: Jobs, ctx: Context) -> None:
    os._exit(3)


@dies
def exits_from_a_thread(job: Jobs, ctx: Context) -> None:
    threading.Thread(target=os._exit, args=(4,)).start()
    time.sleep(3600)


@dies
def becomes_another_program(job: Jobs, ctx: Context) -> None:
    os.execv("/bin/sh", ["sh", "-c", "exit 5"])


@dies
def becomes_another_program_that_stays(job: Jobs, ctx: Context) -> None:
    note(job)
    os.execv("/bin/sleep", ["sleep", "3600"])


@dies
def segfaults(job: Jobs, ctx: Context) -> None:
    ctypes.string_at(0)


@dies
def segfaults_in_a_thread(job: Jobs, ctx: Context) -> None:
    threading.Thread(target=ctypes.string_at, args=(0,)).start()
    time.sleep(3600)


@dies
def overflows_its_stack(job: Jobs, ctx: Context) -> None:
    faulthandler._stack_overflow()  # type: ignore[attr-defined]


@dies
def aborts(job: Jobs, ctx: Context) -> None:
    os.abort()


@dies
def reads_past_the_end_of_a_file(job: Jobs, ctx: Context) -> None:
    fd = os.open(f"short-{job.id}", os.O_RDWR | os.O_CREAT)
    os.ftruncate(fd, 4096)
    mapped = mmap.mmap(fd, 4096)
    os.ftruncate(fd, 0)
    print(mapped[0])


@dies
def divides_by_zero_in_c(job: Jobs, ctx: Context) -> None:
    os.kill(os.getpid(), signal.SIGFPE)


@dies
def lets_an_alarm_ring(job: Jobs, ctx: Context) -> None:
    signal.setitimer(signal.ITIMER_REAL, 0.01)
    time.sleep(3600)


@dies
def is_killed_by_hand(job: Jobs, ctx: Context) -> None:
    subprocess.Popen(["/bin/sh", "-c", f"kill -KILL {os.getpid()}"])
    time.sleep(3600)


@dies
def is_told_to_end_by_hand(job: Jobs, ctx: Context) -> None:
    subprocess.Popen(["/bin/sh", "-c", f"kill -TERM {os.getpid()}"])
    time.sleep(3600)


@dies
def is_out_of_the_memory_of_its_group(job: Jobs, ctx: Context) -> None:
    """Join a group with little memory, and take more."""
    exec(job.payload["join"])
    ctypes.memset(ctypes.create_string_buffer(300_000_000), 1, 300_000_000)
