"""What commands select jobs by, and what they advise by."""

from landing import views
from landing.ledger import Report
from landing.runs import StopAsked
from policies.job import MICROS, Outcome
from policies.transitions import Move
from policies.verdict import Verdict
from tests.landing.stand import START, Stand
from tests.landing.test_views import see


def test_ids_come_oldest_first_a_page_at_a_time(stand: Stand) -> None:
    """C97: what a command selects."""
    for tag in ("red", "blue", "red"):
        stand.enqueue("embed", tag=tag)
    stand.enqueue("scan", tag="red")
    assert see(stand, views.ids, state="queued", limit=3) == [1, 2, 3]
    assert see(stand, views.ids, state="queued", after=3) == [4]
    assert see(stand, views.ids, state="queued", tag="red") == [1, 3, 4]
    assert see(stand, views.ids, state="queued", tag="red", kind="embed", after=1) == [3]
    assert see(stand, views.ids, state="failed") == []


def test_the_last_code_is_that_of_the_last_attempt_that_ended(stand: Stand) -> None:
    for code in ("resume_mismatch", None, "raised"):
        claimed = stand.running()
        report = Report(outcome=Outcome.FAILED, error_code=code)
        stand.finish(claimed, Verdict(Move.RELEASE, "again"), report=report)
        assert see(stand, views.last_code, claimed.job) == code
        stand.claim()
        assert see(stand, views.last_code, claimed.job) == code, "one under way has none"
        stand.cancel(claimed.job, live=False)


def test_a_run_that_was_asked_to_stop_says_since_when(stand: Stand) -> None:
    """Reasons everywhere: why nothing more is claimed."""
    run = see(stand, views.last_run)
    assert see(stand, views.stopping_since, run) is None
    stand.tick(5)
    stand.write(StopAsked(run["id"], "SIGTERM"))
    assert see(stand, views.stopping_since, run) == START + 5 * MICROS
    assert see(stand, views.stopping_since, {**run, "id": run["id"] + 1}) is None
