"""The store's threads as the loop sees them: questions to the lander, reads, and what others committed."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

from landing import views
from landing.connect import STORE, TURNSTILE, open_reader, store_path, translated
from landing.errors import StoreBroken, StoreError
from landing.faults import CHECKPOINT, COMMIT, Reach, unarmed
from landing.lander import Clocks, Lander, Notice, Raised, notice_code
from landing.reader import Reader
from landing.snapshot import SCHEMA, same_store, store_identity, version
from landing.transaction import Operation
from supervisor import events, sensors
from supervisor.descriptors import Identity, all_open, identity
from supervisor.loop import Loop
from supervisor.store_files import guard, release, torn

CLOSE_SECONDS: Final = 10.0
HURRY_SECONDS: Final = 0.3
WRITES: Final = frozenset({COMMIT, CHECKPOINT})
"""The points at which the lander is about to write."""

BESIDE: Final = (f"{STORE}-shm", f"{STORE}-wal")
FILES: Final = (f"{STORE}-shm", STORE, f"{STORE}-wal", TURNSTILE)

Reply = TypeVar("Reply")


class Desk:
    """Lander and reader of one home. Their answers, and the lander's notices, arrive on the loop thread.

    Attributes:
        broken: why the store cannot be used any more, or None.
        outgrown: why this version may not go on with the store's tables, or None.
    """

    def __init__(self, home: Path, loop: Loop, report: events.Report, reach: Reach = unarmed) -> None:
        self._loop = loop
        self._report = report
        self.reach = reach
        self.broken: Notice | None = None
        self.stuck = False
        self.outgrown: str | None = None
        self._home = home
        self._path = store_path(home)
        self._identity = store_identity(home)
        self._patience = CLOSE_SECONDS
        self._held: Mapping[int, Identity] = {}
        self._beside: Mapping[int, Path] = {}
        self._index: Identity | None = None
        self._torn = ""
        self._readers_closed = threading.Event()
        self._outside = open_reader(store_path(home))
        self._seen = views.data_version(self._outside)
        self.reader = Reader(home, sensors.monotonic, loop.post)
        others = all_open()
        self.lander = Lander(
            home,
            Clocks(sensors.now_micros, sensors.monotonic),
            loop.post,
            self._take_notice,
            self._reach_whole,
        )
        self._opened = all_open().items() - others.items()
        self._guarded = guard(self._path.with_name(name) for name in (STORE, *BESIDE))

    def note_descriptors(self) -> None:
        """Have those that the lander writes by watched over.

        They are what was opened on the store's files while the lander began, and is open still: others in
        this process may have opened the store for a moment. Its -shm is open once, for all.
        """
        shared, *files = (identity(self._path.with_name(name)) for name in FILES)
        self._held = {
            fd: one
            for fd, one in all_open().items()
            if one == shared or (one in files and (fd, one) in self._opened)
        }
        self._index = shared
        beside = {identity(file): file for name in BESIDE if (file := self._path.with_name(name)).exists()}
        self._beside = {fd: beside[one] for fd, one in self._held.items() if one in beside}
        for fd in self._held:
            self._loop.descriptors.note(fd, "the store")

    def _forget_descriptors(self) -> None:
        held, self._held = self._held, {}
        self._beside = {}
        for fd in held:
            self._loop.descriptors.forget(fd)

    def _take_notice(self, notice: Notice) -> None:
        """Pass on what the lander says, in its thread; after its last word it closes the store itself.

        It is to be the last that does, where only the name of the WAL is gone: what that holds is saved so.
        """
        if notice.fatal and not self._loop.descriptors.lost():
            self._forget_descriptors()
        self._loop.post(self._noticed, notice)
        if notice.fatal and self._torn and self._may_fold():
            self._loop.post(Desk._close_readers, self)
            self._readers_closed.wait(self._patience)

    def _reach_whole(self, point: str) -> None:
        """Have the lander, in its thread, write nothing by a number that is somebody else's now."""
        if point in WRITES and any(identity(fd) != one for fd, one in self._held.items()):
            raise StoreBroken(str(self._path), self._loop.descriptors.lost())
        if point in WRITES and self._is_torn():
            raise StoreBroken(str(self._path), self._torn)
        self.reach(point)

    def _is_torn(self) -> bool:
        """Tell whether the -wal or -shm of this store was ever taken away; any thread."""
        if not self._torn and same_store(self._home, self._identity):
            self._torn = torn(self._path, self._beside)
        return bool(self._torn)

    def _may_fold(self) -> bool:
        """Tell whether nobody else can have written or folded anything since the WAL was taken away.

        Whoever opens the store makes another, and who folds it back as the last takes the index away, too.
        """
        index, wal = (identity(self._path.with_name(name)) for name in BESIDE)
        return index == self._index and wal is None

    def ask(self, operation: Operation[Reply]) -> Reply:
        """Have one operation done before anything else happens: for the start and the end of a run.

        Raises:
            StoreError: it failed, or the store broke.
        """
        answers: list[Any] = []
        self.lander.submit(operation, answers.append)
        while not answers:
            if self.broken is not None:
                raise StoreBroken(self.broken.code, self.broken.text)
            self._loop.turn(float("inf"))
        reply: Reply = self._answer(answers)
        return reply

    def try_ask(self, operation: Operation[Any]) -> bool:
        """Ask as long as `close` would wait; tell whether it was done."""
        answers: list[Any] = []
        self.lander.submit(operation, answers.append)
        until = sensors.monotonic() + self._patience
        while not answers and self.broken is None and sensors.monotonic() < until:
            self._loop.turn(until)
        return bool(answers) and not isinstance(answers[0], Raised)

    def hurry(self) -> None:
        """Wait for nobody any longer than a moment."""
        self._patience = HURRY_SECONDS

    def _answer(self, answers: list[Any]) -> Any:
        if not isinstance(answers[0], Raised):
            return answers[0]
        error = answers[0].error
        raise error if isinstance(error, StoreError) else StoreError("store", f"the store refused: {error}")

    def changed(self) -> bool:
        """Tell whether anybody else has committed since the last call; notice a store that is not ours."""
        before = self._seen
        if self.broken is not None:
            return False
        try:
            with translated(self._path):
                self._seen = views.data_version(self._outside)
                if before != self._seen and self.outgrown is None:
                    self._check_schema(version(self._outside))
        except StoreError as error:
            self._noticed(Notice(notice_code(error), str(error), fatal=True))
        if not same_store(self._home, self._identity):
            text = f"{self._path} was removed or replaced while this run used it"
            self._noticed(Notice("store_replaced", text, fatal=True))
        elif self._is_torn():
            self._noticed(Notice("store_broken", self._torn, fatal=True))
        return before != self._seen

    def _check_schema(self, found: int) -> None:
        """Notice that somebody upgraded the tables under this run, though only the lock holder may."""
        if found == SCHEMA:
            return
        newer = f"the store was upgraded to schema {found} by a newer version; start that one"
        older = f"the store has schema {found} now, this version writes {SCHEMA}; start again to upgrade it"
        self.outgrown = newer if found > SCHEMA else older
        self._report(events.Warned("schema_changed", self.outgrown))

    def _noticed(self, notice: Notice) -> None:
        if self.broken is not None:  # the lander and the look around meet the same end: it is said once
            return
        self._report(events.Warned(notice.code, notice.text))
        if notice.fatal:
            self.broken = notice

    def close(self) -> None:
        """Finish what waits and close the store; a thread that does not come back is left behind.

        The lander is last: whoever closes the store last folds its WAL back, and readers cannot. One that
        was taken away is not folded back if others may have written meanwhile.
        """
        self._forget_descriptors()
        ways = (self._close_readers, self._close_lander)
        for close in reversed(ways) if self._torn and not self._may_fold() else ways:
            close()

    def _close_readers(self) -> None:
        """Close them, once or again; on the loop thread."""
        self.reader.close(self._patience)
        self._outside.close()
        self._readers_closed.set()

    def _close_lander(self) -> None:
        if self.lander.close(self._patience):
            release(self._guarded)
            return
        self.stuck = True
        self._report(events.Warned("lander_stuck", f"the lander did not come back in {self._patience:g} s"))


@contextmanager
def open_desk(home: Path, loop: Loop, report: events.Report, reach: Reach = unarmed) -> Iterator[Desk]:
    """Start the threads; end them on the way out."""
    desk = Desk(home, loop, report, reach)
    try:
        yield desk
    finally:
        desk.close()
