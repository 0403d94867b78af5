"""How many jobs a run has brought to their end."""

import pytest

from supervisor.cli.tally import Tally
from tests.cli.test_lines import ended


def counted(*ends: tuple[int, str]) -> str:
    tally = Tally()
    for job, state in ends:
        tally.add(ended(job=job, state=state))
    return str(tally)


def test_jobs_are_counted_not_attempts() -> None:
    """A job that fails, is retried and fails again has failed once."""
    assert counted((1, "failed"), (1, "failed"), (2, "pending"), (2, "failed")) == "0 done, 2 failed"
    assert counted((1, "failed"), (1, "queued")) == "0 done, 0 failed", "it is left, not failed"
    assert counted((1, "failed"), (2, "done"), (1, "done")) == "2 done, 0 failed"
    assert counted((1, "failed"), (1, "cancelled"), (2, "skipped")) == "0 done, 0 failed"


def test_what_may_fail_is_counted_apart() -> None:
    """A31: it holds up nobody."""
    assert counted((1, "failed_optional"), (2, "failed")) == "0 done, 1 failed, 1 failed (optional)"
    assert counted((1, "failed_optional"), (1, "failed")) == "0 done, 1 failed"


def test_a_run_that_lasts_keeps_a_bounded_number_of_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was forgotten counts anew, nothing is lost."""
    monkeypatch.setattr("supervisor.cli.tally.MOST", 2)
    assert counted((1, "failed"), (2, "failed"), (3, "failed"), (3, "failed")) == "0 done, 3 failed"
    assert counted((1, "failed"), (2, "failed"), (3, "failed"), (1, "failed")) == "0 done, 4 failed"
