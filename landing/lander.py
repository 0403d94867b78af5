"""The lander thread: the only user of the write connection.

    submit(operation, then) -> inbox -> one group: BEGIN IMMEDIATE, apply ..., COMMIT -> then(answer)

Everything that waits goes into one group (50 ms at most), because a flush costs
the same for one row and for a thousand. No answer counts before COMMIT has
returned with the transaction still the one that was begun. A group in which anything fails is
rolled back whole and each operation is redone alone (CONTRACTS K1).

While there is no room, or no writing, the one that met it waits and the rest wait behind it.
"""

import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, repeat
from pathlib import Path
from typing import Any, Final

from landing.batches import LanderRaised
from landing.connect import open_writer, store_path, translated
from landing.errors import StoreBroken, StoreBusy, StoreError, StoreFull, StoreReadonly
from landing.faults import BEGIN, COMMIT, Reach, step_of, unarmed
from landing.text import error_text, is_a
from landing.transaction import CommitLost, Operation, Transaction, committing
from landing.turnstile import Turnstile
from landing.wal import Wal

GROUP_SECONDS: Final = 0.05
FOLD_SECONDS: Final = 1.0
BUSY_MILLISECONDS: Final = 1000
WAITS: Final = (1.0, 2.0, 5.0, 10.0, 30.0, 60.0)

Then = Callable[[Any], object]
Item = tuple[Operation[Any], Then]


@dataclass(frozen=True, slots=True)
class Raised:
    """The answer of an operation that raised, alone, after its rollback."""

    error: Exception


@dataclass(frozen=True, slots=True)
class Clocks:
    """The clocks landing is given: `now` in microseconds UTC, `monotonic` in seconds."""

    now: Callable[[], int]
    monotonic: Callable[[], float]


@dataclass(frozen=True, slots=True)
class Notice:
    """What the lander waits for, or, when fatal, what ended it: a code and one line."""

    code: str
    text: str
    fatal: bool = False


def notice_code(error: StoreError) -> str:
    """Return the code of a notice about the store's trouble."""
    match error:
        case StoreFull():
            return "store_full"
        case StoreBusy():
            return "store_busy"
        case StoreReadonly():
            return "store_readonly"
        case StoreBroken():
            return "store_broken"
        case _:
            return error.code


class Lander:
    """Group commit behind an inbox.

    Args:
        home: the folder of the store; it must hold one at this version's schema.
        clocks: wall and monotonic time.
        deliver: called in the lander thread with (then, answer) once an answer counts.
        notice: called in the lander thread when the disk is full, the store is locked, read-only or
            broken, or its WAL cannot be folded back.
        reach: called in the lander thread at each fault point (`landing.faults`).

    Attributes:
        at_work: the operation that is being applied, and since when (monotonic); an application's lander
            may be hanging in it.
    """

    def __init__(
        self,
        home: Path,
        clocks: Clocks,
        deliver: Callable[[Then, Any], object],
        notice: Callable[[Notice], object],
        reach: Reach = unarmed,
    ) -> None:
        self._path = store_path(home)
        self._clocks = clocks
        self._deliver = deliver
        self._notice = notice
        self._reach = reach
        self._inbox: queue.SimpleQueue[Item | None] = queue.SimpleQueue()
        self._closing = threading.Event()
        with translated(self._path):
            self._db = open_writer(self._path)
            self._db.execute(f"PRAGMA busy_timeout = {BUSY_MILLISECONDS}")
            self._wal = Wal(self._db, self._path, lambda text: notice(Notice("wal_pinned", text)), reach)
        self._turnstile = Turnstile(home, self._db, clocks.monotonic, self._closing.wait)
        self._more = True
        self._warned: set[str] = set()
        self.at_work: tuple[Operation[Any], float] | None = None
        self._thread = threading.Thread(target=self._serve, name="lander", daemon=True)
        self._thread.start()

    def submit(self, operation: Operation[Any], then: Then) -> None:
        """Queue an operation; `then(answer)` is delivered after its COMMIT, with `Raised` if it raised."""
        self._inbox.put((operation, then))

    def close(self, timeout: float) -> bool:
        """Finish what waits, close the store; tell whether the thread came back within `timeout` seconds."""
        self._inbox.put(None)
        self._thread.join(timeout)
        self._closing.set()
        return not self._thread.is_alive()

    def _serve(self) -> None:
        try:
            while self._more and (first := self._next()) is not None:
                self._land_group(first)
        except StoreBroken as error:
            self._notice(Notice(notice_code(error), str(error), fatal=True))
        except BaseException as error:
            self._notice(Notice("lander_died", f"the lander thread died: {error_text(error)}", fatal=True))
            raise
        finally:
            self._db.close()
            self._turnstile.close()

    def _next(self) -> Item | None:
        """Wait for something to do; a WAL that could not be folded back is tried again once a second."""
        while self._wal.unfolded:
            with suppress(queue.Empty):
                return self._inbox.get(timeout=FOLD_SECONDS)
            self._wal.fold(at_leisure=True)
        return self._inbox.get()

    def _land_group(self, first: Item) -> None:
        self._turnstile.step_aside()
        taken = [first]
        try:
            answers = iter(self._commit(self._group(taken)))
        except StoreBroken:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it was, and whose: alone, each shows what it is
            answers = self._answers_alone(taken, error)
        for (operation, then), answer in zip(taken, answers, strict=True):
            if not isinstance(answer, Raised):
                self._reach(step_of(operation).committed)
            self._deliver(then, answer)
        self._wal.fold()

    def _group(self, taken: list[Item]) -> Iterator[Operation[Any]]:
        """Yield the first that was taken, then for 50 ms whatever waits, noting it in `taken`."""
        until = self._clocks.monotonic() + GROUP_SECONDS
        yield taken[0][0]
        while self._clocks.monotonic() < until and (item := self._waiting()) is not None:
            taken.append(item)
            yield item[0]

    def _answers_alone(self, taken: list[Item], error: Exception) -> Iterator[Any]:
        """Redo each operation of a failed group alone.

        The last that was taken is the one that failed. If it ended the transaction, it is
        not asked again: had it committed, its second answer would be stale, as after a cancel.
        """
        for operation, _ in taken:
            done = ended_transaction(error) and operation is taken[-1][0]
            yield Raised(error) if done else self._commit_alone(operation)

    def _waiting(self) -> Item | None:
        """Return the next operation if one waits already; a request to close is remembered."""
        try:
            item = self._inbox.get_nowait()
        except queue.Empty:
            return None
        self._more = item is not None
        return item

    def _commit(self, operations: Iterable[Operation[Any]]) -> list[Any]:
        """Apply all in one transaction and return their answers.

        Raises:
            StoreBroken: whether COMMIT held is unknown.
            Exception: nothing has happened.
        """
        with translated(self._path):
            self._reach(BEGIN)
            self._db.execute("BEGIN IMMEDIATE")
            with committing(self._db, self._clocks.now) as tx:
                answers = [self._apply(operation, tx) for operation in operations]
                self._reach(COMMIT)
        self._warned.clear()
        return answers

    def _apply(self, operation: Operation[Any], tx: Transaction) -> Any:
        """Apply an operation and return its answer; it must have left the transaction open."""
        step = step_of(operation)
        self._reach(step.begin)
        self.at_work = operation, self._clocks.monotonic()
        try:
            answer = operation.apply(tx)
        finally:
            self.at_work = None
        tx.must_be_open()
        self._reach(step.applied)
        return answer

    def _commit_alone(self, operation: Operation[Any]) -> Any:
        """Return the answer, or Raised; wait while the disk is full or the store is locked or read-only.

        Giving up begins when `close` has run out of patience.

        Raises:
            StoreBroken: whether a COMMIT held is unknown.
        """
        waits = chain(WAITS, repeat(WAITS[-1]))
        made_room = False
        while True:
            try:
                return self._commit([operation])[0]
            except StoreBroken:
                raise
            except (StoreBusy, StoreFull, StoreReadonly) as trouble:
                if self._closing.is_set():
                    return Raised(trouble)
                if isinstance(trouble, StoreFull) and not made_room and (made_room := self._wal.make_room()):
                    continue
                self._warn_once(trouble)
                if not isinstance(trouble, StoreBusy):  # busy: BEGIN itself waits
                    self._closing.wait(next(waits))
                made_room = False
            except Exception as error:  # noqa: BLE001 - an answer: its asker judges
                return Raised(error)

    def _warn_once(self, trouble: StoreError) -> None:
        if (code := notice_code(trouble)) not in self._warned:
            self._warned.add(code)
            self._notice(Notice(code, f"{trouble}; going on by itself when it can"))


def ended_transaction(error: Exception) -> bool:
    """Tell whether an operation failed because something inside it committed or rolled back."""
    return is_a(error.cause if isinstance(error, LanderRaised) else error, CommitLost)
