"""The reader thread: answers `ctx.read` from a read-only snapshot, one by one, a second each at most."""

import queue
import sqlite3
import threading
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from landing.connect import open_reader, store_path
from landing.text import clean, error_text, is_a
from landing.transaction import Args

READ_SECONDS: Final = 1.0
STEPS: Final = 10_000

Then = Callable[[Any], object]
Query = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Unanswered:
    """Why a read has no answer, in one line for the compute half."""

    text: str


class Queries:
    """What a registered read gets: SELECTs over one snapshot."""

    __slots__ = ("_db",)

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def query(self, sql: str, args: Args = (), /) -> list[tuple[Any, ...]]:
        """Return all rows of a SELECT."""
        return self._db.execute(sql, args).fetchall()


class Reader:
    """Runs reads off the loop; `deliver(then, answer)` is called in its thread."""

    def __init__(
        self, home: Path, monotonic: Callable[[], float], deliver: Callable[[Then, Any], object]
    ) -> None:
        self._monotonic = monotonic
        self._deliver = deliver
        self._until = 0.0
        self._inbox: queue.SimpleQueue[tuple[Query, Mapping[str, Any], Callable[[Any], Any], Then] | None] = (
            queue.SimpleQueue()
        )
        self._db = open_reader(store_path(home))
        self._db.set_progress_handler(self._late, STEPS)
        self._thread = threading.Thread(target=self._serve, name="reader", daemon=True)
        self._thread.start()

    def submit(self, fn: Query, args: Mapping[str, Any], finish: Callable[[Any], Any], then: Then) -> None:
        """Run `finish(fn(queries, **args))` in one snapshot; `then` gets its value, or `Unanswered`."""
        self._inbox.put((fn, args, finish, then))

    def close(self, timeout: float) -> bool:
        """Finish what waits; tell whether the thread came back within `timeout` seconds."""
        self._inbox.put(None)
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _serve(self) -> None:
        with closing(self._db):
            while (item := self._inbox.get()) is not None:
                fn, args, finish, then = item
                self._deliver(then, self._answer(fn, args, finish))

    def _answer(self, fn: Query, args: Mapping[str, Any], finish: Callable[[Any], Any]) -> Any:
        self._until = self._monotonic() + READ_SECONDS
        try:
            self._db.execute("BEGIN")
            answer = finish(fn(Queries(self._db), **args))
            return Unanswered(clean(answer.text)) if isinstance(answer, Unanswered) else answer
        except BaseException as error:  # noqa: BLE001 - also SystemExit: the next read needs this thread
            return Unanswered(self._reason(error))
        finally:
            self._until = float("inf")
            with suppress(sqlite3.Error):  # COMMIT by the read, or a failed BEGIN, left nothing to end
                self._db.execute("ROLLBACK")

    def _reason(self, error: BaseException) -> str:
        if is_a(error, sqlite3.OperationalError) and self._late():
            return f"the read took longer than {READ_SECONDS:g} s"
        return f"the read failed: {error_text(error)}"

    def _late(self) -> bool:
        return self._monotonic() > self._until
