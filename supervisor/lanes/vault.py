"""`vault_sync`: keep an index of a folder of notes, Markdown, text or source code.

    child       find -> load -> digest known? -> cut -> rows     (compute half, below)
    supervisor  rows -> vault_documents, vault_chunks, vault_text (lander, at the end)

A rescan is incremental (SPEC C175): an unchanged file yields nothing, a new or
changed one yields BEGIN, CHUNK ..., FILE; one that cannot be read PASS; one
that is gone GONE. The lander is idempotent, so a new attempt simply starts over
(`resume="restart"`) and finds known what has landed.
"""

import os
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from supervisor import Fail
from supervisor.api import App
from supervisor.halves import Context, Job, Landing, Queries, Rows
from supervisor.lanes import schema
from supervisor.lanes.chunks import cut
from supervisor.lanes.folder import Document, Unreadable, find, load, printable

Row = tuple[str, str, int, int, int, str]

BEGIN: Final = "begin"  # path, -, -, -, digest
CHUNK: Final = "chunk"  # digest, n, first line, last line, text
FILE: Final = "file"  #   path, bytes, lines, chunks, digest
PASS: Final = "pass"  #   path, -, -, -, reason
GONE: Final = "gone"  #   path, -, -, -, -

PAGE: Final = 900
"""Documents in one answer of `known`: with the longest paths still under its 4 MiB."""

app = App("laneway")
app.migration(1, schema.TABLES)


@dataclass(frozen=True, slots=True)
class Folder:
    """The payload: an absolute root, and names or glob patterns of what to leave out."""

    root: str
    exclude: tuple[str, ...] = ()


@dataclass(slots=True)
class Tally:
    """What one pass over a folder came to; its fields are the job's result."""

    files: int
    indexed: int = 0
    unchanged: int = 0
    tombstoned: int = 0
    chunks: int = 0
    bytes: int = 0
    skipped: dict[str, int] = field(default_factory=dict)

    def skip(self, reason: str) -> None:
        """Count one file or folder that is passed over."""
        self.skipped[reason] = self.skipped.get(reason, 0) + 1

    def result(self) -> dict[str, Any]:
        """Return the counts as plain values."""
        return {name: getattr(self, name) for name in self.__slots__}


@app.read
def known(db: Queries, *, root: str, after: str, limit: int) -> list[tuple[str, str | None, str | None]]:
    """Answer (path, digest, reason) of up to `limit` files under `root` whose path sorts after `after`."""
    return db.query(schema.KNOWN, (root, after, limit))


@app.lane("vault_sync", resume="restart", priority=100, network=False)
def vault_sync(job: Job[dict[str, Any]], ctx: Context) -> Generator[Row, None, dict[str, Any]]:
    """Walk the folder and yield what differs from the store.

    Raises:
        Fail: the payload names no folder, or one that cannot be listed.
    """
    folder = folder_of(job.payload)
    try:
        found = find(folder.root, folder.exclude)
    except OSError as error:
        raise Fail(f"cannot index {folder.root}: {error.strerror}") from None
    marks = read_marks(ctx, folder.root)
    tally = Tally(len(found.files))
    for path, reason in found.closed.items():
        yield from pass_over(printable(path), reason, marks, tally, ctx)
    for done, path in enumerate(found.files, 1):
        yield from sync(folder.root, path, marks, tally, ctx)
        ctx.progress(done, tally.files)
        ctx.checkpoint(printable(path))
    for path in sorted(gone(marks, found.closed)):
        tally.tombstoned += 1
        yield GONE, path, 0, 0, 0, ""
    return tally.result()


def folder_of(payload: Any) -> Folder:
    """Check a payload at the door.

    Raises:
        Fail: saying what is wrong with it.
    """
    if not isinstance(payload, dict) or payload.keys() - {"root", "exclude"}:
        usage = '{"root": folder, "exclude": [names or patterns]}'
        raise Fail(f"a vault_sync payload is {usage}, not {payload!r:.200}")
    root, exclude = payload.get("root"), payload.get("exclude", [])
    if not isinstance(root, str) or not root.startswith("/") or "\0" in root:
        raise Fail(f"root must be the absolute path of a folder, not {root!r}")
    if not isinstance(exclude, list) or not all(isinstance(each, str) and each for each in exclude):
        raise Fail(f"exclude must be a list of names or patterns, not {exclude!r}")
    return Folder(os.path.normpath(root), tuple(exclude))


Marks = dict[str, tuple[str | None, str | None]]
"""Per known path (digest, reason): what the store holds, or why it passed over the file."""


def read_marks(ctx: Context, root: str) -> Marks:
    """Ask the store, page by page, what it knows under `root`."""
    marks: Marks = {}
    after = ""
    while page := ctx.read(known, root=root, after=after, limit=PAGE):
        marks.update((path, (digest, reason)) for path, digest, reason in page)
        after = page[-1][0]
    return marks


def sync(root: str, path: str, marks: Marks, tally: Tally, ctx: Context) -> Iterator[Row]:
    """Yield the rows of one file, and take it out of `marks`."""
    try:
        document = load(f"{root}/{path}")
    except Unreadable as why:
        yield from pass_over(printable(path), str(why), marks, tally, ctx)
        return
    if marks.pop(path, (None, None))[0] == document.digest:
        tally.unchanged += 1
    else:
        yield from index(path, document, tally)


def index(path: str, document: Document, tally: Tally) -> Iterator[Row]:
    """Yield the rows of a new or changed file: FILE, which makes it known, comes last."""
    chunks = cut(document.text, headings=document.markdown)
    yield BEGIN, path, 0, 0, 0, document.digest
    for n, (first, last, text) in enumerate(chunks):
        yield CHUNK, document.digest, n, first, last, text
    yield FILE, path, document.size, chunks[-1].last if chunks else 0, len(chunks), document.digest
    tally.indexed += 1
    tally.chunks += len(chunks)
    tally.bytes += document.size


def pass_over(path: str, reason: str, marks: Marks, tally: Tally, ctx: Context) -> Iterator[Row]:
    """Report a file that cannot be indexed; the store is told only what it does not know."""
    tally.skip(reason)
    if marks.pop(path, (None, None))[1] != reason:
        ctx.log(f"passed over {path}: {reason}")
        yield PASS, path, 0, 0, 0, reason


def gone(marks: Marks, closed: dict[str, str]) -> Iterator[str]:
    """Name the known files that the walk did not meet, save those in folders that could not be listed."""
    hidden = tuple(f"{printable(folder)}/" for folder in closed)
    return (path for path in marks if not path.startswith(hidden))


@vault_sync.lander
def land(db: Landing, job: Job[dict[str, Any]], rows: Rows[Row]) -> None:
    """Write one batch. Twice, or again by a later attempt, gives the same tables."""
    root = folder_of(job.payload).root
    of: dict[str, list[Row]] = {BEGIN: [], CHUNK: [], FILE: [], PASS: [], GONE: []}
    for row in rows:
        of[row[0]].append(row)
    changed = [(root, row[1]) for op in (BEGIN, FILE, PASS, GONE) for row in of[op]]
    for statement in schema.LET_GO:
        db.executemany(statement, changed)
    db.executemany(schema.BEGIN, [(root, path, digest) for _, path, _, _, _, digest in of[BEGIN]])
    add_chunks(db, of[CHUNK])
    complete = [(size, lines, n, root, path, digest, n) for _, path, size, lines, n, digest in of[FILE]]
    db.executemany(schema.COMPLETE, complete)
    db.executemany(schema.PASS_OVER, [(root, path, reason) for _, path, _, _, _, reason in of[PASS]])
    db.executemany(schema.BURY, [(root, row[1]) for row in of[GONE]])
    for statement in schema.SWEEP:
        db.execute(statement)


def add_chunks(db: Landing, rows: list[Row]) -> None:
    """Keep the chunks that are new, and index them in one statement: far cheaper than one for each."""
    db.executemany(schema.LOOSEN, {(row[1],) for row in rows})
    [(newest,)] = db.query(schema.LAST_CHUNK)
    db.executemany(schema.ADD_CHUNK, [row[1:] for row in rows])
    db.execute(schema.INDEX_CHUNKS, (newest,))
