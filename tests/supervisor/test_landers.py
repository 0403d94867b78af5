"""Landers that misbehave: the batch, the attempt and nothing else pay for it (CONTRACTS K1)."""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from landing.errors import StoreError
from landing.lease import Start
from landing.transaction import Transaction
from supervisor.events import Event, Warned
from supervisor.lock import is_live
from supervisor.run.serve import serve
from tests.supervisor.serving import House, wait_for


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


def test_a_lander_that_does_not_return_is_named(
    house: House, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """K1, C190: everybody waits behind it, and nobody can end it."""
    monkeypatch.setattr("supervisor.run.lookout.LANDER_SECONDS", 0.2)
    job = house.enqueue("waiting_lander", {"until": str(tmp_path / "until")})

    def report(event: Event) -> None:
        house.events.append(event)
        if isinstance(event, Warned):
            (tmp_path / "until").touch()

    assert serve(house.application, house.settings, until_idle=True, report=report).ended == "idle"
    text = f"the lander of job #{job} has not returned for 0.2 s; nothing lands or starts until it does"
    assert [(one.code, one.text) for one in house.of(Warned)] == [("lander_slow", text)]
    assert house.job(job)["state"] == "done"


@contextmanager
def alone(house: House, *flags: str) -> Iterator[subprocess.Popen[str]]:
    """Start a supervisor whose landers may fork; nothing of its session outlives the test."""
    process = house.start(*flags)
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def test_a_copy_that_a_lander_forks_dies_of_the_signals_that_stop_a_run(house: House) -> None:
    """K1: a pool of processes in a lander ends its workers with SIGTERM, and waits for them."""
    job = house.enqueue("forking_lander")
    with alone(house, "--until-idle") as process:
        assert process.wait(30) == 0
    assert [n for n, _ in house.items(job)] == [0, 1, 2]


def test_a_run_whose_lander_does_not_come_back_ends_with_its_process(house: House, tmp_path: Path) -> None:
    """K11: nothing that the lander has started is waited for, and the store is free."""
    mark = tmp_path / "stuck"
    house.enqueue("forking_lander", {"stuck": str(mark)})
    with alone(house) as process:
        wait_for(mark.exists)
        process.send_signal(signal.SIGTERM)
        assert process.stdout is not None
        wait_for(lambda: "stopping" in process.stdout.readline())  # type: ignore[union-attr]
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 130
    assert not is_live(house.home)
    house.enqueue("quick")
