"""What the death of a supervisor leaves behind, and what the next one makes of it."""

import json

import pytest

from landing.batches import Landed
from landing.finish import Finished
from landing.runs import CloseRun, OpenRun, dead_markers, settle_orphans
from landing.snapshot import snapshot
from landing.transaction import Transaction
from policies.job import MICROS, State
from policies.retry import judge
from policies.transitions import Move
from policies.verdict import Verdict
from tests.landing.stand import DONE, START, Stand


def test_runs_ascend_and_a_clean_end_leaves_nothing_to_recover(stand: Stand) -> None:
    """C91, C98."""
    stand.write(CloseRun(stand.run))
    opened = stand.open_run()
    assert opened.run == stand.run + 1
    assert (opened.recovered, opened.dead, opened.orphans) == (False, (), ())
    assert stand.query("SELECT 1 FROM laneway_events WHERE name = 'recovered'") == []
    assert stand.query("SELECT clean, stopped_at FROM laneway_runs WHERE id = ?", stand.run) == [(1, START)]


def test_the_marker_of_a_run_that_left_processes_behind_is_looked_for_though_it_ended_cleanly(
    stand: Stand,
) -> None:
    """K9."""
    stand.write(CloseRun(stand.run, survived=True))
    (marker,) = stand.query("SELECT marker FROM laneway_runs")[0]
    opened = stand.open_run()
    assert (opened.recovered, opened.dead) == (False, ())
    with snapshot(stand.home) as db:
        assert marker in dead_markers(db)


def test_an_unclean_end_is_seen_and_closed_by_the_next_run(stand: Stand) -> None:
    """U3, K9."""
    stand.tick(60)
    opened = stand.open_run()
    assert opened.recovered
    runs = stand.query("SELECT id, clean, stopped_at FROM laneway_runs ORDER BY id")
    assert runs == [(stand.run, 2, START + 60 * MICROS), (opened.run, 0, None)]
    stand.write(CloseRun(opened.run))
    assert not stand.open_run().recovered


@pytest.mark.parametrize(
    ("start", "batches", "failures"),
    [(False, 0, 0), (True, 0, 1), (True, 2, 0)],
    ids=["never started", "landed nothing", "landed something"],
)
def test_an_orphan_is_queued_again_and_counts_only_if_it_started_and_landed_nothing(
    stand: Stand, start: bool, batches: int, failures: int
) -> None:
    """K9, U5, U3."""
    claimed = stand.running() if start else stand.leased()
    for seq in range(1, batches + 1):
        stand.land(claimed, seq, (claimed.job, seq, "a"))
    stand.tick(1)
    opened = stand.open_run()
    assert opened.orphans == (claimed.job,)
    row = stand.row(claimed.job)
    assert (row["state"], row["reason"], row["failures"], row["wake_at"]) == (
        "queued",
        "orphaned",
        failures,
        None,
    )
    assert (row["fence"], row["waiting_since"], row["landed_seq"]) == (None, START, batches)
    (attempt,) = stand.attempts(claimed.job)
    assert (attempt["outcome"], attempt["error_code"]) == ("interrupted", "orphaned")
    assert attempt["error"]["message"] == f"orphaned by unclean exit of run #{stand.run}"
    assert (attempt["started_at"] is not None) == start
    assert stand.look(run=opened.run).claimed is not None


def test_what_an_earlier_attempt_landed_does_not_excuse_this_one(stand: Stand) -> None:
    """K9: that claim had landed nothing."""
    first = stand.running()
    stand.land(first, 1, (first.job, 1, "a"))
    stand.fail(first, last_seq=1)
    stand.tick(10)
    second = stand.claim()
    stand.start(second)
    stand.open_run()
    assert stand.row(first.job)["failures"] == 2


def test_at_the_cap_the_orphan_fails_and_names_the_run(stand: Stand) -> None:
    """K9, U5, U6."""
    claimed = stand.running("once")
    stand.open_run()
    row = stand.row(claimed.job)
    assert (row["state"], row["failures"]) == ("failed", 1)
    assert row["reason"] == f"orphaned by unclean exit of run #{stand.run}"
    assert row["finished_at"] == stand.now


def test_an_orphan_that_is_not_safe_to_repeat_fails_and_names_the_run(stand: Stand) -> None:
    """U6, K9: unless it never started."""
    claimed, waiting = stand.running("fragile"), stand.leased("fragile")
    stand.open_run()
    assert stand.row(claimed.job)["state"] == "failed"
    assert stand.row(claimed.job)["reason"] == f"orphaned by unclean exit of run #{stand.run}"
    assert stand.row(waiting.job)["state"] == "queued"


def test_a_jobs_own_limits_hold_for_its_orphan_too(stand: Stand) -> None:
    job = stand.enqueue(options={"max_attempts": 1})
    stand.start(stand.claim())
    stand.open_run()
    assert stand.row(job)["state"] == "failed"


@pytest.mark.parametrize("options", ['{"tyre": 1}', "no json", "5", '{"nice": 99}'])
def test_limits_that_nobody_can_read_count_as_the_defaults(stand: Stand, options: str) -> None:
    """K9: a start must not fail over them."""
    claimed = stand.running()

    class Spoil:
        def apply(self, tx: object) -> None:
            tx.run("UPDATE laneway_kinds SET options = ?", (options,))  # type: ignore[attr-defined]

    stand.write(Spoil())
    stand.open_run()
    assert stand.row(claimed.job)["state"] == "queued"


@pytest.mark.parametrize(
    "options",
    ['{"retry_safe": false}', '{"retry_safe": false, "tyre": 1, "nice": 99}'],
    ids=["of an earlier version", "of a later version"],
)
def test_the_limits_of_another_version_hold_as_far_as_they_are_known(stand: Stand, options: str) -> None:
    """K9: what must not run twice does not, because somebody newer has said more."""
    claimed = stand.running()

    class Declared:
        def apply(self, tx: object) -> None:
            tx.run("UPDATE laneway_kinds SET options = ?", (options,))  # type: ignore[attr-defined]

    stand.write(Declared())
    stand.open_run()
    assert stand.row(claimed.job)["state"] == "failed"


def test_a_cancel_that_nobody_carried_out_is_honoured(stand: Stand) -> None:
    """K6, U17."""
    claimed = stand.running()
    stand.cancel(claimed.job, live=True)
    stand.open_run()
    row = stand.row(claimed.job)
    assert (row["state"], row["cancel_requested_at"]) == ("cancelled", None)
    assert [one["outcome"] for one in stand.attempts(claimed.job)] == ["cancelled"]


def test_the_dead_runs_child_can_neither_land_nor_finish(stand: Stand) -> None:
    """K2, U3."""
    claimed = stand.running()
    stand.open_run()
    assert stand.land(claimed, 1, ("x", "y", "z")) is Landed.STALE
    assert stand.finish(claimed, DONE) is Finished.STALE
    assert stand.notes() == []


def test_a_recovery_leaves_one_event_that_says_what_became_of_each_job(stand: Stand) -> None:
    """K9: what a later look can read back."""
    queued, failed, cancelled = stand.running(), stand.running("once"), stand.running("scan")
    stand.cancel(cancelled.job)
    opened = stand.open_run()
    assert (opened.dead, opened.orphans) == ((1,), (queued.job, failed.job, cancelled.job))
    assert opened.now(State.FAILED) == (failed.job,)
    ((run, detail),) = stand.query("SELECT run_id, detail FROM laneway_events WHERE name = 'recovered'")
    assert run == opened.run
    assert json.loads(detail) == {
        "runs": [1],
        "queued": [queued.job],
        "failed": [failed.job],
        "cancelled": [cancelled.job],
    }


def test_processes_that_were_found_are_kept_by_an_event_of_the_run_that_found_them(stand: Stand) -> None:
    """K9."""
    found = {"ended": (5, 6), "survivors": (7,)}
    opened = stand.write(OpenRun(pid=7, boot="", version="", marker="m", judge=judge, leftovers=found))
    ((run, detail),) = stand.query("SELECT run_id, detail FROM laneway_events WHERE name = 'leftovers'")
    assert (run, json.loads(detail)) == (opened.run, {"ended": [5, 6], "survivors": [7]})


def test_markers_are_those_of_runs_that_did_not_end_as_they_should(stand: Stand) -> None:
    """K9: the first was clean, the second is found dead by the third, which is under way."""
    stand.write(CloseRun(stand.run))
    for marker in ("second", "third"):
        stand.write(OpenRun(pid=7, boot="", version="", marker=marker, judge=judge))
    with snapshot(stand.home) as db:
        assert dead_markers(db) == {"second", "third"}


def test_a_hundred_jobs_that_ended_with_their_run_hide_no_ready_one(stand: Stand) -> None:
    """FIELD C15: more urgent, and all of them at their cap."""
    dead = [stand.running("once").job for _ in range(121)]
    ready = stand.enqueue("scan")
    opened = stand.open_run()
    assert opened.now(State.FAILED) == tuple(dead)
    claimed = stand.look(run=opened.run).claimed
    assert claimed is not None
    assert claimed.job == ready


def test_awake_time_before_the_death_still_counts(stand: Stand) -> None:
    """K5."""
    claimed = stand.running()
    stand.finish(claimed, Verdict(Move.RELEASE, "yielded"), awake=30.0)
    again = stand.claim()
    stand.start(again)
    stand.open_run()
    assert stand.row(claimed.job)["awake"] == 30 * MICROS


def test_a_sweep_never_touches_rows_of_its_own_run(stand: Stand) -> None:
    """C90, U3: whatever their lease says."""
    claimed = stand.running()
    stand.tick(3600)

    class Sweep:
        def apply(self, tx: Transaction) -> dict[int, State]:
            return settle_orphans(tx, judge, run=stand.run)

    assert stand.write(Sweep()) == {}
    assert stand.row(claimed.job)["state"] == "running"


def test_a_second_sweep_finds_nothing(stand: Stand) -> None:
    """C91, C90."""
    stand.running()
    opened = stand.open_run()
    claimed = stand.look(run=opened.run).claimed
    assert claimed is not None
    assert stand.open_run().orphans == (claimed.job,)
    assert stand.open_run().orphans == ()
    assert stand.row(claimed.job)["claims"] == 2
