"""A job goes on where its dead attempt was, or starts over, with every row exactly once (CONTRACTS K4)."""

import signal
import threading
from pathlib import Path
from typing import Any

import pytest

from landing.batches import Land, Landed
from landing.cancel import Cancel
from landing.retry import DiscardMissing, Retry
from policies.retry import judge
from supervisor import events
from tests.supervisor.serving import House, kill_session, wait_for

LANES = str(Path(__file__).with_name("resume_lanes.py"))


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path, app=LANES)


def row_numbers(house: House, job: int) -> list[int]:
    return [n for n, _ in house.items(job)]


def stale(house: House) -> int:
    return sum(row[0] for row in house.query("SELECT stale FROM laneway_runs"))


def owed(house: House, job: int) -> int:
    return int(house.query("SELECT discards FROM laneway_jobs WHERE id = ?", job)[0][0])


@pytest.mark.parametrize("seed", range(3))
def test_every_row_lands_once_wherever_its_child_dies(house: House, seed: int) -> None:
    """K4, K2, A27, A30, C88: all three ways to resume, SIGKILL at random moments."""
    kills, rows = 4, 400
    payload = {"seed": seed, "kills": kills, "rows": rows}
    jobs = [house.enqueue(kind, payload) for kind in ("replay", "checkpoint", "restart")]
    assert house.serve().ended == "idle"
    for job in jobs:
        attempts = house.attempts(job)
        assert [one["outcome"] for one in attempts] == ["died"] * (len(attempts) - 1) + ["done"]
        assert [one["number"] for one in attempts] == list(range(1, len(attempts) + 1))
        assert row_numbers(house, job) == list(range(rows))
        row = house.job(job)
        assert (row["state"], row["landed_rows"], row["failures"]) == ("done", rows, len(attempts) - 1)
    assert sum(len(house.attempts(job)) for job in jobs) > len(jobs), "nobody died"
    restarted = house.query("SELECT DISTINCT attempt FROM items WHERE job = ?", jobs[2])
    assert restarted == [(len(house.attempts(jobs[2])),)], (
        "of a restart lane only the last attempt's rows stay"
    )


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ("other", "is not the 5 rows that landed"),
        ("fewer", "the end came 3 rows after the start, 5 have landed"),
    ],
)
def test_a_replay_that_goes_another_way_ends_its_job_with_the_remedy(
    house: House, how: str, says: str
) -> None:
    """K4: resume_mismatch, terminal; nothing of the second attempt lands."""
    job = house.enqueue("fickle", {"how": how})
    house.serve()
    first, second = house.attempts(job)
    assert (first["outcome"], second["outcome"], second["error_code"]) == (
        "died",
        "failed",
        "resume_mismatch",
    )
    assert says in second["error"]["message"]
    assert f"laneway retry {job} --from-start" in second["error"]["message"]
    assert house.job(job)["state"] == "failed"
    assert {text.split()[0] for _, text in house.items(job)} == {"first"}


def test_a_unit_of_too_many_rows_ends_its_job_and_nothing_of_it_lands(house: House) -> None:
    """K4: unit_too_large, terminal."""
    job = house.enqueue("vast")
    house.serve()
    (attempt,) = house.attempts(job)
    assert (attempt["outcome"], attempt["error_code"]) == ("failed", "unit_too_large")
    assert row_numbers(house, job) == [0]


def test_a_batch_with_more_rows_than_a_unit_may_have_is_refused_before_it_is_decoded(house: House) -> None:
    """K3: by a worker that is not to be trusted."""
    job = house.enqueue("vast", {"forged": True})
    house.serve()
    (attempt,) = house.attempts(job)
    assert (attempt["outcome"], attempt["error_code"]) == ("failed", "rows")
    assert "rows in a batch" in attempt["error"]["message"]
    assert row_numbers(house, job) == [0]


@pytest.mark.parametrize("kind", ["replay", "checkpoint"])
def test_a_clean_stop_gives_the_job_back_and_the_next_start_is_no_recovery(house: House, kind: str) -> None:
    """U42, U5, C88, C91, C94, A35: yielded after the last batch, no failure counted."""
    job = house.enqueue(kind, {"seed": 0, "kills": 0, "rows": 2000})
    process = house.start()
    try:
        wait_for(lambda: house.job(job)["landed_rows"] > 50)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)
    finally:
        kill_session(process)
    row = house.job(job)
    assert 0 < row["landed_rows"] < 2000
    assert (row["state"], row["failures"], row["run_id"], row["lease_expires_at"]) == (
        "queued",
        0,
        None,
        None,
    )
    assert house.attempts(job)[0]["outcome"] == "yielded"
    house.serve()
    assert row_numbers(house, job) == list(range(2000))
    assert [one["outcome"] for one in house.attempts(job)] == ["yielded", "done"]
    assert house.job(job)["failures"] == 0
    assert house.query("SELECT recovered FROM laneway_runs ORDER BY id") == [(0,), (0,)]
    assert house.of(events.RunStarted)[0].recovered == ()


def test_a_retry_goes_on_after_what_has_landed(house: House) -> None:
    """A33, K4."""
    job = house.enqueue("half_way")
    house.serve()
    assert (house.job(job)["state"], row_numbers(house, job)) == ("failed", [0, 1, 2, 3, 4])
    house.store.write(Retry(job))
    house.serve()
    assert house.job(job)["state"] == "done"
    assert row_numbers(house, job) == list(range(10))
    assert house.query("SELECT attempt, COUNT(*) FROM items GROUP BY attempt") == [(1, 5), (2, 5)]


def test_a_retry_from_the_start_replaces_what_had_landed(house: House) -> None:
    """K4."""
    job = house.enqueue("half_way")
    house.serve()
    house.store.write(Retry(job, from_start=True))
    assert len(row_numbers(house, job)) == 5, "until the next attempt lands a row"
    house.serve()
    assert row_numbers(house, job) == list(range(10))
    assert house.query("SELECT DISTINCT attempt FROM items") == [(2,)]
    assert (house.job(job)["state"], house.job(job)["landed_rows"]) == ("done", 10)


def test_without_a_discard_rows_are_kept_only_by_somebodys_word(house: House) -> None:
    """K4."""
    job = house.enqueue("keeper")
    house.serve()
    with pytest.raises(DiscardMissing):
        house.store.write(Retry(job, from_start=True))
    house.store.write(Retry(job, from_start=True, keep_rows=True))
    house.serve()
    assert sorted(row_numbers(house, job)) == sorted([*range(5), *range(10)])


@pytest.mark.parametrize("again", [0, 3])
def test_a_restart_lane_keeps_only_what_its_last_attempt_landed(house: House, again: int) -> None:
    """K4: in its first landing, or in its finish when it landed nothing."""
    job = house.enqueue("flighty", {"again": again})
    house.serve()
    assert [one["outcome"] for one in house.attempts(job)] == ["died", "done"]
    assert house.items(job) == [(n, "new") for n in range(again)]
    assert (house.job(job)["state"], house.job(job)["landed_rows"]) == ("done", again)


@pytest.mark.parametrize("then", [0, 3])
def test_rows_stay_through_attempts_that_only_say_how_far_they_are(house: House, then: int) -> None:
    """K4, K3: a mark alone replaces nothing, a done job has replaced all."""
    job = house.enqueue("hesitant", {"then": then})
    assert house.serve().ended == "idle"
    assert [one["outcome"] for one in house.attempts(job)] == ["died", "died", "done"]
    assert house.items(job) == [(n, "new") for n in range(then)]
    assert (house.job(job)["landed_rows"], owed(house, job)) == (then, 0)


@pytest.mark.parametrize(("then", "state"), [("skip", "done"), ("fail", "failed")])
def test_an_attempt_that_lands_nothing_new_and_is_not_done_leaves_the_old_rows(
    house: House, then: str, state: str
) -> None:
    """K4, K15: also one that says there is nothing to do, which ends the job as done."""
    job = house.enqueue("hesitant", {"then": then})
    house.serve()
    assert (house.job(job)["state"], house.job(job)["mark"]) == (state, "has read its input")
    assert len(house.attempts(job)) == 3
    assert house.items(job) == [(n, "old") for n in range(5)]
    assert (house.job(job)["landed_rows"], owed(house, job)) == (5, 1)


def test_a_stop_before_the_first_row_leaves_the_old_rows(house: House) -> None:
    """K4, U42: the mark that it leaves with replaces nothing either."""
    job = house.enqueue("hesitant", {"then": "wait"})
    process = house.start()
    try:
        wait_for(lambda: house.job(job)["mark"] == "is fitting")
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)
    finally:
        kill_session(process)
    assert house.attempts(job)[-1]["outcome"] == "yielded"
    assert house.items(job) == [(n, "old") for n in range(5)]
    assert (house.job(job)["landed_rows"], owed(house, job)) == (5, 1)


@pytest.mark.parametrize("again", [0, 3])
def test_a_discard_that_raises_fails_the_attempt_as_a_lander_would(house: House, again: int) -> None:
    """K4, K1: in the first landing, and in the finish of a job that had said Done."""
    job = house.enqueue("flighty", {"again": again, "discard": "raises"})
    house.serve()
    died, failed = house.attempts(job)
    assert (died["outcome"], failed["outcome"], failed["error_code"]) == ("died", "failed", "discard")
    assert failed["error"]["message"] == "the discard raised: cannot forget"
    assert house.job(job)["state"] == "failed"
    assert house.items(job) == [(n, "old") for n in range(5)], "what was there is still there"


def test_an_optional_failure_is_told_as_one(house: House) -> None:
    """A31, U1, U6, U7: with what it had spent."""
    job = house.enqueue("optional")
    house.serve()
    row = house.job(job)
    assert (row["state"], row["reason"], row["failures"]) == ("failed_optional", "Fail: no such page", 1)
    (ended,) = house.of(events.AttemptEnded)
    assert (ended.outcome, ended.state) == ("failed", "failed_optional")
    assert house.items(job) == [(0, "before")]
    assert house.attempts(job)[0]["spent"] == 7
    house.store.write(Retry(job))
    assert house.job(job)["state"] == "queued"


def replayed(house: House, job: int, fence: str, seq: int) -> Land:
    """A batch under an old fence."""

    def never(*_: Any) -> None:
        raise AssertionError

    point = {"mark": "forged", "skip": 0, "digest": b""}
    facts = {"done": 1, "total": 1, "spent": 1, "rows": never, "land": never, "view": None}
    return Land(job=job, run=1, fence=fence, seq=seq, count=1, point=point, **facts)  # type: ignore[arg-type]


def test_what_a_stopped_child_sends_after_its_deadline_changes_nothing(house: House) -> None:
    """U9, K2, K5, A29: dead by deadline + grace, its late batches stale and counted, as is a replayed one."""
    job = house.enqueue("late", {"stops": True}, batch_deadline=0.4)
    house.serve()
    (attempt,) = house.attempts(job)
    assert (attempt["outcome"], attempt["kill"]["rung"]) == ("timed_out", "kill")
    assert attempt["kill"]["late_ms"] < 2000
    assert attempt["kill"]["survivors"] == []
    assert house.items(job) == [(0, "in time")]
    late = stale(house)
    assert late > 0
    (told,) = house.of(events.StaleBatch)
    assert (told.job, told.seq) == (job, 2)
    before = house.job(job)
    ((fence,),) = house.query("SELECT fence FROM laneway_attempts WHERE job_id = ?", job)
    for seq in (1, 2, 3):
        assert house.store.write(replayed(house, job, fence, seq)) is Landed.STALE
    assert stale(house) == late + 3
    assert house.job(job) == before
    assert house.items(job) == [(0, "in time")]


def test_what_a_cancelled_child_sends_changes_nothing(house: House) -> None:
    """U17, U9, A32: at once by its dead fence, later because nobody listens any more."""
    job = house.enqueue("late")
    landed_at_cancel = []

    def cancel() -> None:
        wait_for(lambda: house.job(job)["landed_rows"] > 3)
        house.store.write(Cancel(job, "f" * 32, live=True, judge=judge))
        landed_at_cancel.append(house.job(job)["landed_rows"])

    thread = threading.Thread(target=cancel)
    thread.start()
    house.serve()
    thread.join()
    (attempt,) = house.attempts(job)
    assert (house.job(job)["state"], attempt["outcome"]) == ("cancelled", "cancelled")
    assert [len(house.items(job))] == landed_at_cancel
    assert stale(house) > 1
