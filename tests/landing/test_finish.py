"""The one end of an attempt."""

from dataclasses import replace

import pytest

from landing.finish import Finished
from landing.ledger import Report
from policies.job import MICROS, Disposition, Outcome
from policies.transitions import Move
from policies.verdict import Verdict
from tests.landing.stand import DONE, START, Stand, finish

ENDS = {
    Move.COMPLETE: "done",
    Move.FAIL: "failed",
    Move.FAIL_OPTIONAL: "failed_optional",
    Move.BACK_OFF: "pending",
    Move.RELEASE: "queued",
    Move.DEFER: "deferred",
    Move.CANCEL: "cancelled",
}


def test_done_keeps_result_receipt_and_events(stand: Stand) -> None:
    """C86, U10, K15."""
    claimed = stand.running()
    stand.land(claimed, 1, (claimed.job, 1, "a"))
    stand.tick(3)
    report = Report(
        outcome=Outcome.DONE,
        exit={"code": 0, "signal": None},
        spent=9,
        log="hello\x00\udcff",
        kill={"took_ms": 1},
        world={"spawn": "cold", "shield": None, "limits": {"cpu_limit": 1.5}},
    )
    events = (("noted", {"why": "\ud800"}), ("again", {}))
    assert stand.finish(claimed, DONE, 1, result='{"n":1}', report=report, events=events) is Finished.HELD
    row = stand.row(claimed.job)
    assert (row["state"], row["reason"], row["finished_at"]) == ("done", "done", START + 3 * MICROS)
    assert (row["fence"], row["run_id"], row["lease_expires_at"]) == (None, None, None)
    assert stand.query("SELECT body FROM laneway_results WHERE job_id = ?", claimed.job) == [('{"n":1}',)]
    (attempt,) = stand.attempts(claimed.job)
    assert (attempt["outcome"], attempt["started_at"], attempt["finished_at"]) == (
        "done",
        START,
        START + 3 * MICROS,
    )
    assert (attempt["exit"], attempt["kill"], attempt["error"]) == (
        {"code": 0, "signal": None},
        {"took_ms": 1},
        None,
    )
    assert attempt["world"] == {"spawn": "cold", "shield": None, "limits": {"cpu_limit": 1.5}}
    assert (attempt["spent"], attempt["log"]) == (9, r"hello\x00\udcff")
    assert stand.events(claimed.job) == ["noted", "again"]


@pytest.mark.parametrize("move", ENDS)
def test_a_job_that_ended_with_survivors_says_so_in_its_reason(stand: Stand, move: Move) -> None:
    """FIELD A7: what waits or runs again has a reason of its own."""
    claimed = stand.running()
    report = Report(outcome=Outcome.TIMED_OUT, kill={"survivors": [4711, 4712]})
    stand.finish(claimed, Verdict(move, "why"), report=report)
    row = stand.row(claimed.job)
    ended = row["finished_at"] is not None
    assert row["reason"] == ("why, survivors: pid 4711, pid 4712" if ended else "why")


@pytest.mark.parametrize("move", ENDS)
def test_every_way_out_of_flight_ends_where_the_table_says(stand: Stand, move: Move) -> None:
    """U1, C86, A35: and only an end stamps finished_at."""
    claimed = stand.running()
    assert stand.finish(claimed, Verdict(move, "why")) is Finished.HELD
    row = stand.row(claimed.job)
    assert (row["state"], row["reason"]) == (ENDS[move], "why")
    assert (row["finished_at"] is not None) == (
        ENDS[move] in {"done", "failed", "failed_optional", "cancelled"}
    )
    assert len(stand.attempts(claimed.job)) == 1


def test_a_job_that_never_started_cannot_be_done(stand: Stand) -> None:
    """U1: leased is not running."""
    claimed = stand.leased()
    assert stand.finish(claimed) is Finished.STALE
    assert stand.row(claimed.job)["state"] == "leased"
    assert stand.finish(claimed, Verdict(Move.RELEASE, "interrupted")) is Finished.HELD


@pytest.mark.parametrize(("fence", "last_seq"), [("wrong", 1), (None, 0), (None, 2)])
def test_a_finish_that_compares_wrong_sets_nothing(stand: Stand, fence: str | None, last_seq: int) -> None:
    """K2, A24, U9."""
    claimed = stand.running()
    stand.land(claimed, 1, (claimed.job, 1, "a"))
    before = stand.row(claimed.job)
    stranger = replace(claimed, fence=fence or claimed.fence)
    assert stand.finish(stranger, DONE, last_seq, result="1") is Finished.STALE
    assert stand.row(claimed.job) == before
    assert stand.query("SELECT * FROM laneway_receipts") == stand.query("SELECT * FROM laneway_results") == []
    assert stand.finish(claimed, DONE, 1) is Finished.HELD


def test_a_second_finish_is_stale_and_leaves_one_receipt(stand: Stand) -> None:
    """B25, U10."""
    claimed = stand.running()
    stand.finish(claimed)
    again = finish(claimed, Verdict(Move.FAIL, "late"), report=Report(outcome=Outcome.DIED))
    assert stand.write(again) is Finished.STALE
    assert stand.row(claimed.job)["state"] == "done"
    assert [one["outcome"] for one in stand.attempts(claimed.job)] == ["done"]


def test_a_retry_waits_with_its_watch_counts_and_starts_the_job_clock_anew(stand: Stand) -> None:
    """U5, U8, K5, K14."""
    claimed = stand.running()
    verdict = Verdict(Move.BACK_OFF, "backoff", wake_at=stand.now + 7, counts=True)
    stand.finish(claimed, verdict, awake=12.5)
    row = stand.row(claimed.job)
    assert (row["state"], row["watch"], row["wake_at"]) == ("pending", "backoff", stand.now + 7)
    assert (row["failures"], row["claims"], row["awake"]) == (1, 1, 0)


def test_a_yield_keeps_the_job_clock_and_goes_to_the_end_of_its_band(stand: Stand) -> None:
    """U16, K5, U5."""
    claimed = stand.running()
    stand.tick(5)
    other = stand.enqueue()
    stand.tick(5)
    stand.finish(claimed, Verdict(Move.RELEASE, "yielded"), awake=10.0)
    row = stand.row(claimed.job)
    assert (row["awake"], row["failures"]) == (10 * MICROS, 0)
    assert (row["created_at"], row["waiting_since"]) == (START, START + 10 * MICROS)
    assert [stand.claim().job, stand.claim().job] == [other, claimed.job]


def test_anything_else_keeps_its_place_in_line(stand: Stand) -> None:
    """U16."""
    claimed = stand.running()
    stand.tick(5)
    stand.enqueue()
    stand.finish(claimed, Verdict(Move.RELEASE, "interrupted"))
    assert stand.row(claimed.job)["waiting_since"] == START
    assert stand.claim().job == claimed.job


def test_the_next_attempt_knows_the_awake_time_and_has_its_own_start(stand: Stand) -> None:
    """K5, C83."""
    claimed = stand.running()
    stand.finish(claimed, Verdict(Move.RELEASE, "yielded"), awake=1.5)
    again = stand.claim()
    assert (again.awake, again.number) == (1.5, 2)
    assert stand.row(again.job)["started_at"] is None


def test_only_done_keeps_a_result(stand: Stand) -> None:
    """C86."""
    claimed = stand.running()
    stand.finish(claimed, Verdict(Move.FAIL, "failed"), result="1")
    assert stand.query("SELECT * FROM laneway_results") == []


@pytest.mark.parametrize("text", ["\ud800", "a\0b", "\udcff\0\x1b"])
def test_no_text_from_outside_can_make_a_receipt_fail(stand: Stand, text: str) -> None:
    """U10: whatever it holds, it is stored as escapes."""
    claimed = stand.running()
    report = Report(
        outcome=Outcome.FAILED,
        error_code=text,
        error={"message": text, text: object()},
        exit={1: 2, (): 3},  # type: ignore[dict-item]
        log=text,
    )
    verdict = Verdict(Move.FAIL, text)
    assert stand.finish(claimed, verdict, report=report, events=((text, {"x": text}),)) is Finished.HELD
    (attempt,) = stand.attempts(claimed.job)
    stored = [
        stand.row(claimed.job)["reason"],
        attempt["error_code"],
        attempt["log"],
        *stand.events(claimed.job),
    ]
    assert len(set(stored)) == 1
    assert stored[0].isascii()
    assert "\0" not in stored[0]
    assert attempt["error"]["message"] == text


@pytest.mark.parametrize("cancelled", [True, False])
def test_what_came_after_the_verdict_is_counted_with_the_receipt(stand: Stand, cancelled: bool) -> None:
    """U9: batches that the supervisor dropped, once, where the attempt ended."""
    claimed, counted = stand.running(), "SELECT stale FROM laneway_runs"
    assert stand.finish(replace(claimed, fence="wrong"), stale=5) is Finished.STALE
    assert stand.query(counted) == [(0,)]
    if cancelled:
        stand.cancel(claimed.job)
    stand.finish(claimed, Verdict(Move.FAIL, "timed_out"), stale=3)
    assert stand.query(counted) == [(3,)]
    assert stand.row(claimed.job)["landed_seq"] == 0


def test_a_late_end_of_an_earlier_attempt_leaves_the_retry_its_result(stand: Stand) -> None:
    """A29, A30, U9: refused; each attempt keeps its one receipt."""
    old = stand.running()
    stand.fail(old)
    stand.tick(10)
    new = stand.claim()
    stand.start(new)
    assert stand.finish(old, result='"old"') is Finished.STALE
    stand.finish(new, result='"new"')
    assert stand.finish(old, result='"old"') is Finished.STALE
    assert stand.query("SELECT body FROM laneway_results") == [('"new"',)]
    assert [one["outcome"] for one in stand.attempts(old.job)] == ["died", "done"]


def test_an_optional_failure_is_an_end_that_can_be_left(stand: Stand) -> None:
    """A31, A35, U1: another process sees it as it was written."""
    claimed = stand.running()
    stand.fail(claimed, Outcome.FAILED, disposition=Disposition.OPTIONAL)
    row = Stand(stand.home).row(claimed.job)
    assert (row["state"], row["failures"], row["finished_at"]) == ("failed_optional", 1, stand.now)
    assert stand.look().claimed is None
    assert stand.cancel(claimed.job).state == "cancelled"
