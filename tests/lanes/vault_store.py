"""A real store for the vault lane: its tables in SQLite, landed through the real codec."""

import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec

from ipc.rows import decode_rows
from supervisor.attempt.rows import Rows
from supervisor.lanes import app
from supervisor.lanes.vault import land, vault_sync

Row = tuple[Any, ...]
NOBODY = 65534


@contextmanager
def no_privileges() -> Iterator[None]:
    """Give up for a while root's right to read everything, where the tests run as root."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(user)


class Facade:
    """The statements that landers and reads are given, on one connection."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def execute(self, sql: str, args: Any = (), /) -> int:
        return self._db.execute(sql, args).rowcount

    def executemany(self, sql: str, rows: Iterable[Any], /) -> int:
        return self._db.executemany(sql, rows).rowcount

    def query(self, sql: str, args: Any = (), /) -> list[Row]:
        return self._db.execute(sql, args).fetchall()

    def enqueue(self, kind: str, payload: Any = None, /) -> int:
        raise AssertionError(f"the vault enqueues nothing, not {kind} {payload}")


class Context:
    """What the compute half may ask, answered as the supervisor does; it remembers what was said."""

    resume = None

    def __init__(self, facade: "Facade") -> None:
        self._facade = facade
        self.log_lines: list[str] = []
        self.marks: list[str] = []
        self.steps: list[tuple[int, int | None]] = []

    def log(self, message: str, /) -> None:
        self.log_lines.append(message)

    def checkpoint(self, mark: str) -> None:
        self.marks.append(mark)

    def progress(self, done: int, total: int | None = None) -> None:
        self.steps.append((done, total))

    def read(self, query: Any, /, **args: Any) -> Any:
        answer = msgspec.msgpack.encode(query.fn(self._facade, **args))
        assert len(answer) < 4 << 20
        return msgspec.msgpack.decode(answer)


class Pass:
    """One run of the compute half over a folder: its rows, its result, what it said."""

    def __init__(self, store: "VaultStore", root: Path, exclude: Sequence[str] = ()) -> None:
        self.ctx = Context(store.facade)
        self.job = SimpleNamespace(id=1, payload={"root": str(root), "exclude": list(exclude)})
        self.rows = list(self._drain())

    def _drain(self) -> Iterator[Row]:
        self.result = yield from vault_sync.compute(self.job, self.ctx)  # type: ignore[misc]


class VaultStore:
    """The vault's tables in a database of their own."""

    def __init__(self) -> None:
        self.db = sqlite3.connect(":memory:", isolation_level=None)
        self.facade = Facade(self.db)
        for migration in app.migrations:
            self.db.executescript(migration.sql)

    def __del__(self) -> None:
        self.db.close()

    def land(self, scan: Pass, rows: Sequence[Row]) -> None:
        """Land one batch in a transaction of its own."""
        raw = msgspec.Raw(msgspec.msgpack.encode(rows))
        tuples = decode_rows(raw, len(rows), 6, [])
        self.db.execute("BEGIN IMMEDIATE")
        land(self.facade, scan.job, Rows(tuples, tuples))
        self.db.execute("COMMIT")

    def sync(self, root: Path, *, batch: int = 256, exclude: Sequence[str] = ()) -> Pass:
        """Run one whole pass over `root` and land it."""
        scan = Pass(self, root, exclude)
        for start in range(0, len(scan.rows), batch):
            self.land(scan, scan.rows[start : start + batch])
        return scan

    def documents(self) -> dict[str, Row]:
        """Return what is live, per path: digest, incoming, size, lines, chunks, reason."""
        sql = """SELECT path, digest, incoming, size, lines, chunks, reason
                 FROM vault_documents WHERE removed_at IS NULL"""
        return {row[0]: row[1:] for row in self.db.execute(sql)}

    def tombstones(self) -> set[str]:
        """Return the paths of files that are gone."""
        return {
            row[0] for row in self.db.execute("SELECT path FROM vault_documents WHERE removed_at IS NOT NULL")
        }

    def chunks(self) -> set[Row]:
        """Return every chunk, without its id."""
        return set(self.db.execute("SELECT digest, n, first, last, text FROM vault_chunks"))

    def text_of(self, path: str) -> str:
        """Return the text of a live document, joined from its chunks."""
        sql = """SELECT text FROM vault_chunks JOIN vault_documents USING (digest)
                 WHERE path = ? AND removed_at IS NULL ORDER BY n"""
        return "".join(row[0] for row in self.db.execute(sql, (path,)))

    def check(self) -> None:
        """Fail unless the index agrees with the chunks, and no chunk is without a document."""
        self.db.execute("INSERT INTO vault_text (vault_text, rank) VALUES ('integrity-check', 1)")
        assert self.db.execute("SELECT count(*) FROM vault_loose").fetchone() == (0,)
        orphans = """SELECT count(*) FROM vault_chunks
                     WHERE digest NOT IN (SELECT digest FROM vault_documents WHERE removed_at IS NULL
                                          AND digest IS NOT NULL)
                       AND digest NOT IN (SELECT incoming FROM vault_documents WHERE incoming IS NOT NULL)"""
        assert self.db.execute(orphans).fetchone() == (0,)
