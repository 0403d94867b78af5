"""Children that print without end or without sense, or take their own output, or wire, apart."""

import ctypes
import io
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import NoReturn

from unruly import Context, Jobs, application, channel_of, child, note, wait_for

app = application("loud")
loud = child(app, grace=10.0)
blocked = child(app, batch_deadline=2.0, grace=10.0)
silent = child(app, batch_deadline=0)
late = child(app, batch_deadline=0.5, grace=10.0)


# --- output


@late
def floods_stdout(job: Jobs, ctx: Context) -> None:
    while True:
        print("on and on " * 100)


@late
def floods_stderr_without_a_newline(job: Jobs, ctx: Context) -> None:
    while True:
        sys.stderr.write("x" * 10_000)


@late
def floods_from_c(job: Jobs, ctx: Context) -> None:
    libc = ctypes.CDLL(None)
    while True:
        libc.puts(b"y" * 10_000)


@late
def has_a_program_flood(job: Jobs, ctx: Context) -> None:
    program = subprocess.Popen(["yes", "on and on"])
    note(job, program.pid)
    program.wait()


@loud
def prints_a_lot_and_is_done(job: Jobs, ctx: Context) -> None:
    for _ in range(300):
        sys.stdout.write("x" * 100_000)
    print("the end", end="")


@loud
def prints_what_is_no_text(job: Jobs, ctx: Context) -> None:
    os.write(1, bytes(range(256)))
    print("\ud800", "\N{CLOWN FACE}", "\0", "\x1b[31m", end="")


@loud
def prints_byte_by_byte(job: Jobs, ctx: Context) -> None:
    for byte in b"one at a time":
        os.write(2, bytes([byte]))


@silent
def says_nothing(job: Jobs, ctx: Context) -> None:
    """Until the others are over, without any sign of life, and without any deadline."""
    wait_for(Path(job.payload["over"]).exists, 30)


# --- its own output, taken apart


@loud
def closes_its_output(job: Jobs, ctx: Context) -> None:
    os.close(1)
    os.close(2)


@loud
def closes_its_streams(job: Jobs, ctx: Context) -> None:
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        stream.close()


class Broken(io.TextIOBase):
    """A stream on which nothing can be done."""

    def write(self, text: str) -> NoReturn:
        raise RuntimeError("no")

    flush = close = write  # type: ignore[assignment]


@loud
def has_streams_that_break(job: Jobs, ctx: Context) -> None:
    sys.stdout = sys.stderr = Broken()


@loud
def has_no_streams(job: Jobs, ctx: Context) -> None:
    sys.stdout = sys.stderr = sys.stdin = None  # type: ignore[assignment]


@blocked
def has_its_output_elsewhere(job: Jobs, ctx: Context) -> None:
    """In a full pipe, which blocks whoever prints."""
    _read, write = os.pipe()
    os.set_blocking(write, False)
    while True:
        try:
            os.write(write, bytes(4096))
        except BlockingIOError:
            break
    os.set_blocking(write, True)
    os.dup2(write, 1)
    sys.stdout.reconfigure(line_buffering=False)  # type: ignore[union-attr]
    print("never read", end="")


@loud
def logs_to_itself(job: Jobs, ctx: Context) -> None:
    ctx.log("a line \n of its \r own \ud800")


# --- its own means, replaced


def refuse(*_: object, **__: object) -> NoReturn:
    raise RuntimeError("replaced")


@loud
def replaces_what_writes(job: Jobs, ctx: Context) -> None:
    os.write = os.writev = refuse  # type: ignore[assignment]


@loud
def replaces_what_reads(job: Jobs, ctx: Context) -> None:
    os.read = refuse  # type: ignore[assignment]


@loud
def replaces_what_leaves(job: Jobs, ctx: Context) -> None:
    os._exit = sys.exit = refuse  # type: ignore[assignment]


@loud
def replaces_all_builtins(job: Jobs, ctx: Context) -> None:
    import builtins

    for name in ("len", "sum", "map", "print", "isinstance", "open", "range", "list", "dict"):
        setattr(builtins, name, refuse)


@loud
def clears_all_modules(job: Jobs, ctx: Context) -> None:
    sys.modules.clear()


@loud
def sets_a_trace(job: Jobs, ctx: Context) -> None:
    sys.settrace(refuse)
    sys.setprofile(refuse)


# --- descriptors


@loud
def closes_its_wire(job: Jobs, ctx: Context) -> None:
    os.close(channel_of(ctx))
    time.sleep(3600)


@loud
def closes_its_wire_and_exits_when_it_is_told_to(job: Jobs, ctx: Context) -> None:
    signal.signal(signal.SIGTERM, lambda *_: os._exit(6))
    closes_its_wire(job, ctx)


@loud
def closes_all_descriptors(job: Jobs, ctx: Context) -> None:
    os.closerange(0, 1024)


@loud
def closes_all_descriptors_and_stays(job: Jobs, ctx: Context) -> None:
    os.closerange(0, 1024)
    while True:
        pass


@loud
def puts_another_socket_over_its_wire(job: Jobs, ctx: Context) -> None:
    ours, theirs = socket.socketpair()
    ours.detach()
    os.dup2(theirs.fileno(), channel_of(ctx))


@loud
def puts_a_file_over_its_wire(job: Jobs, ctx: Context) -> None:
    os.dup2(os.open(os.devnull, os.O_RDWR), channel_of(ctx))
    time.sleep(3600)


@loud
def makes_its_wire_a_stranger(job: Jobs, ctx: Context) -> None:
    """It does not block any more, and programs inherit it."""
    os.set_blocking(channel_of(ctx), False)
    os.set_inheritable(channel_of(ctx), True)
    note(job, subprocess.Popen(["sleep", "3600"], close_fds=False).pid)


@loud
def hands_its_wire_to_a_program_and_dies(job: Jobs, ctx: Context) -> None:
    """The end of its stream does not come while the program lives."""
    os.set_inheritable(channel_of(ctx), True)
    note(job, subprocess.Popen(["sleep", "3600"], close_fds=False, start_new_session=True).pid)
    os._exit(3)
