"""Children that take more than they may: memory, processes, CPU time, descriptors, room in files."""

import mmap
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from unruly import Context, Jobs, Pairs, application, child, note, wait_for

import worker.limits

app = application("greedy")
worker.limits.LAST_SECONDS = 1  # type: ignore[misc]  # so that a test need not burn five
MB = 1_000_000
LIMIT = 200 * MB
GROWTH = 500 * MB

greedy = child(app, memory_limit=LIMIT)
crowded = child(app, process_limit=20)


# --- memory


@child(app, memory_limit=GROWTH)
def grows(job: Jobs, ctx: Context) -> None:
    """100 MB a second, in ten steps."""
    held = []
    note(job)
    while True:
        held.append(bytearray(os.urandom(1) * (10 * MB)))
        time.sleep(0.1)


@greedy
def takes_it_at_once(job: Jobs, ctx: Context) -> None:
    held = bytearray(b"x") * (400 * MB)
    time.sleep(3600)
    print(len(held))


@greedy
def has_it_held_by_its_children(job: Jobs, ctx: Context) -> None:
    """None of which has too much."""
    code = f"import time; held = b'x' * {80 * MB}; time.sleep(3600)"
    for _ in range(4):
        note(job, subprocess.Popen([sys.executable, "-S", "-c", code], start_new_session=True).pid)
    time.sleep(3600)


@greedy
def holds_it_where_its_copies_see_it(job: Jobs, ctx: Context) -> Pairs:
    """Ten processes that share the same memory hold it once: this is no greed."""
    held = mmap.mmap(-1, 100 * MB)
    for _ in range(100):
        held.write(b"x" * MB)
    copies = [copy_that_looks(held) for _ in range(10)]
    for n in range(50):
        yield n, "shared"
        time.sleep(0.02)
    for pid in copies:
        os.kill(pid, signal.SIGKILL)


def copy_that_looks(held: mmap.mmap) -> int:
    """Fork a copy that has all pages in its own table, too."""
    seen, see = os.pipe()
    if (pid := os.fork()) == 0:
        os.write(see, bytes([sum(held[::4096]) % 256]))
        time.sleep(3600)
    os.read(seen, 1)
    return pid


@greedy
def asks_for_more_than_it_uses(job: Jobs, ctx: Context) -> Pairs:
    """Ten GB that no page belongs to are no memory."""
    held = mmap.mmap(-1, 10_000 * MB, prot=0)
    for n in range(50):
        yield n, "asked for"
        time.sleep(0.01)
    held.close()


@child(app)
def asks_for_more_than_there_is(job: Jobs, ctx: Context) -> None:
    bytearray(1 << 60)


# --- processes


@crowded
def forks_without_end(job: Jobs, ctx: Context) -> None:
    """Each copy forks on; tokens in a pipe bound it, so that it costs nobody the machine."""
    tokens, more = os.pipe()
    os.set_blocking(tokens, False)
    os.write(more, bytes(300))
    while True:
        try:
            os.read(tokens, 1)
        except BlockingIOError:
            time.sleep(3600)
        os.fork()


@crowded
def starts_many_programs(job: Jobs, ctx: Context) -> None:
    for _ in range(40):
        note(job, subprocess.Popen(["sleep", "3600"], start_new_session=True).pid)
    time.sleep(3600)


@crowded
def has_many_threads(job: Jobs, ctx: Context) -> Pairs:
    """Which are no processes."""
    over = threading.Event()
    for _ in range(200):
        threading.Thread(target=over.wait).start()
    for n in range(20):
        yield n, "with many threads"
        time.sleep(0.02)
    over.set()


# --- CPU time


@child(app, cpu_limit=1)
def burns(job: Jobs, ctx: Context) -> None:
    while True:
        pass


@child(app, cpu_limit=1)
def burns_in_c(job: Jobs, ctx: Context) -> None:
    """Without any way to run a handler."""
    sum(iter(int, 1))


@child(app, cpu_limit=1)
def burns_and_blocks_the_signal(job: Jobs, ctx: Context) -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGXCPU})
    while True:
        pass


@child(app, cpu_limit=1)
def sleeps_longer_than_its_cpu_time(job: Jobs, ctx: Context) -> None:
    time.sleep(1.5)


@child(app, cpu_limit=5)
def is_killed_by_hand_under_a_cpu_limit(job: Jobs, ctx: Context) -> None:
    subprocess.Popen(["/bin/sh", "-c", f"kill -KILL {os.getpid()}"])
    time.sleep(3600)


# --- descriptors and files


@child(app, open_files_limit=64)
def opens_without_end(job: Jobs, ctx: Context) -> None:
    held = []
    while True:
        held.append(open(os.devnull))  # noqa: SIM115 - they are to stay open


@child(app, open_files_limit=64, batch_deadline=0.5, grace=10.0)
def opens_without_end_and_hangs(job: Jobs, ctx: Context) -> None:
    try:
        opens_without_end(job, ctx)
    except OSError:
        time.sleep(3600)  # full


@child(app, file_size_limit=100_000)
def writes_without_end(job: Jobs, ctx: Context) -> None:
    with open(f"large-{job.id}", "wb", buffering=0) as file:
        while True:
            file.write(bytes(10_000))


@child(app, file_size_limit=100_000)
def has_a_program_write_without_end(job: Jobs, ctx: Context) -> None:
    subprocess.run(["dd", "if=/dev/zero", f"of=large-{job.id}", "bs=10000"], check=True)


@child(app, file_size_limit=100_000, cpu_limit=5, open_files_limit=64, memory_limit=GROWTH, process_limit=20)
def stays_below_all_of_its_limits(job: Jobs, ctx: Context) -> None:
    with open(f"small-{job.id}", "wb") as file:
        file.write(bytes(50_000))
    subprocess.run(["true"], check=True)
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (64, 64)
    wait_for(Path(f"small-{job.id}").exists)
