"""A store of any depth, filled fast: through the real statements on the real schema, in one transaction."""

from collections.abc import Iterator, Mapping
from contextlib import closing
from itertools import count, cycle
from pathlib import Path
from typing import Any

from landing.claim import EXCLUSIVE
from landing.connect import open_writer, store_path
from landing.enqueue import Register, RegisterTiers, group_id
from landing.sql import attempt, queue
from landing.store import Store
from landing.transaction import Transaction, committing
from policies.job import MICROS, Outcome, State
from policies.options import Options
from policies.routing import BUILT_IN
from supervisor import sensors

PRIORITIES = (10, 50, 100)
DAY = 86_400 * MICROS
SIBLINGS = 100
"""Keys of which no two jobs may run at once; half of those that are pending wait for one of them."""


def kinds_of(number: int) -> dict[str, Options]:
    """Return so many kinds, each in one of the built-in tiers."""
    tiers = sorted(BUILT_IN)
    return {f"kind{n}": Options(tier=tiers[n % len(tiers)]) for n in range(number)}


def fill(home: Path, kinds: Mapping[str, Options], queued: int, pending: int = 0, done: int = 0) -> None:
    """Make a store with so many jobs that are queued, pending, and done just now.

    A kind has one priority, so there are as many groups as kinds.
    """
    store = Store(home, sensors.now_micros, create_missing=True)
    store.write(Register("bench", kinds))
    store.write(RegisterTiers({tier.name: tier.window for tier in BUILT_IN.values()}))
    with closing(open_writer(store_path(home))) as db:
        db.execute("BEGIN IMMEDIATE")
        with committing(db, sensors.now_micros) as tx:
            groups = list(groups_of(tx, kinds))
            db.executemany(queue.ENQUEUE, rows(groups, queued, State.QUEUED, tx.now))
            first = last_id(tx) + 1
            db.executemany(queue.ENQUEUE, rows(groups, pending, State.PENDING, tx.now))
            hold_back(tx, range(first, first + pending))
            first = last_id(tx) + 1
            db.executemany(queue.ENQUEUE, rows(groups, done, State.DONE, tx.now))
            end(tx, range(first, first + done))
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def groups_of(tx: Transaction, kinds: Mapping[str, Options]) -> Iterator[dict[str, Any]]:
    """Make one group for each kind."""
    for n, (kind, options) in enumerate(kinds.items()):
        priority = PRIORITIES[n % len(PRIORITIES)]
        group = {"kind": kind, "priority": priority, "tier": options.tier, "num_ctx": 0}
        yield group | {"group": group_id(tx, group)}


def rows(groups: list[dict[str, Any]], jobs: int, state: State, now: int) -> Iterator[dict[str, Any]]:
    """Yield the rows of so many jobs, enqueued a microsecond after one another until `now`."""
    for n in range(jobs):
        yield groups[n % len(groups)] | {
            "key": None, "tag": None, "state": state, "payload": '{"n": 1}', "options": None,
            "identity": None, "exclusive": None, "now": now - jobs + n,
        }  # fmt: skip


def last_id(tx: Transaction) -> int:
    """Return the newest job's."""
    row = tx.one("SELECT COALESCE(MAX(id), 0) FROM laneway_jobs")
    assert row is not None
    return int(row[0])


def hold_back(tx: Transaction, jobs: range) -> None:
    """Give each pending row its watch: in turn a backoff of a day, and a sibling that is in line."""
    tx.db.executemany(
        "UPDATE laneway_jobs SET reason = 'backoff', watch = 'backoff', wake_at = ? WHERE id = ?",
        ((tx.now + DAY + job, job) for job in jobs[::2]),
    )
    siblings = [f"sibling {n}" for n in range(min(SIBLINGS, len(jobs) // 2))]
    tx.db.executemany(
        "UPDATE laneway_jobs SET reason = :watch, watch = :watch, watch_key = :key, exclusive = :key"
        " WHERE id = :job",
        (
            {"watch": EXCLUSIVE, "key": key, "job": job}
            for key, job in zip(cycle(siblings), jobs[1::2], strict=False)
        ),
    )
    tx.db.executemany(
        "UPDATE laneway_jobs SET exclusive = ? WHERE id = ?", zip(siblings, count(jobs.start - 1, -1))
    )


def end(tx: Transaction, jobs: range) -> None:
    """Give each job that is done its attempt and its receipt."""
    stamp = {"run": 1, "pid": 1, "now": tx.now, "number": 1, "landed_seq": 1}
    tx.db.executemany(queue.ADD_ATTEMPT, (stamp | {"job": job, "fence": f"{job:032x}"} for job in jobs))
    nothing = dict.fromkeys(("error_code", "error", "exit", "kill", "world"))
    receipt = nothing | {"outcome": Outcome.DONE, "now": tx.now, "spent": 0, "log": ""}
    tx.db.executemany(
        attempt.ADD_RECEIPT, (receipt | {"attempt": n, "job": job} for n, job in enumerate(jobs, 1))
    )
    tx.db.execute("UPDATE laneway_jobs SET finished_at = ? WHERE id >= ?", (tx.now, jobs.start))
