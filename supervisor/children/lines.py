"""What children send and print, and what they are sent: their descriptors on the loop."""

from contextlib import suppress
from typing import Final, Protocol

from ipc.errors import ChannelClosed, IpcError, ProtocolError
from ipc.messages import FRAME_LIMIT, Down, Up
from supervisor.children.worker import Worker
from supervisor.loop import READ, WRITE, Loop

READ_BUDGET: Final = 1 << 20
LAST_READ: Final = 2 * FRAME_LIMIT
LOG_BUDGET: Final = 256 << 10
LAST_LOG: Final = 16 << 20


class Hearer(Protocol):
    """Who is told what comes over a line."""

    def said(self, worker: Worker, message: Up) -> None:
        """A child said something."""

    def broke(self, worker: Worker, error: ProtocolError) -> None:
        """A child broke a rule of the wire; nothing more of it is read."""

    def closed(self, worker: Worker) -> None:
        """A child closed its channel."""


class Lines:
    """The channels and logs of children. Loop thread only."""

    def __init__(self, loop: Loop, hearer: Hearer) -> None:
        self._loop = loop
        self._hearer = hearer

    def open(self, worker: Worker) -> None:
        """Listen to a child."""
        self._loop.descriptors.note(worker.child.stack_fd, "where a child leaves its stacks")
        self._watch_channel(worker)
        self._loop.watch(worker.child.log.fileno(), READ, lambda _events: self._log(worker))

    def send(self, worker: Worker, message: Down) -> None:
        """Queue a message to a child and watch for room; a child that is gone is noticed elsewhere.

        Raises:
            ipc.errors.ChannelFull: the child does not read what it is sent.
        """
        if worker.gone:
            return
        with suppress(ChannelClosed):
            worker.child.channel.send(message)
            self._watch_channel(worker)

    def listen(self, worker: Worker, budget: int) -> int:
        """Read at most `budget` bytes from a child and pass on what they say; return how many there were."""
        got = worker.child.channel.receive(budget)
        for message in got.messages:
            self._hearer.said(worker, message)
        if got.error is not None:
            self._loop.unwatch(worker.child.channel.fileno())
            self._hearer.broke(worker, got.error)
        elif got.closed:
            self._loop.unwatch(worker.child.channel.fileno())
            self._hearer.closed(worker)
        return got.nbytes

    def read_rest(self, worker: Worker) -> None:
        """Read what a child that has ended left behind."""
        left = LAST_READ
        while left > 0 and (nbytes := self.listen(worker, min(left, READ_BUDGET))) > 0:
            left -= nbytes
        worker.child.log.drain(LAST_LOG)

    def close(self, worker: Worker) -> None:
        """Listen to a child no more; its descriptors are its own to close."""
        self._loop.descriptors.forget(worker.child.stack_fd)
        for fd in (worker.child.channel.fileno(), worker.child.log.fileno()):
            self._loop.unwatch(fd)

    def _watch_channel(self, worker: Worker) -> None:
        events = READ | WRITE if worker.child.channel.wants_write else READ
        self._loop.watch(worker.child.channel.fileno(), events, lambda ready: self._channel(worker, ready))

    def _channel(self, worker: Worker, events: int) -> None:
        if events & WRITE:
            with suppress(IpcError):
                worker.child.channel.flush()
            self._watch_channel(worker)
        if events & READ:
            self.listen(worker, READ_BUDGET)

    def _log(self, worker: Worker) -> None:
        worker.child.log.drain(LOG_BUDGET)
        if worker.child.log.closed:
            self._loop.unwatch(worker.child.log.fileno())
