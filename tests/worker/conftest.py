"""The supervisor's end of a real child, by hand: start it, say Run, take what comes, acknowledge."""

import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from textwrap import dedent
from types import SimpleNamespace
from typing import Any

import pytest

from ipc.channel import Channel, Pipe
from ipc.messages import Ack, Batch, Done, Down, Failed, Ready, ResumePoint, Run, Up, Yielded
from ipc.rows import decode_rows
from worker.attempt import Attempt
from worker.context import Job

DEADLINE = 20.0
HEAD = "from supervisor import App, Fail, Retry, Skip\napp = App('tests')\n"
LAST_WORDS = (Done, Failed, Yielded)


def pruned(environ: Mapping[str, str]) -> dict[str, str]:
    """The few variables that a child gets, and those of a measuring tool."""
    passed = {"PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "PYTHONPATH", "VIRTUAL_ENV"}
    kept = {name: value for name, value in environ.items() if name in passed or name.startswith("COVERAGE_")}
    return kept | {"PYTHONHASHSEED": "0"}


class Gone(Exception):
    """The child closed its end."""


class Worker:
    """A child under test; every wait has a deadline."""

    def __init__(
        self, specs: list[str], folder: Path, *, parent: int | None = None, **environment: str
    ) -> None:
        ours, theirs = socket.socketpair()
        out_read, out_write = os.pipe()
        self.stack = tempfile.TemporaryFile()  # noqa: SIM115 - closed by close()
        fds = (theirs.fileno(), self.stack.fileno())
        options = ["--channel", str(fds[0]), "--stack", str(fds[1]), "--parent", str(parent or os.getpid())]
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "worker", *options, *specs],
            cwd=folder,
            env=pruned(os.environ) | environment,
            stdin=subprocess.PIPE,  # nothing of it may reach the child
            stdout=out_write,
            stderr=out_write,
            pass_fds=fds,
            start_new_session=True,
        )
        os.close(out_write)
        theirs.close()
        self.channel = Channel(ours)
        self._inbox: list[Up] = []
        self._printed: list[bytes] = []
        self._out = out_read
        self._drain = threading.Thread(target=self._read_output)
        self._drain.start()

    def _read_output(self) -> None:
        while chunk := os.read(self._out, 1 << 16):
            self._printed.append(chunk)

    def output(self) -> str:
        """All that was printed; to be asked for when the child is gone."""
        self._drain.join(DEADLINE)
        return b"".join(self._printed).decode()

    def wait_output(self, text: str) -> None:
        deadline = time.monotonic() + DEADLINE
        while text.encode() not in b"".join(self._printed):
            assert time.monotonic() < deadline, f"{text!r} was not printed"
            select.select([], [], [], 0.005)

    def send(self, message: Down) -> None:
        self.channel.send(message)
        while self.channel.wants_write:
            select.select([], [self.channel], [], DEADLINE)
            self.channel.flush()

    def next(self, timeout: float = DEADLINE) -> Up:
        """Return the next message; TimeoutError when none comes, Gone at the end of the stream."""
        deadline = time.monotonic() + timeout
        while not self._inbox:
            if not select.select([self.channel], [], [], max(0.0, deadline - time.monotonic()))[0]:
                raise TimeoutError
            received = self.channel.receive(1 << 20)
            assert received.error is None, received.error
            self._inbox += received.messages
            if received.closed and not self._inbox:
                raise Gone
        return self._inbox.pop(0)

    def until(self, *kinds: type) -> list[Up]:
        """Acknowledge batches and return all messages up to the first of one of `kinds`."""
        messages = []
        while True:
            messages.append(message := self.next())
            if isinstance(message, Batch):
                self.send(Ack(message.seq))
            if isinstance(message, kinds):
                return messages

    def job(self, kind: str, payload: str = "null", **fields: Any) -> list[Up]:
        """Run one job and return everything that was said, the last word last."""
        self.send(make_run(kind, payload, **fields))
        return self.until(*LAST_WORDS)

    def wait_exit(self) -> int:
        return self.process.wait(DEADLINE)

    def stacks(self) -> str:
        self.stack.seek(0)
        return self.stack.read().decode()

    def close(self) -> None:
        """Let an idle child leave, end any other, and let go of everything."""
        self.channel.close()
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(2)
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(DEADLINE)
        self._drain.join(DEADLINE)
        assert self.process.stdin is not None
        self.process.stdin.close()
        os.close(self._out)
        self.stack.close()


def make_run(kind: str, payload: str = "null", **fields: Any) -> Run:
    point = fields.pop("point", ResumePoint())
    given = {"job": 1, "number": 1, "key": None, "resume": "replay", "landed_seq": 0}
    given |= {"batch_rows": 256, "batch_bytes": 1 << 20}
    return Run(kind=kind, payload=payload, point=point, **(given | fields))


def rows_of(messages: list[Up]) -> list[tuple[Any, ...]]:
    batches = [message for message in messages if isinstance(message, Batch)]
    return [row for one in batches for row in decode_rows(one.rows, one.count, one.width, one.blobs)]


@pytest.fixture(scope="session")
def run() -> Callable[..., Run]:
    """Build a Run with sensible limits."""
    return make_run


@pytest.fixture(scope="session")
def rows() -> Callable[[list[Up]], list[tuple[Any, ...]]]:
    """Return the rows of all batches among some messages."""
    return rows_of


@pytest.fixture(scope="session")
def gone() -> type[Exception]:
    """The exception for a child that closed its end."""
    return Gone


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Worker]]:
    """Start a child with an application given as text, or with specs as they are; no wait for Ready."""
    monkeypatch.chdir(tmp_path)
    workers: list[Worker] = []

    def start(text: str | None = None, *, specs: list[str] | None = None, **options: Any) -> Worker:
        if text is not None:
            (tmp_path / "app_under_test.py").write_text(HEAD + dedent(text))
        worker = Worker(specs or ["app_under_test.py"], tmp_path, **options)
        workers.append(worker)
        return worker

    yield start
    for worker in workers:
        worker.close()


@pytest.fixture
def spawn(start: Callable[..., Worker]) -> Callable[..., Worker]:
    """Start a child and wait until it is ready."""

    def spawn(text: str, **options: Any) -> Worker:
        worker = start(text, **options)
        first = worker.next()
        assert isinstance(first, Ready), first
        assert first.pid == worker.process.pid
        return worker

    return spawn


class Bench:
    """One attempt in this process: its rows, its clock and the supervisor's answers are ours.

    The half runs on our thread, so it decides itself when acknowledgements arrive.
    """

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        for end in (ours, theirs):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
        self._theirs = theirs
        self.channel = Channel(ours)
        self.pipe = Pipe(theirs.fileno())
        self.now = 100.0
        self._said: list[Up] = []

    def make(self, half: Callable[..., Any], *, rows: type | None = None, **fields: Any) -> list[Up]:
        """Run one attempt and return everything it said, the last word last."""
        word = self.attempt(half, rows=rows, **fields)
        said = [*self.said(), word]
        if isinstance(word, Failed) and word.type == "AssertionError":
            pytest.fail(word.traceback)
        self._said = []
        return said

    def attempt(self, half: Callable[..., Any], *, rows: type | None = None, **fields: Any) -> Up:
        """Run one attempt and return its last word; what it said before is left in the channel."""
        lane = SimpleNamespace(compute=half, rows=rows, payload=None)
        run = make_run("kind", **fields)
        return Attempt(self.pipe, run, lane, lambda: self.now).make(Job(1, "kind", None, None, 1))

    def said(self) -> list[Up]:
        """Return what the attempt has said so far."""
        received = self.channel.receive(1 << 30)
        assert received.error is None
        self._said += received.messages
        return list(self._said)

    def readable(self) -> bool:
        return bool(select.select([self.channel], [], [], 0)[0])

    def batches(self) -> list[Batch]:
        return [one for one in self.said() if isinstance(one, Batch)]

    def ack(self) -> None:
        """Acknowledge everything sent so far."""
        if batches := self.batches():
            self.channel.send(Ack(batches[-1].seq))

    def close(self) -> None:
        self.channel.close()
        self._theirs.close()


@pytest.fixture
def bench() -> Iterator[Bench]:
    bench = Bench()
    yield bench
    bench.close()


@pytest.fixture(scope="session")
def benches() -> Iterator[Callable[[], Bench]]:
    """Make a bench for each example of a property; the one before it is closed."""
    made: list[Bench] = []

    def make() -> Bench:
        while made:
            made.pop().close()
        made.append(Bench())
        return made[-1]

    yield make
    for bench in made:
        bench.close()
