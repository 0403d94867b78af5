"""What the child is before user code runs, and how it ends whatever that code does."""

import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ipc.messages import Done, Started

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc or the parent-death signal")


def test_noise_on_stdout_harms_no_frame(spawn, rows):
    """C161: prints from Python, from C and from a program without a newline, and odd text."""
    worker = spawn("""
        import os, subprocess, sys
        @app.lane("noisy")
        def noisy(job, ctx):
            for n in range(200):
                print("python", n)
                print("no newline", end="")
                os.write(1, b"from C\\0\\xff")
                sys.stderr.write("lone \\ud800 surrogate\\n")
                print("lone \\ud800 surrogate")
                if n % 50 == 0:
                    subprocess.run(["printf", "program"], check=True)
                    subprocess.run(["cat"], check=True)
                yield n,
            ctx.log("two\\nlines \\ud800")
    """)
    said = worker.job("noisy")
    assert isinstance(said[-1], Done)
    assert rows(said) == [(n,) for n in range(200)]
    worker.wait_output("python 199")
    worker.wait_output("lone \\ud800 surrogate")
    worker.wait_output("two\\nlines \\ud800\n")
    worker.wait_output("program")


def test_ten_megabytes_on_stderr_do_not_stop_a_job(spawn, rows):
    """C161: everything printed goes to a pipe that somebody drains."""
    worker = spawn("""
        import sys
        @app.lane("flood")
        def flood(job, ctx):
            for n in range(10):
                sys.stderr.write("x" * (1 << 20))
                yield n,
    """)
    assert rows(worker.job("flood")) == [(n,) for n in range(10)]


def test_a_print_without_newline_reaches_the_log_by_the_end_of_the_job(spawn):
    worker = spawn("""
        @app.lane("quiet")
        def quiet(job, ctx):
            print("half a line", end="")
    """)
    worker.job("quiet")
    worker.wait_output("half a line")


HANG = """
    import ctypes, os, re, signal, time
    libc = ctypes.PyDLL(None)  # PyDLL keeps the GIL

    @app.lane("hang")
    def hang(job, ctx):
        yield "before",
        globals()[job.payload]()

    def now():
        os.write(2, b"now\\n")

    def wedge():
        now(), libc.pause()

    def regex():
        now(), re.match(r"(a+)+$", "a" * 60 + "b")

    def loop():
        now(), max(iter(int, 1))

    def sleep():
        now(), time.sleep(1000)

    def deaf():
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        now(), time.sleep(1000)
"""


def hang_in(worker, how, run):
    """Start a job that hangs, take the row before, and wait until it does."""
    worker.send(run("hang", f'"{how}"'))
    assert isinstance(worker.next(), Started)
    assert worker.next().count == 1
    worker.wait_output("now")


@pytest.mark.parametrize("how", ["wedge", "regex", "loop", "sleep"])
def test_sigterm_ends_a_stuck_child_at_once_and_names_the_line(spawn, run, how):
    """Promise 1: whatever it is stuck in, the GIL held or not; the row before it has left."""
    worker = spawn(HANG)
    hang_in(worker, how, run)
    began = time.monotonic()
    worker.process.send_signal(signal.SIGTERM)
    assert worker.wait_exit() == -signal.SIGTERM
    assert time.monotonic() - began < 1.0
    lines = Path("app_under_test.py").read_text().splitlines()
    stuck = lines.index(f"def {how}():") + 2
    assert f'app_under_test.py", line {stuck} in {how}' in worker.stacks()


def test_a_stopped_child_ends_at_sigterm_and_cont(spawn, run):
    worker = spawn(HANG)
    hang_in(worker, "sleep", run)
    for number in (signal.SIGSTOP, signal.SIGTERM, signal.SIGCONT):
        worker.process.send_signal(number)
    assert worker.wait_exit() == -signal.SIGTERM
    assert "in sleep" in worker.stacks()


def test_a_child_that_ignores_sigterm_still_dies_of_sigkill(spawn, run):
    worker = spawn(HANG)
    hang_in(worker, "deaf", run)
    worker.process.send_signal(signal.SIGTERM)
    worker.process.kill()
    assert worker.wait_exit() == -signal.SIGKILL


def test_a_crash_in_c_leaves_its_stack(spawn, run):
    worker = spawn("""
        import ctypes
        @app.lane("crash")
        def crash(job, ctx):
            yield 1,
            ctypes.string_at(0)
    """)
    worker.send(run("crash"))
    assert worker.wait_exit() == -signal.SIGSEGV
    assert "in crash" in worker.stacks()


def test_ctrl_c_is_the_supervisors(spawn, rows):
    worker = spawn("""
        import os, signal
        @app.lane("interrupted")
        def interrupted(job, ctx):
            yield 1,
            os.kill(os.getpid(), signal.SIGINT)
            yield 2,
    """)
    assert rows(worker.job("interrupted")) == [(1,), (2,)]


FOREVER = """
    @app.lane("forever")
    def forever(job, ctx):
        n = 0
        while True:
            n += 1
            yield n,
            if job.payload: ctx.checkpoint(str(n))
"""


@pytest.mark.parametrize("payload", ["true", "false"])
def test_a_busy_child_leaves_when_the_channel_ends(spawn, run, payload):
    """U41: at its next look at the wire, in the middle of its work, without a word."""
    worker = spawn(FOREVER)
    worker.send(run("forever", payload))
    assert isinstance(worker.next(), Started)
    worker.channel.close()
    assert worker.wait_exit() == 0
    assert worker.output() == ""


SUPERVISOR = """
import os, socket, subprocess, sys
ours, theirs = socket.socketpair()
stack = os.open(os.devnull, os.O_WRONLY)
child = subprocess.Popen(
    [sys.executable, "-P", "-m", "worker", "--channel", str(theirs.fileno()), "--stack", str(stack),
     "--parent", str(os.getpid()), "app_under_test.py"],
    pass_fds=(theirs.fileno(), stack), start_new_session=True)
theirs.close()
from ipc.channel import Channel
from ipc.messages import Batch, ResumePoint, Run
channel = Channel(ours)
channel.send(Run(1, "hang", '"wedge"', 1, None, "replay", ResumePoint(), 0, 256, 1 << 20))
while not any(isinstance(one, Batch) for one in channel.receive(1 << 20).messages):
    pass
print(child.pid, flush=True)
sys.stdin.read()
"""


@LINUX
def test_a_child_wedged_in_c_dies_with_its_supervisor(spawn, tmp_path):
    """U41: also when it looks at nothing any more, by the parent-death signal."""
    spawn(HANG)  # writes the application
    supervisor = subprocess.Popen(
        [sys.executable, "-c", SUPERVISOR],
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with supervisor:
        child = os.pidfd_open(int(supervisor.stdout.readline()))
        supervisor.kill()
    try:
        assert select.select([child], [], [], 2.0)[0], "it lives on"
    finally:
        os.close(child)


def test_a_child_of_another_parent_leaves_before_it_loads_anything(start):
    """It was started by a supervisor that died before the child could ask for the signal."""
    worker = start("raise SystemError('loaded')\n", parent=1)
    assert worker.wait_exit() == 0
    assert worker.output() == ""


WATCHER = """
import sys, threading, worker.guard
threading.Thread(target=worker.guard.leave_at_hangup, args=(int(sys.argv[1]),)).start()
for line in sys.stdin:
    print("alive", flush=True)
"""


def test_where_there_is_no_death_signal_a_thread_watches_the_channel():
    """U41: a message is no hangup; the end of the stream is, whatever the main thread waits for."""
    ours, theirs = socket.socketpair()
    argv = [sys.executable, "-c", WATCHER, str(theirs.fileno())]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(argv, pass_fds=[theirs.fileno()], **pipes) as process:
        theirs.close()
        for _ in range(5):
            ours.send(b"a message")
            process.stdin.write(b"still there?\n")
            process.stdin.flush()
            assert process.stdout.readline() == b"alive\n"
        ours.close()
        assert process.wait(10) == 0


@LINUX
def test_what_the_child_is_made_of(spawn):
    """C156, promise 4: three standard descriptors, the channel, the stack file, and nothing to inherit."""
    worker = spawn("""
        import os, resource, signal, subprocess, sys
        @app.lane("look")
        def look(job, ctx):
            fds = {fd: os.readlink(f"/proc/self/fd/{fd}") for fd in map(int, os.listdir("/proc/self/fd"))
                   if os.path.exists(f"/proc/self/fd/{fd}")}
            look = ["sh", "-c", "ls /proc/self/fd; cat"]
            seen = subprocess.run(look, close_fds=False, capture_output=True).stdout
            return {
                "stdin": os.readlink("/proc/self/fd/0"),
                "kinds": sorted(path.partition(":")[0] for fd, path in fds.items() if fd > 2),
                "inherited": seen.decode().split(),
                "core": resource.getrlimit(resource.RLIMIT_CORE),
                "mask": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])),
                "threads": len(os.listdir("/proc/self/task")),
            }
    """)
    seen = json.loads(worker.job("look")[-1].result)
    assert seen["stdin"] == "/dev/null"
    assert len(seen["kinds"]) == 2, seen["kinds"]
    assert "socket" in seen["kinds"]
    assert seen["inherited"] == ["0", "1", "2", "3"], "3 is what ls itself opened"
    assert seen["core"] == [0, 0]
    assert seen["mask"] == []
    assert seen["threads"] == 1


def test_a_blocked_signal_mask_is_not_kept(spawn, run):
    """A mask survives exec: without unblocking, SIGTERM would never arrive."""
    old = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    try:
        worker = spawn(HANG)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, old)
    hang_in(worker, "sleep", run)
    worker.process.send_signal(signal.SIGTERM)
    assert worker.wait_exit() == -signal.SIGTERM


def test_a_child_blocked_in_a_send_is_only_paused(spawn, rows, run):
    """C161: megabytes of rows that nobody reads yet; nothing is lost when somebody does."""
    worker = spawn("""
        @app.lane("wide")
        def wide(job, ctx):
            ctx.log("begun")
            for n in range(12):
                yield n, "x" * 700_000
    """)
    worker.send(run("wide"))
    worker.wait_output("begun")
    said = worker.until(Done)
    assert [row[0] for row in rows(said)] == list(range(12))
