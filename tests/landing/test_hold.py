"""Holding a job or a kind, and parking what has no room: what waits says so, and goes on where it was."""

import pytest

from landing.claim import Revive
from landing.clock import ShiftWaits
from landing.errors import InvalidTransition, JobNotFound
from landing.hold import Changed, Hold, HoldKind, Unhold, UnholdKind
from policies.admission import Admission
from policies.gates.vocabulary import Gate, Limits
from policies.job import MICROS, State
from policies.transitions import Move
from policies.verdict import Verdict
from tests.landing.stand import KINDS, START, Stand

ADMIT = Admission(kinds=KINDS, tiers={}, limits=Limits())
MINUTE = 60 * MICROS
CEILING = Verdict(Move.DEFER, "ceiling: 30.0 GB of 24.0", START + MINUTE)


def test_a_held_job_is_passed_over_until_it_is_let_go(stand: Stand) -> None:
    """U27, K14."""
    held, other = stand.enqueue(), stand.enqueue()
    assert stand.write(Hold(held)) == Changed(held, State.PENDING, changed=True)
    assert stand.claim().job == other
    assert stand.look().claimed is None
    assert stand.row(held)["reason"] == "held"
    assert stand.write(Unhold(held)) == Changed(held, State.QUEUED, changed=True)
    assert stand.claim().job == held
    assert stand.events(held) == ["held_job", "unheld_job"]


def test_holding_twice_and_letting_go_what_is_not_held_change_nothing(stand: Stand) -> None:
    """U1."""
    job = stand.enqueue()
    assert stand.write(Unhold(job)) == Changed(job, State.QUEUED, changed=False)
    stand.write(Hold(job))
    assert stand.write(Hold(job)) == Changed(job, State.PENDING, changed=False)
    assert stand.events(job) == ["held_job"]


def test_what_is_left_of_a_backoff_is_kept_while_it_is_held(stand: Stand) -> None:
    """U8, U27."""
    claimed = stand.running()
    stand.finish(claimed, Verdict(Move.BACK_OFF, "backoff", START + MINUTE, counts=True))
    stand.write(Hold(claimed.job))
    stand.tick(20)
    stand.write(Unhold(claimed.job))
    row = stand.row(claimed.job)
    assert (row["state"], row["reason"], row["wake_at"]) == (State.PENDING, "backoff", START + MINUTE)
    stand.write(Hold(claimed.job))
    stand.tick(40)
    assert stand.look().claimed is None  # held is held, also when the backoff is over
    assert stand.write(Unhold(claimed.job)).state == State.QUEUED
    assert stand.claim().job == claimed.job


def test_what_is_left_of_a_backoff_moves_with_the_clock_while_it_is_held(stand: Stand) -> None:
    """U8, K10: the clock is set an hour back, and the backoff is no longer for it."""
    claimed = stand.running()
    stand.finish(claimed, Verdict(Move.BACK_OFF, "backoff", START + MINUTE, counts=True))
    stand.write(Hold(claimed.job))
    stand.tick(10 - 3600)
    assert stand.write(ShiftWaits(stand.run, -60 * MINUTE, stand.now - MICROS)) == 1
    stand.write(Unhold(claimed.job))
    assert stand.row(claimed.job)["wake_at"] == START - 59 * MINUTE


def test_a_held_job_keeps_its_place_in_line(stand: Stand) -> None:
    """U16: it waits since it was enqueued."""
    held = stand.enqueue()
    stand.write(Hold(held))
    stand.tick(100)
    stand.enqueue()
    stand.write(Unhold(held))
    assert stand.claim().job == held


@pytest.mark.parametrize("state", [State.LEASED, State.DONE])
def test_what_does_not_wait_cannot_be_held(stand: Stand, state: str) -> None:
    """U1: one typed error, nothing written."""
    claimed = stand.running() if state == State.DONE else stand.leased()
    if state == State.DONE:
        stand.finish(claimed)
    before = stand.row(claimed.job)
    with pytest.raises(InvalidTransition, match=f"is {state} and cannot be held"):
        stand.write(Hold(claimed.job))
    assert stand.row(claimed.job) == before
    assert stand.events(claimed.job) == []


@pytest.mark.parametrize("operation", [Hold, Unhold])
@pytest.mark.parametrize("id", [99, 0, -1, 2**80])
def test_an_id_that_nobody_has_is_not_found(stand: Stand, operation: type[Hold], id: int) -> None:
    """C95."""
    with pytest.raises(JobNotFound):
        stand.write(operation(id))


def test_a_held_kind_blocks_its_rows_also_later_ones_and_no_other(stand: Stand) -> None:
    """U27, K14: they stay queued."""
    assert stand.write(HoldKind("embed", "disk swap")) is True
    first, late = stand.enqueue(), stand.enqueue()
    scan = stand.enqueue("scan")
    reply = stand.look(admit=ADMIT)
    assert reply.claimed is not None
    assert reply.claimed.job == scan
    assert [(one.gate, one.text) for one in reply.blocked["embed"]] == [(Gate.HELD, "held: disk swap")]
    assert reply.held == {"embed": "disk swap"}
    assert {stand.row(job)["state"] for job in (first, late)} == {State.QUEUED}
    assert stand.write(HoldKind("embed", "still")) is False
    assert stand.look(admit=ADMIT).held == {"embed": "still"}
    assert (stand.write(UnholdKind("embed")), stand.write(UnholdKind("embed"))) == (True, False)
    reply = stand.look(admit=ADMIT)
    assert reply.claimed is not None
    assert reply.claimed.job == first


def test_a_deferral_counts_nothing_but_itself_and_keeps_the_place_in_line(stand: Stand) -> None:
    """C87, C137, U5, U16, U29."""
    claimed = stand.leased()
    stand.tick(5)
    stand.finish(claimed, CEILING)
    row = stand.row(claimed.job)
    assert (row["state"], row["reason"], row["watch"]) == (State.DEFERRED, CEILING.reason, "deferred")
    assert (row["deferrals"], row["failures"], row["waiting_since"]) == (1, 0, START)
    assert (row["fence"], row["lease_expires_at"]) == (None, None)
    assert stand.look().claimed is None


def test_deferred_jobs_come_back_after_their_time_or_all_at_once(stand: Stand) -> None:
    """C87, U29."""
    jobs = [stand.enqueue() for _ in range(3)]
    for _ in jobs:
        stand.finish(stand.claim(), CEILING)
    assert stand.look().next_wake == START + MINUTE
    assert stand.write(Revive()) == 3
    assert stand.write(Revive()) == 0
    rows = [stand.row(job) for job in jobs]
    assert {(row["state"], row["reason"], row["watch"], row["wake_at"]) for row in rows} == {
        (State.QUEUED, None, None, None)
    }
    stand.finish(stand.claim(), CEILING)
    stand.finish(stand.claim())
    stand.finish(stand.claim())
    stand.tick(60)
    claimed = stand.claim()
    assert (claimed.job, claimed.number, claimed.failures) == (jobs[0], 3, 0)
    assert stand.row(jobs[0])["deferrals"] == 2


def test_until_idle_does_not_wait_for_what_is_deferred(stand: Stand) -> None:
    """K14: only for backoff."""
    stand.finish(stand.leased(), CEILING)
    reply = stand.look()
    assert (reply.next_wake, reply.next_try) == (START + MINUTE, None)
    claimed = stand.running()
    stand.finish(claimed, Verdict(Move.BACK_OFF, "backoff", START + 2 * MINUTE, counts=True))
    assert stand.look().next_try == START + 2 * MINUTE
