"""Attempts and receipts are facts: nobody rewrites them, not even by REPLACE."""

import sqlite3
from contextlib import closing

import pytest

from landing.connect import open_writer, store_path
from landing.ledger import Report, add_receipt
from landing.transaction import Transaction
from policies.job import Outcome
from tests.landing.stand import Stand

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
