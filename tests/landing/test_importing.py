"""Queue files of earlier shapes come in as they were; the files themselves stay as they are."""

import hashlib
import json
import multiprocessing
import os
import shutil
import signal
import sqlite3
import tracemalloc
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from landing.enqueue import Register
from landing.errors import NoStore
from landing.importing import CopySlice, Degraded, Imported, bring_in
from landing.oldqueue import ROWS, NotAQueue, opened
from landing.store import Store
from landing.times import micros
from landing.transaction import Transaction
from policies.job import MICROS, State
from policies.options import Options
from tests.landing.stand import START, Stand

KINDS = {
    "sync": Options(unique="waiting"),
    "page": Options(unique="forever"),
    "mine": Options(exclusive_by="revision"),
    "note": Options(retry_safe=False),
}
FIRST_SHAPE = (
    "CREATE TABLE jobs (id INTEGER PRIMARY KEY AUTOINCREMENT, kind TEXT, tier TEXT, num_ctx INTEGER,"
    " priority INTEGER, state TEXT, payload TEXT, result TEXT, error TEXT, attempts INTEGER, created_at TEXT)"
)
LAST_SHAPE = (
    FIRST_SHAPE[:-1] + ", checkpoint TEXT, started_at TEXT, finished_at TEXT, claimed_by_run INTEGER,"
    " lease_expires_at TEXT)"
)
NOON = micros("2023-05-06T12:00:00") or 0


def job(**more: Any) -> dict[str, Any]:
    """A row of an old file."""
    usual = {"kind": "sync", "state": "queued", "payload": "{}", "created_at": "2023-05-06T12:00:00"}
    return {"priority": 50, "tier": "pinned", "num_ctx": 4096, "attempts": 0} | usual | more


def add(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    with closing(sqlite3.connect(path)) as db, db:
        for row in rows:
            names = ", ".join(row)
            db.execute(f"INSERT INTO jobs ({names}) VALUES ({', '.join('?' * len(row))})", [*row.values()])


@pytest.fixture
def old(tmp_path: Path) -> Path:
    path = tmp_path / "queue.db"
    with closing(sqlite3.connect(path)) as db:
        db.execute(LAST_SHAPE)
    return path


@pytest.fixture
def here(stand: Stand) -> Stand:
    stand.write(Register("app", KINDS))
    return stand


def bring(stand: Stand, path: Path, pause: Callable[[], object] = lambda: None) -> Imported:
    with opened(path) as old:
        return bring_in(old, stand.write, pause)


def cells(stand: Stand, names: str) -> list[tuple[Any, ...]]:
    return stand.query(f"SELECT {names} FROM laneway_jobs ORDER BY id")


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_each_state_comes_in_as_it_was(here: Stand, old: Path) -> None:
    """C71, C73, C96: with its place in line, its result and its error."""
    ended = {"started_at": "2023-05-06 12:00:01", "finished_at": "2023-05-06T12:00:02.5Z"}
    add(
        old,
        [
            job(priority=10),
            job(state="done", result="3 rows", attempts=2, **ended),
            job(state="failed", error="ValueError('x')", **ended),
            job(state="deferred", error="ceiling: 30.0 GB of 24.0"),
        ],
    )
    reply = bring(here, old)
    assert reply == Imported({"queued": 1, "done": 1, "failed": 1, "deferred": 1}, ())
    assert cells(here, "kind, tier, num_ctx, priority, created_at, waiting_since, state, reason, claims") == [
        ("sync", "pinned", 4096, 10, NOON, NOON, State.QUEUED, None, 0),
        ("sync", "pinned", 4096, 50, NOON, NOON, State.DONE, "done", 2),
        ("sync", "pinned", 4096, 50, NOON, NOON, State.FAILED, "ValueError('x')", 0),
        ("sync", "pinned", 4096, 50, NOON, NOON, State.DEFERRED, "ceiling: 30.0 GB of 24.0", 0),
    ]
    end = NOON + 2_500_000
    assert cells(here, "started_at, finished_at") == [
        (None, None),
        (NOON + MICROS, end),
        (NOON + MICROS, end),
        (None, None),
    ]
    assert here.query("SELECT job_id, body FROM laneway_results") == [(2, '"3 rows"')]


def test_what_waited_runs_in_its_old_order_and_is_met_by_equal_requests(here: Stand, old: Path) -> None:
    """C74, C79, C87: also what was deferred, at once."""
    add(old, [job(kind="mine", state="deferred"), job(kind="sync", tier=""), job(kind="mine", payload="[1]")])
    bring(here, old)
    assert here.enqueue("sync") != 2  # another window
    claims = [here.look(loaded=KINDS).claimed for _ in range(3)]
    assert [claimed and claimed.job for claimed in claims] == [1, 2, 3]


ORPHANED = [
    ("sync", 7, State.QUEUED, "orphaned"),
    ("note", 7, State.FAILED, "orphaned by unclean exit of run #7"),
    ("note", None, State.FAILED, "orphaned by unclean exit of run #?"),
    ("nobody_knows", 7, State.FAILED, "orphaned by unclean exit of run #7"),
]


def test_what_was_running_has_no_owner_any_more(here: Stand, old: Path) -> None:
    """C89, C94, U3, U6: back in line where it may run again, else failed, naming the run."""
    stamp = {"state": "running", "lease_expires_at": "2999-01-01T00:00:00", "attempts": 1}
    add(old, [job(kind=kind, claimed_by_run=run, **stamp) for kind, run, *_ in ORPHANED])
    assert bring(here, old).counts == {"requeued": 1, "orphaned": 3}
    assert cells(here, "kind, state, reason") == [(kind, *now) for kind, _, *now in ORPHANED]
    assert set(cells(here, "run_id, fence, lease_expires_at, claims")) == {(None, None, None, 1)}


def test_a_checkpoint_becomes_the_mark_of_the_next_attempt(here: Stand, old: Path) -> None:
    """C78, C88: and no request meets the row."""
    add(old, [job(checkpoint="/a/b", attempts=3, tier="", num_ctx=0)])
    bring(here, old)
    assert here.enqueue("sync") == 2
    claimed = here.look(loaded=KINDS).claimed
    assert claimed is not None
    assert (claimed.job, claimed.number, claimed.mark) == (1, 4, "/a/b")


def test_a_second_import_adds_only_what_has_come_since(here: Stand, old: Path, tmp_path: Path) -> None:
    """C96, U32: also of the same file at another place, and after its jobs have gone on here."""
    add(old, [job(), job(kind="mine")])
    assert bring(here, old).counts == {"queued": 2}
    here.cancel(1)
    moved = old.rename(tmp_path / "moved.db")
    assert bring(here, moved) == Imported({}, ())
    add(moved, [job(kind="note")])
    assert bring(here, moved).counts == {"queued": 1}
    assert cells(here, "id, kind, state") == [
        (1, "sync", State.CANCELLED),
        (2, "mine", State.QUEUED),
        (3, "note", State.QUEUED),
    ]
    assert here.query("SELECT name FROM laneway_events WHERE name = 'imported'") == [("imported",)] * 2


def test_what_is_here_for_ever_is_not_added_again(here: Stand, old: Path) -> None:
    """A9, U2."""
    here.enqueue("page", '{"a":1,"b":2}')
    add(old, [job(kind="page", payload='{"b":2,"a":1}', tier="", num_ctx=0)])
    assert bring(here, old).counts == {"existing": 1}
    assert len(cells(here, "id")) == 1


def test_kinds_that_nobody_declared_here_are_kept(here: Stand, old: Path) -> None:
    """C96, K14: they wait for an application that has them."""
    add(old, [job(kind="chat_sync"), *(job(kind=f"gone {n}", state="done") for n in range(3))])
    add(old, [job(kind="unheard", state="deferred"), job(kind="chat_sync")])
    assert bring(here, old).strangers == ("chat_sync", "unheard")
    assert cells(here, "kind, state")[0] == ("chat_sync", State.QUEUED)
    add(old, [job(kind=f"many {n}") for n in range(150)])
    assert len(bring(here, old).strangers) == 100
    assert here.look(loaded=KINDS).claimed is None


def test_columns_that_an_older_file_has_not_are_empty(here: Stand, tmp_path: Path) -> None:
    """C96, C97: also those of its first shape."""
    path = tmp_path / "older.db"
    with closing(sqlite3.connect(path)) as db:
        db.execute(FIRST_SHAPE)
    add(
        path, [job(), job(state="running"), job(state="done"), job(created_at=None, priority=None, tier=None)]
    )
    assert bring(here, path).counts == {"queued": 2, "requeued": 1, "done": 1}
    last = cells(here, "created_at, priority, tier, mark, started_at, finished_at")[-1]
    assert last == (START, 50, "", None, None, None)


GARBAGE = [
    *(("kind", bad) for bad in (None, "", b"\xff", "a\nb", "k" * 200)),
    *(("state", bad) for bad in (None, "leased", 1, b"x")),
    *(("payload", bad) for bad in ("{", b"\xff\xfe", "[" * 5000)),
    *(("priority", bad) for bad in ("urgent", 1.5, b"1", 2**60)),
    *(("num_ctx", bad) for bad in ("wide", -1)),
    *(("attempts", bad) for bad in ("some", -1)),
    *(("tier", bad) for bad in (b"\xff", "a\0b")),
    *(("checkpoint", bad) for bad in (b"\0", "x" * 20_000)),
    *(("created_at", bad) for bad in ("yesterday", "2023-02-30T00:00:00", "0000-01-01T00:00:00", b"2023")),
    *(("created_at", bad) for bad in ("2023", 3.5, 1_700_000_000_000, 1e300, -1)),
    *((name, "2023-05-06T12:00:00+02:00") for name in ("started_at", "finished_at")),
    *((name, b"\xfe") for name in ("result", "error", "claimed_by_run")),
]


@pytest.mark.parametrize(
    ("column", "bad"), GARBAGE, ids=[f"{name}-{n}" for n, (name, _) in enumerate(GARBAGE)]
)
def test_a_cell_that_holds_garbage_fails_its_own_row_and_is_listed(
    here: Stand, old: Path, column: str, bad: Any
) -> None:
    """C96, U32: a row that cannot be read is out of the way, with a reason."""
    add(old, [job(), job(**{column: bad}), job()])
    reply = bring(here, old)
    assert reply == Imported({"queued": 2, "unreadable": 1}, (Degraded(2, 2, column),))
    row = here.row(2)
    assert (row["state"], row["reason"], row["finished_at"]) == (State.FAILED, f"unreadable: {column}", START)
    assert here.events(2) == ["unreadable"]


def test_times_may_be_seconds_since_1970_as_numbers_or_as_text(here: Stand, tmp_path: Path) -> None:
    """C96, U11: a column of text makes text of them."""
    path = tmp_path / "seconds.db"
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("CREATE TABLE jobs (kind, state, payload, created_at, finished_at TEXT)")
        db.execute("INSERT INTO jobs VALUES ('sync', 'done', '{}', 1700000000, 1700000001.5)")
    assert bring(here, path).counts == {"done": 1}
    assert cells(here, "created_at, finished_at") == [(1_700_000_000 * MICROS, 1_700_000_001_500_000)]


@pytest.mark.parametrize("bad", ["soon", b"\xff", 3.5])
def test_a_lease_is_not_even_read(here: Stand, old: Path, bad: Any) -> None:
    """C92, C93: what is no time never means expired."""
    add(old, [job(lease_expires_at=bad)])
    assert bring(here, old).counts == {"queued": 1}


@pytest.mark.parametrize("content", [b"", b"no database at all, but long enough to have been one " * 9])
def test_what_is_no_queue_is_refused_and_nothing_is_written(
    here: Stand, tmp_path: Path, content: bytes
) -> None:
    """C96: one typed error."""
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(NotAQueue):
        bring(here, path)
    with pytest.raises(NoStore):
        bring(here, tmp_path / "missing")
    with pytest.raises(NotAQueue):
        bring(here, here.home / "store.db")
    assert cells(here, "id") == []


def many(rows: int) -> Iterable[Sequence[Any]]:
    states = ("queued", "done", "failed", "deferred", "running")
    for number in range(rows):
        yield (
            "sync",
            states[number % 5],
            json.dumps({"n": number, "text": "x" * 1000}),
            "2023-05-06T12:00:00",
            "pinned",
            50,
        )


def fill(path: Path, rows: int) -> None:
    with closing(sqlite3.connect(path)) as db, db:
        names = "kind, state, payload, created_at, tier, priority"
        db.executemany(f"INSERT INTO jobs ({names}) VALUES (?, ?, ?, ?, ?, ?)", many(rows))


def test_a_file_of_many_rows_comes_in_and_stays_as_it_is(here: Stand, old: Path) -> None:
    """C96: not one byte of it changes."""
    fill(old, 10_000)
    before = digest(old)
    reply = bring(here, old)
    assert reply.counts == dict.fromkeys(("queued", "done", "failed", "deferred", "requeued"), 2_000)
    assert digest(old) == before
    assert here.query("SELECT state, jobs FROM laneway_counts WHERE jobs > 0 ORDER BY state") == [
        (State.DEFERRED, 2_000),
        (State.DONE, 2_000),
        (State.FAILED, 2_000),
        (State.QUEUED, 4_000),
    ]


def peak_of(work: Callable[[], object]) -> int:
    """The most bytes that Python held meanwhile."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_an_import_holds_no_more_memory_for_more_rows(here: Stand, old: Path) -> None:
    """C96: a slice at a time."""
    fill(old, 2 * ROWS)
    few = peak_of(lambda: bring(here, old))
    fill(old, 8 * ROWS)
    many = peak_of(lambda: bring(here, old))
    assert many < 1.5 * few


# --- slices


def test_others_write_between_the_slices_of_an_import(here: Stand, old: Path) -> None:
    """C96: nobody waits for more than one of them, and what they hold is bounded by bytes, too."""
    fill(old, 2 * ROWS)
    add(old, [job(payload=json.dumps("x" * 900_000)) for _ in range(10)])
    found: list[int] = []
    reply = bring(here, old, pause=lambda: found.append(here.enqueue("note")))
    assert sum(reply.counts.values()) == 2 * ROWS + 10
    assert len(found) == 4, "2 x 500 rows, then 4 MiB hold four large rows"
    assert here.query("SELECT COUNT(*) FROM laneway_jobs") == [(2 * ROWS + 14,)]
    ((told,),) = here.query("SELECT detail FROM laneway_events WHERE name = 'imported'")
    assert json.loads(told) == {"path": str(old), **reply.counts}


def numbers(stand: Stand) -> list[int]:
    """Which rows of `many` are here."""
    return [n for (n,) in stand.query("SELECT json_extract(payload, '$.n') FROM laneway_jobs ORDER BY 1")]


class Fatal:
    """An operation of a process that is killed before its COMMIT."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def apply(self, tx: Transaction) -> None:
        self.inner.apply(tx)
        os.kill(os.getpid(), signal.SIGKILL)


def bring_and_die(home: Path, path: Path, slices: int, *, committed: bool) -> None:
    """Import so many slices, and be killed: right after the last COMMIT, or right before the next one."""
    store, copied = Store(home, lambda: START), 0

    def write(operation: Any) -> Any:
        nonlocal copied
        if isinstance(operation, CopySlice):
            if copied == slices:
                operation = Fatal(operation)
            copied += 1
        reply = store.write(operation)
        if committed and copied == slices:
            os.kill(os.getpid(), signal.SIGKILL)
        return reply

    with opened(path) as old:
        bring_in(old, write, lambda: None)


@pytest.mark.parametrize("committed", [False, True], ids=["before-commit", "after-commit"])
def test_an_import_that_is_killed_goes_on_where_it_was_and_no_row_is_lost_or_doubled(
    here: Stand, old: Path, *, committed: bool
) -> None:
    """C96, U32: killed in each of its slices in turn."""
    fill(old, 4 * ROWS)
    before, context = digest(old), multiprocessing.get_context("spawn")
    for one in range(1, 4):
        args = (here.home, old, one)
        dying = context.Process(target=bring_and_die, args=args, kwargs={"committed": committed})
        dying.start()
        dying.join(60)
        assert dying.exitcode == -signal.SIGKILL
        assert numbers(here) == list(range(one * ROWS))
    assert sum(bring(here, old).counts.values()) == ROWS
    assert numbers(here) == list(range(4 * ROWS))
    assert bring(here, old) == Imported({}, ())
    assert digest(old) == before


def alter(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(statement)


def test_a_file_that_begins_like_another_is_copied_all_the_same(here: Stand, old: Path) -> None:
    """C96: also a copy that has gone on by itself brings in what is new in it."""
    fill(old, 3)
    assert sum(bring(here, old).counts.values()) == 3
    other = old.with_name("other.db")
    shutil.copy(old, other)
    for path, number in ((old, 10), (other, 20), (other, 21)):
        payload = json.dumps({"n": number})
        alter(path, f"INSERT INTO jobs (kind, state, payload) VALUES ('embed', 'queued', '{payload}')")
    assert sum(bring(here, other).counts.values()) == 2
    assert sum(bring(here, old).counts.values()) == 1
    assert numbers(here) == [0, 1, 2, 10, 20, 21]


def test_a_file_whose_first_rows_are_gone_brings_in_nothing_twice(here: Stand, old: Path) -> None:
    """C96: somebody may prune it between two imports, or work on in it."""
    fill(old, 5)
    assert sum(bring(here, old).counts.values()) == 5
    alter(old, "DELETE FROM jobs WHERE id < 3")
    alter(old, "UPDATE jobs SET state = 'done' WHERE id = 4")
    assert bring(here, old) == Imported({}, ())


def test_a_view_is_no_table_of_jobs(here: Stand, old: Path) -> None:
    """C96: its rows have no numbers to be known by."""
    alter(old, "ALTER TABLE jobs RENAME TO others")
    alter(old, "CREATE VIEW jobs AS SELECT * FROM others")
    with pytest.raises(NotAQueue, match="it has no table jobs"):
        bring(here, old)


def bring_all(home: Path, path: Path, replies: Any) -> None:
    store = Store(home, lambda: START)
    with opened(path) as old:
        replies.put(sum(bring_in(old, store.write, lambda: None).counts.values()))


def test_two_imports_of_one_file_at_once_bring_in_each_row_once(here: Stand, old: Path) -> None:
    """C96: each goes on behind what the other has copied."""
    fill(old, 6 * ROWS)
    context = multiprocessing.get_context("spawn")
    replies = context.Queue()
    both = [context.Process(target=bring_all, args=(here.home, old, replies)) for _ in range(2)]
    for one in both:
        one.start()
    assert sum(replies.get(timeout=60) for _ in both) == 6 * ROWS
    for one in both:
        one.join(20)
    assert numbers(here) == list(range(6 * ROWS))


def test_two_queues_that_begin_alike_are_two(here: Stand, old: Path, tmp_path: Path) -> None:
    """C96: their first jobs were created at different times."""
    add(old, [job()])
    other = tmp_path / "other.db"
    with closing(sqlite3.connect(other)) as db:
        db.execute(LAST_SHAPE)
    add(other, [job(created_at="2023-05-06T12:00:01"), job(kind="note")])
    assert bring(here, old).counts == {"queued": 1}
    assert bring(here, other).counts == {"queued": 2}
    assert bring(here, other) == bring(here, old) == Imported({}, ())
