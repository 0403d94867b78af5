"""Landers that misbehave: the batch, the attempt and nothing else pay for it (CONTRACTS K1)."""

import pytest

from landing.errors import StoreError
from landing.jobs import Start
from landing.transaction import Transaction
from tests.supervisor.serving import House


def test_a_lander_that_raises_fails_the_attempt_and_keeps_what_landed_before(house: House) -> None:
    """C125, K1: rolled back, run once more alone, then it counts; later batches are dropped."""
    job, after = house.enqueue("bad_lander"), house.enqueue("quick")
    assert house.serve().ended == "idle"
    rows = house.items(job)
    assert [n for n, _ in rows] == list(range(len(rows)))
    assert len(rows) <= 12
    assert all(text == "lucky" for _, text in rows)
    (attempt,) = house.attempts(job)
    assert (attempt["outcome"], attempt["error_code"]) == ("failed", "lander")
    assert "cannot land this one" in attempt["error"]["message"]
    assert attempt["kill"] is None or attempt["kill"]["stack"] == "", "where the child was says nothing"
    assert house.job(job)["landed_rows"] == len(rows)
    assert house.job(after)["state"] == "done"


def test_a_lander_cannot_commit(house: House) -> None:
    """K1: the facade refuses and nothing of the batch is kept."""
    job = house.enqueue("committing_lander")
    house.serve()
    assert house.items(job) == []
    assert "COMMIT" in house.attempts(job)[0]["error"]["message"]


def test_an_attempt_whose_start_the_store_refuses_is_told_as_that_and_not_as_cancelled(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A24: only a dead fence reads as a cancel."""

    def refuse(self: Start, tx: Transaction) -> bool:
        raise StoreError("jobs", "no room for a start")

    monkeypatch.setattr(Start, "apply", refuse)
    job = house.enqueue("quick")
    assert house.serve().ended == "idle"
    (attempt,) = house.attempts(job)
    assert (attempt["outcome"], attempt["error_code"]) == ("failed", "database_error")
    assert house.job(job)["reason"] == "StoreError: no room for a start"
