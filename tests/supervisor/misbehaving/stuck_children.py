"""Children that never come back, each from another place."""

import ctypes
import fcntl
import itertools
import os
import re
import socket
import subprocess
import threading
from queue import SimpleQueue

from unruly import Context, Jobs, application, child, note

app = application("stuck")
holding = ctypes.PyDLL(None)
letting_go = ctypes.CDLL(None)

stuck = child(app, batch_deadline=0.5, grace=10.0)


@child(app)
def in_c_with_the_gil_for_a_while(job: Jobs, ctx: Context) -> None:
    holding.usleep(900_000)
    holding.usleep(900_000)


@stuck
def in_c_with_the_gil(job: Jobs, ctx: Context) -> None:
    holding.pause()


@stuck
def in_c_without_the_gil(job: Jobs, ctx: Context) -> None:
    letting_go.pause()


@stuck
def in_a_recv_in_c(job: Jobs, ctx: Context) -> None:
    ours, _theirs = socket.socketpair()
    letting_go.recv(ours.fileno(), ctypes.create_string_buffer(9), 9, 0)


@stuck
def in_a_recv_in_c_with_the_gil(job: Jobs, ctx: Context) -> None:
    ours, _theirs = socket.socketpair()
    holding.recv(ours.fileno(), ctypes.create_string_buffer(8), 8, 0)


@stuck
def in_a_regex(job: Jobs, ctx: Context) -> None:
    re.match(r"(a+)+$", "a" * 64 + "b")


@stuck
def in_a_power(job: Jobs, ctx: Context) -> None:
    print((7 ** (10**9)).bit_length())


@stuck
def in_an_endless_sum(job: Jobs, ctx: Context) -> None:
    sum(itertools.repeat(0))


@stuck
def in_a_busy_loop(job: Jobs, ctx: Context) -> None:
    while True:
        pass


@stuck
def in_a_lock_of_its_own(job: Jobs, ctx: Context) -> None:
    lock = threading.Lock()
    lock.acquire()
    lock.acquire(timeout=-1)


@stuck
def in_an_empty_queue(job: Jobs, ctx: Context) -> None:
    SimpleQueue[int]().get()


@stuck
def in_a_thread_that_never_ends(job: Jobs, ctx: Context) -> None:
    thread = threading.Thread(target=threading.Event().wait)
    thread.start()
    thread.join()


@stuck
def in_a_pipe_that_nobody_reads(job: Jobs, ctx: Context) -> None:
    _, write = os.pipe()
    while True:
        os.write(write, bytes(4096))


@stuck
def in_a_fifo_that_nobody_writes(job: Jobs, ctx: Context) -> None:
    os.mkfifo(f"fifo-{job.id}")
    os.open(f"fifo-{job.id}", os.O_RDONLY)


@stuck
def in_a_file_lock(job: Jobs, ctx: Context) -> None:
    one, other = (os.open(f"lock-{job.id}", os.O_RDWR | os.O_CREAT) for _ in range(2))
    fcntl.flock(one, fcntl.LOCK_EX)
    fcntl.flock(other, fcntl.LOCK_EX)


@stuck
def in_a_program_that_it_waits_for(job: Jobs, ctx: Context) -> None:
    program = subprocess.Popen(["sleep", "3600"])
    note(job, program.pid)
    program.wait()


@stuck
def in_an_answer_to_its_read(job: Jobs, ctx: Context) -> None:
    """The clock does not run while a read is unanswered; it does once the answer is there."""
    ctx.read("landed", job=job.id)
    threading.Event().wait()
