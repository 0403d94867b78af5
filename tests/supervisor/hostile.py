"""An application whose children mean harm: each deed breaks the wire in its own way."""

import os
import signal
import socket
import stat
import time
from array import array
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec import Raw
from msgspec.msgpack import encode

from ipc.messages import Read
from supervisor import App, Context, Job, Landing, Rows

app = App("hostile")
app.migration(1, "CREATE TABLE items (job INT, n INT, text TEXT)")

Jobs = Job[dict[str, Any]]
Pairs = Iterator[tuple[int, str]]
Deed = Callable[["Wire"], object]

MiB = 1 << 20
LAST = 2**63 - 1
NO_POINT = (None, 0, b"")


def land(db: Landing, job: Jobs, rows: Rows[tuple[int, str]]) -> None:
    db.executemany(f"INSERT INTO items VALUES ({job.id}, ?, ?)", rows)


class Wire:
    """The child's end of its channel, taken from under the worker; it has sent batch 1."""

    def __init__(self, ctx: Context) -> None:
        self.line = ctx._line  # type: ignore[attr-defined]
        self.fd: int = self.line._pipe._fd

    def write(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(self.fd, rest) :]

    def say(self, *fields: Any) -> None:
        self.write(frame(*fields))

    def end(self) -> socket.socket:
        """Return a socket of its own for the same end."""
        return socket.socket(fileno=os.dup(self.fd))


def frame(*fields: Any) -> bytes:
    body = encode(fields)
    return len(body).to_bytes(4, "big") + body


def batch(seq: int, rows: Any, **header: Any) -> bytes:
    fields = {
        "count": 1 if isinstance(rows, Raw) else len(rows),
        "width": 2,
        "blobs": [],
        "keys": None,
        "point": NO_POINT,
    }
    fields |= {"done": None, "total": None, "spent": 0} | header
    return frame("batch", seq, *fields.values(), rows)


def row(n: int) -> tuple[int, str]:
    return n, "forged"


def half_a_batch(wire: Wire) -> None:
    wire.write(batch(2, [row(1)]) + batch(3, [row(2)] * 100)[:-50])


def die(wire: Wire) -> None:
    half_a_batch(wire)
    os.kill(os.getpid(), signal.SIGKILL)


def swap_its_channel(wire: Wire) -> None:
    """Talk to itself from now on: the supervisor sees the end of the stream, the worker sees nothing."""
    one, other = socket.socketpair()
    one.detach()  # stays open, so that writing goes on working
    os.dup2(other.fileno(), wire.fd)
    wire.say("done", 1, None, 0)


def shut(how: int) -> Deed:
    def deed(wire: Wire) -> None:
        with wire.end() as end:
            end.shutdown(how)

    return deed


def send_an_urgent_byte(wire: Wire) -> None:
    """The kernel keeps it outside of the stream, where it has such bytes for sockets of this family."""
    with wire.end() as end, suppress(OSError):
        end.send(b"\xff", socket.MSG_OOB)
    wire.write(batch(2, [row(1)]) + frame("done", 2, None, 0))


def send_descriptors_along(wire: Wire) -> None:
    """Enough to use up those of a supervisor that took them."""
    fds = [os.open(os.devnull, os.O_RDONLY) for _ in range(200)]
    with wire.end() as end:
        for seq in range(2, 7):
            rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", fds).tobytes())]
            end.sendmsg([batch(seq, [row(seq - 1)])], rights)
    wire.say("done", 6, None, 0)


def send_byte_by_byte(wire: Wire) -> None:
    for byte in batch(2, [row(1)]) + batch(3, [row(2)]) + frame("done", 3, None, 0):
        wire.write(bytes([byte]))


def leave_answers_unread(wire: Wire) -> None:
    """Ask again as soon as the answer must be under way, and take none."""
    for number in range(1, 20):
        wire.say("read", number, "large", {"number": number, "folder": os.getcwd()})
        while not Path(f"asked-{number}").exists():
            time.sleep(0.005)
        time.sleep(0.3)


def outside_of_its_credit(wire: Wire) -> None:
    for seq in (2, 3, 4):
        wire.write(batch(seq, [(seq - 1, "x" * (5 * MiB))]))


DEEDS: dict[str, Deed] = {
    # numbers that are not the next one
    "batch 0": lambda wire: wire.write(batch(0, [row(1)])),
    "batch 1 again": lambda wire: wire.write(batch(1, [row(1)])),
    "batch 3 before batch 2": lambda wire: wire.write(batch(3, [row(2)]) + batch(2, [row(1)])),
    "the last number there is": lambda wire: wire.write(batch(LAST, [row(1)])),
    "done after no batch": lambda wire: wire.say("done", 0, None, 0),
    "done after the last number there is": lambda wire: wire.say("done", LAST, None, 0),
    "failed after batches that were never sent": lambda wire: wire.say("failed", 5, "skip", "", "T", "m"),
    # headers that say something else than their rows
    "a header of more rows": lambda wire: wire.write(batch(2, [row(1)], count=2)),
    "a header of fewer rows": lambda wire: wire.write(batch(2, [row(1), row(2)], count=1)),
    "a header of endless rows": lambda wire: wire.write(batch(2, [row(1)], count=LAST)),
    "a header of more columns": lambda wire: wire.write(batch(2, [row(1)], width=3)),
    "a header of endless columns": lambda wire: wire.write(batch(2, [row(1)], width=LAST)),
    "a header of bytes where text is": lambda wire: wire.write(batch(2, [row(1)], blobs=[1])),
    "a header of names for other columns": lambda wire: wire.write(batch(2, [row(1)], keys=["a"])),
    "rows that are a map": lambda wire: wire.write(batch(2, {1: "x"})),
    "rows that nest": lambda wire: wire.write(batch(2, [(1, [[[]]])])),
    # more than it may send
    "a million tiny batches": lambda wire: [
        wire.write(b"".join(batch(seq, []) for seq in range(first, first + 1000)))
        for first in range(2, 1_000_002, 1000)
    ],
    "a million tiny reads": lambda wire: [
        wire.write(frame("read", 1, "large", {}) * 1000) for _ in range(1000)
    ],
    "a million starts": lambda wire: [wire.write(frame("started") * 1000) for _ in range(1000)],
    "batches outside of its credit": outside_of_its_credit,
    "answers that it never reads": leave_answers_unread,
    # messages that would take far more memory than they have bytes
    "a ready of a million kinds": lambda wire: wire.say("ready", 1, ["ab"] * 2_000_000),
    "a failed of a million bases": lambda wire: wire.say(
        "failed", 1, "fail", "", "T", "m", "", ["ab"] * 2_000_000
    ),
    "a tag of half a frame": lambda wire: wire.say("\U0001f600" * MiB),
    "a tag that can be decoded": lambda wire: wire.say("\U0001f600" * 100_000),
    "a read of a million arguments": lambda wire: wire.say(
        "read", 1, "large", dict.fromkeys(range(1_000_000))
    ),
    "rows nested without end": lambda wire: wire.write(batch(2, Raw(b"\x91" * MiB))),
    # frames that never end
    "half a batch and silence": half_a_batch,
    "half a batch and death": die,
    "half a length and silence": lambda wire: wire.write(b"\0\0"),
    "a length and silence": lambda wire: wire.write((8 * MiB).to_bytes(4, "big")),
    # after its last word
    "garbage after done": lambda wire: wire.write(frame("done", 1, '"kept"', 0) + b"\xff" * 100_000),
    "two dones": lambda wire: wire.write(frame("done", 1, '"kept"', 0) + frame("done", 1, '"other"', 9)),
    "failed after done": lambda wire: wire.write(
        frame("done", 1, '"kept"', 0) + frame("failed", 1, "fail", "", "T", "m")
    ),
    "silence after done": lambda wire: wire.say("done", 1, '"kept"', 0),
    "batches after done": lambda wire: wire.write(
        frame("done", 1, '"kept"', 0) + batch(2, [row(1)]) + batch(3, [row(2)])
    ),
    # the socket itself
    "shut for writing": shut(socket.SHUT_WR),
    "shut for reading": shut(socket.SHUT_RD),
    "shut both ways": shut(socket.SHUT_RDWR),
    "another socket in its place": swap_its_channel,
    "an urgent byte": send_an_urgent_byte,
    "descriptors sent along": send_descriptors_along,
    "one byte at a time": send_byte_by_byte,
}


@app.read
def large(db: Any, number: int, folder: str) -> str:
    Path(folder, f"asked-{number}").touch()
    return "x" * (4 * MiB - 100)


HAS_SAID_DONE = {
    "garbage after done",
    "two dones",
    "failed after done",
    "batches after done",
    "an urgent byte",
    "descriptors sent along",
    "one byte at a time",
}
"""Deeds with a last word of their own: whatever the worker says after them comes too late."""


@app.lane("hostile", batch_deadline=20, grace=0.3, max_attempts=1)
def hostile(job: Jobs, ctx: Context) -> Pairs:
    """Do the deed once somebody else is at work, then hang."""
    yield 0, "before"
    wait_for(job.payload["beside"])
    DEEDS[job.payload["deed"]](Wire(ctx))
    if job.payload["deed"] not in HAS_SAID_DONE:
        time.sleep(3600)
    yield 1, "too late"


@app.lane("unblocked", batch_deadline=20, grace=0.3, max_attempts=1)
def unblocked(job: Jobs, ctx: Context) -> Pairs:
    """Have the worker go on over a channel that takes only as much as there is room for."""
    yield 0, "before"
    os.set_blocking(Wire(ctx).fd, False)
    yield from ((n, "x" * MiB) for n in range(1, 40))


@app.lane("closes", batch_deadline=20, grace=0.3, max_attempts=1)
def closes(job: Jobs, ctx: Context) -> Pairs:
    """Close one descriptor, whatever it is, and go on working."""
    fd = job.payload["fd"]
    yield 0, "channel" if fd == Wire(ctx).fd else "another"
    with suppress(OSError):
        os.close(fd)
    yield 1, "after"


@app.lane("looks", batch_deadline=20, max_attempts=1)
def looks(job: Jobs, ctx: Context) -> Pairs:
    """Tell what it has open, but for devices, while another does the same."""
    Path(job.payload["mine"]).touch()
    wait_for(job.payload["other"])
    for fd in map(int, os.listdir("/dev/fd")):
        with suppress(OSError):  # the folder that was being read
            facts = os.fstat(fd)
            if not stat.S_ISCHR(facts.st_mode) and not stat.S_ISDIR(facts.st_mode):
                yield stat.S_ISSOCK(facts.st_mode), f"{facts.st_dev} {facts.st_ino}"


ARGUMENTS = {
    "nothing": b"\xc0",
    "a list": b"\x91\xa3job",
    "a number for a name": b"\x81\x01\x02",
    "names that are none of it": b"\x82\xa3job\x01\xa5other\x02",
    "its own first parameter": b"\x82\xa3job\x01\xa2db\x02",
    "a name that is no text": b"\x81\xa3\xff\xff\xff\x01",
    "text that is none": b"\x81\xa3job\xa1\xff",
    "a map that is a key": b"\x81\xa3job\x81\x80\x01",
    "an extension": b"\x81\xa3job\xd4\x05x",
    "a time that never was": b"\x81\xa3job\xd7\xff" + b"\xff" * 8,
    "a number over 64 bits of SQLite": b"\x81\xa3job\xcf" + b"\xff" * 8,
    "lists without end": b"\x81\xa3job" + b"\x91" * 900 + b"\xc0",
    "too many": b"\x81\xa3job\xdd\0\1\0\0" + b"\x90" * 65536,
    "a verb that is none": b"\x80",
}
"""Arguments of a read that takes one, `job`, as they stand in the frame."""


@app.lane("asks", batch_deadline=20, max_attempts=1)
def asks(job: Jobs, ctx: Context) -> Pairs:
    """Ask with arguments of any nature; tell the answers."""
    line = Wire(ctx).line
    for n, (name, packed) in enumerate(ARGUMENTS.items()):
        reply = line.ask(Read(n, "__init__" if name == "a verb that is none" else "landed", Raw(packed)))
        yield n, reply.error or "it was answered"
    yield len(ARGUMENTS), f"landed: {ctx.read(landed, job=job.id)}"


def wait_for(path: str) -> None:
    while not Path(path).exists():
        time.sleep(0.005)


@app.lane("bystander", batch_deadline=20, max_attempts=1)
def bystander(job: Jobs, ctx: Context) -> Pairs:
    """Work beside the others until they are over, with reads and marks."""
    n = 0
    while not Path(job.payload["over"]).exists():
        yield n, "beside"
        ctx.checkpoint(str(n))
        if n == 0:
            Path(job.payload["beside"]).touch()
        assert ctx.read(landed, job=job.id) <= n + 1
        time.sleep(0.005)
        n += 1


@app.read
def landed(db: Any, job: int) -> int:
    return int(db.query("SELECT count(*) FROM items WHERE job = ?", (job,))[0][0])


@app.lane("quick", max_attempts=1)
def quick(job: Jobs, ctx: Context) -> Pairs:
    yield from ((n, "quick") for n in range(3))


for _lane in app.lanes.values():
    if _lane.land is None:
        _lane.lander(land)
