"""Attempts and receipts are facts: nobody rewrites them, not even by REPLACE."""

import sqlite3
from contextlib import closing
from typing import Any

import pytest

from landing.connect import open_writer, store_path
from landing.ledger import Report, add_receipt
from landing.prune import Prune
from landing.sql.prune import RAISE_FLAG
from landing.transaction import Transaction
from policies.job import Outcome, State
from tests.landing.stand import PATIENCE, Stand, land, lander_thread, one_group, standing

TRICKS = [
    "UPDATE laneway_attempts SET fence = 'x'",
    "UPDATE OR REPLACE laneway_attempts SET number = 9",
    "DELETE FROM laneway_attempts",
    "INSERT OR REPLACE INTO laneway_attempts SELECT * FROM laneway_attempts",
    "REPLACE INTO laneway_attempts SELECT 99, job_id, number, 0, 0, '', 0, 0, 0 FROM laneway_attempts",
    "INSERT INTO laneway_attempts SELECT * FROM laneway_attempts WHERE 1 ON CONFLICT DO UPDATE SET pid = 0",
    "UPDATE laneway_receipts SET outcome = 'done'",
    "DELETE FROM laneway_receipts",
    "INSERT OR REPLACE INTO laneway_receipts SELECT * FROM laneway_receipts",
    "INSERT INTO laneway_receipts SELECT * FROM laneway_receipts WHERE 1 ON CONFLICT DO UPDATE SET spent = 0",
]


@pytest.mark.parametrize("trick", TRICKS)
def test_attempts_and_receipts_cannot_be_rewritten(stand: Stand, trick: str) -> None:
    """U10, A30."""
    claimed = stand.running()
    stand.finish(claimed)
    facts = "SELECT * FROM laneway_attempts JOIN laneway_receipts ON attempt_id = id"
    before = stand.query(facts)
    assert len(before) == 1
    with closing(open_writer(store_path(stand.home))) as db, pytest.raises(sqlite3.IntegrityError) as refused:
        db.execute(trick)
    assert "append-only" in str(refused.value)
    assert stand.query(facts) == before


@pytest.mark.parametrize("trick", [trick for trick in TRICKS if not trick.startswith("DELETE")])
def test_not_even_a_prune_can_rewrite_them(stand: Stand, trick: str) -> None:
    """U10, B26: its flag lets a job's rows go, and nothing else."""
    claimed = stand.running()
    stand.finish(claimed)
    with closing(open_writer(store_path(stand.home))) as db:
        db.execute("BEGIN IMMEDIATE")
        db.execute(RAISE_FLAG, {"job": claimed.job})
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            db.execute(trick)
        db.execute("ROLLBACK")


@pytest.mark.parametrize("trick", TRICKS)
def test_a_lander_cannot_touch_them_either(stand: Stand, trick: str) -> None:
    """B26, K1: also beside a prune in the same group."""
    gone, kept, lands = stand.running(), stand.running(), stand.running()
    stand.finish(gone)
    stand.finish(kept)
    facts = "SELECT * FROM laneway_receipts WHERE job_id = ?"
    before = stand.query(facts, kept.job)

    def lander(db: Any, view: Any, rows: Any) -> None:
        db.execute(trick)

    with lander_thread(stand.home, monotonic=standing) as thread:
        with one_group(thread):
            pruned = thread.post(Prune(stand.now + 1, frozenset({State.DONE}), limit=1))
            landed = thread.post(land(lands, 1, [(lands.job, 1, "a")], lander))
        assert pruned.get(timeout=PATIENCE).jobs == 1
        refused = landed.get(timeout=PATIENCE)
    assert "belongs to the store" in str(refused.error.cause)
    assert stand.query(facts, kept.job) == before
    assert len(before) == 1
    assert stand.query(facts, gone.job) == []


def test_a_second_receipt_of_an_attempt_is_ignored(stand: Stand) -> None:
    """B25, U10."""
    claimed = stand.running()
    stand.finish(claimed)

    class Second:
        def apply(self, tx: Transaction) -> None:
            add_receipt(tx, claimed.job, claimed.attempt, Report(outcome=Outcome.DIED), Outcome.DIED)

    stand.write(Second())
    assert [one["outcome"] for one in stand.attempts(claimed.job)] == ["done"]


def test_a_receipt_needs_its_attempt(stand: Stand) -> None:
    """U10."""
    with closing(open_writer(store_path(stand.home))) as db, pytest.raises(sqlite3.IntegrityError):
        db.execute(
            "INSERT INTO laneway_receipts (attempt_id, job_id, outcome, finished_at) VALUES (9, 9, 'x', 1)"
        )
