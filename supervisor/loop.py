"""The one wait of the supervisor: descriptors, posted calls, and a limit of a second.

Everything that happens on the loop thread happens in a callback of `turn`. Other threads
hand their answers over with `post`; signal handlers leave a note by waking it.
"""

import os
import selectors
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, Final

from supervisor.descriptors import Descriptors

MAX_WAIT: Final = 1.0
GAP: Final = 1.0
CHECK_SECONDS: Final = 0.5
"""So often a turn makes sure that its descriptors, and those of the run, are what they were."""

READ: Final = selectors.EVENT_READ
WRITE: Final = selectors.EVENT_WRITE

Callback = Callable[[int], None]

TAKEN: Final[set[int]] = set()
"""Signals that are requests to this process now."""


FORKING: Final = threading.local()


def hold_signals() -> None:
    """Keep them from the copy that is about to be made, until it has its own way with them."""
    FORKING.mask = signal.pthread_sigmask(signal.SIG_BLOCK, TAKEN)


def let_signals_come() -> None:
    """Let them come again, also those that came meanwhile."""
    signal.pthread_sigmask(signal.SIG_SETMASK, FORKING.mask)


def give_signals_back() -> None:
    """Let a copy of this process, made by a fork without exec in an application's code, die of them."""
    if TAKEN:
        signal.set_wakeup_fd(-1)
    for number in TAKEN:
        signal.signal(number, signal.SIG_DFL)
    TAKEN.clear()
    let_signals_come()


os.register_at_fork(before=hold_signals, after_in_parent=let_signals_come, after_in_child=give_signals_back)


def ignore() -> None:
    """Nobody asks why a turn came late."""


class Loop:
    """Waits in one place; see the module. Args: `monotonic` in seconds.

    Attributes:
        descriptors: its own and those that it watches; whoever else holds some for a run notes them there.
        late: called first when a turn comes over a second later than it should.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._selector = selectors.DefaultSelector()
        self.descriptors = Descriptors()
        self._posted: deque[tuple[Callable[[Any], object], Any]] = deque()
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_read, False)
        os.set_blocking(self._wake_write, False)
        self.descriptors.note(self._selector.fileno(), "the loop's wait")
        self.descriptors.note(self._wake_write, "the loop's bell")
        self._alive = self._checked_at = monotonic()
        self._woken = False
        self._closing = threading.RLock()  # a signal's handler may post while this thread does
        self.late: Callable[[], object] = ignore
        self.watch(self._wake_read, READ, self._drain_wakes)

    def watch(self, fd: int, events: int, callback: Callback) -> None:
        """Call `callback(events)` whenever `fd` is ready; watching again changes the events."""
        try:
            self._selector.modify(fd, events, callback)
        except KeyError:
            self._selector.register(fd, events, callback)
            self.descriptors.note(fd, "what the loop waits for")

    def unwatch(self, fd: int) -> None:
        """Stop watching `fd`; unwatched descriptors are ignored."""
        self.descriptors.forget(fd)
        with suppress(KeyError):
            self._selector.unregister(fd)

    def post(self, call: Callable[[Any], object], answer: Any) -> None:
        """Have `call(answer)` run on the loop thread; safe from any thread, and in vain once it is closed."""
        self._posted.append((call, answer))
        with self._closing:  # the descriptor may be somebody else's the moment it is closed
            if not self._woken:
                self._woken = True
                self._wake()

    def turn(self, until: float) -> float:
        """Wait until something happens, `until` (monotonic) comes, or a second passes; run the callbacks.

        Raises:
            Severed: somebody has closed what it waits by, or another descriptor of the run.

        Returns:
            Seconds in which nobody ran, or 0.0: when a turn comes over a second later than it
            should, the machine slept or this process was stopped, and nothing says since when
            within the wait; all of it counts as lost (CONTRACTS K5).
        """
        wait = 0.0 if self._posted else min(MAX_WAIT, max(0.0, until - self._monotonic()))
        ready = self._select(wait)
        passed = (now := self._monotonic()) - self._alive
        if is_late := passed - wait > GAP:
            self.late()
        if now >= self._checked_at + CHECK_SECONDS:
            self._checked_at = now
            self.descriptors.check()
        for key, events in ready:
            if key.fd in self._selector.get_map():
                key.data(events)
        self._woken = False  # before the look: what is posted after it wakes the next turn
        for _ in range(len(self._posted)):
            call, answer = self._posted.popleft()
            call(answer)
        self._alive = self._monotonic()
        return passed if is_late else 0.0

    @contextmanager
    def signals(self, numbers: Iterable[int], call: Callable[[int], object]) -> Iterator[None]:
        """Run `call(number)` on the loop thread for each signal; put the old handlers back at the end."""

        def note(number: int, _frame: FrameType | None) -> None:
            self._posted.append((call, number))

        wanted = [one for one in numbers if signal.getsignal(one) is not signal.SIG_IGN]  # nohup means it
        old = {number: signal.signal(number, note) for number in wanted}
        # Where SIGCHLD is ignored the kernel reaps our children before we can ask how they ended.
        old[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        old_fd = signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
        TAKEN.update(wanted)
        try:
            yield
        finally:
            TAKEN.clear()
            signal.set_wakeup_fd(old_fd)
            for number, handler in old.items():
                signal.signal(number, handler)

    def close(self) -> None:
        """Close what belongs to the loop; a thread that was left behind may still post, and wakes nobody."""
        with self._closing:
            self._woken = True
            self._selector.close()
            os.close(self._wake_read)
            os.close(self._wake_write)

    def _select(self, wait: float) -> list[tuple[selectors.SelectorKey, int]]:
        try:
            return self._selector.select(wait)
        except OSError:
            self.descriptors.check()
            raise

    def _wake(self) -> None:
        if self.descriptors.is_ours(self._wake_write):  # else it is found within a second
            with suppress(BlockingIOError, BrokenPipeError):
                os.write(self._wake_write, b"\0")

    def _drain_wakes(self, _events: int) -> None:
        with suppress(BlockingIOError):
            while os.read(self._wake_read, 4096):
                pass
