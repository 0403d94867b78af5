"""A batch lands whole, in order, by the living attempt; or nothing of it does."""

from dataclasses import replace
from typing import Any

import pytest

from landing.batches import Landed, LanderRaised, RowsRefused
from landing.claim import Claimed
from landing.transaction import Facade
from policies.job import MICROS
from tests.landing.stand import START, Stand, keep_notes, land

POINT = {"mark": "half", "skip": 3, "digest": b"\x01"}


def test_a_batch_writes_rows_resume_point_counters_and_lease_together(stand: Stand) -> None:
    """K1, K2, K4, C152."""
    claimed = stand.running()
    stand.tick(50)
    rows = [(claimed.job, 1, "a"), (claimed.job, 1, "b")]
    assert stand.land(claimed, 1, *rows, point=POINT, done=2, total=9, spent=7) is Landed.LANDED
    assert stand.notes() == rows
    row = stand.row(claimed.job)
    assert (row["landed_seq"], row["landed_rows"], row["done"], row["total"], row["spent"]) == (1, 2, 2, 9, 7)
    assert (row["mark"], row["skip"], row["digest"]) == ("half", 3, b"\x01")
    assert row["lease_expires_at"] == START + 110 * MICROS
    assert row["fence"] == claimed.fence


def test_progress_that_is_not_told_again_stays(stand: Stand) -> None:
    claimed = stand.running()
    stand.land(claimed, 1, (claimed.job, 1, "a"), done=5, total=10)
    stand.land(claimed, 2, (claimed.job, 2, "b"))
    assert (stand.row(claimed.job)["done"], stand.row(claimed.job)["total"]) == (5, 10)
    assert stand.row(claimed.job)["landed_rows"] == 2


def test_an_empty_batch_moves_the_resume_point_and_calls_no_lander(stand: Stand) -> None:
    """K3: a checkpoint with nothing buffered."""
    claimed = stand.running()

    def never(*_: object) -> None:
        raise AssertionError

    assert stand.land(claimed, 1, lander=never, point=POINT) is Landed.LANDED
    assert (stand.row(claimed.job)["landed_seq"], stand.row(claimed.job)["mark"]) == (1, "half")


def stale(stand: Stand) -> int:
    """How many batches of the run came too late."""
    return int(stand.query("SELECT stale FROM laneway_runs WHERE id = ?", stand.run)[0][0])


def unchanged_by(stand: Stand, claimed: Claimed, seq: int, fence: str | None = None) -> None:
    """Land a batch that must be stale: it touches nothing, calls nobody and is counted."""
    before, called, counted = stand.row(claimed.job), [], stale(stand)
    answer = stand.land(
        replace(claimed, fence=fence or claimed.fence),
        seq,
        ("x", "y", "z"),
        lander=lambda *_: called.append(1),
    )
    assert answer is Landed.STALE
    assert stand.row(claimed.job) == before
    assert called == []
    assert stale(stand) == counted + 1


@pytest.mark.parametrize("seq", [-1, 0, 1, 3, 99])
def test_a_batch_out_of_order_is_stale_and_changes_nothing(stand: Stand, seq: int) -> None:
    """K2, U9."""
    claimed = stand.running()
    stand.land(claimed, 1, (claimed.job, 1, "a"))
    unchanged_by(stand, claimed, seq)
    assert stand.land(claimed, 2, (claimed.job, 2, "b")) is Landed.LANDED


def test_a_batch_under_a_wrong_fence_is_stale(stand: Stand) -> None:
    """K2, A24, U9."""
    unchanged_by(stand, stand.running(), 1, fence="wrong")


def test_a_batch_before_start_is_stale(stand: Stand) -> None:
    """U1."""
    unchanged_by(stand, stand.leased(), 1)


def test_a_batch_after_the_end_is_stale(stand: Stand) -> None:
    """K2, U9."""
    claimed = stand.running()
    stand.finish(claimed)
    unchanged_by(stand, claimed, 1)


def test_a_batch_of_an_earlier_attempt_is_stale_while_a_new_one_runs(stand: Stand) -> None:
    """K2, U9: never overwritten by a late attempt."""
    old = stand.running()
    stand.fail(old)
    stand.tick(10)
    new = stand.claim()
    stand.start(new)
    unchanged_by(stand, old, 1)
    assert stand.land(new, 1, (new.job, 1, "new")) is Landed.LANDED


def test_the_sequence_goes_on_over_attempts(stand: Stand) -> None:
    """K2: landed_seq belongs to the job, and no claim resets it."""
    old = stand.running()
    stand.land(old, 1, (old.job, 1, "a"), point=POINT)
    stand.fail(old, last_seq=1)
    stand.tick(10)
    new = stand.claim()
    stand.start(new)
    assert (new.landed_seq, new.mark, new.skip, new.digest) == (1, "half", 3, b"\x01")
    unchanged_by(stand, new, 1)
    assert stand.land(new, 2, (new.job, 2, "b")) is Landed.LANDED


def test_an_expired_lease_alone_kills_no_fence(stand: Stand) -> None:
    """K2, U3: under the lock the token is the fence."""
    claimed = stand.running()
    stand.tick(3600)
    assert stand.land(claimed, 1, (claimed.job, 1, "a")) is Landed.LANDED


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(3), KeyboardInterrupt()])
def test_a_lander_that_raises_takes_the_whole_batch_back(stand: Stand, error: BaseException) -> None:
    """K1, C125."""
    claimed = stand.running()

    def lander(db: Facade, view: object, rows: list[Any]) -> None:
        keep_notes(db, view, rows)
        raise error

    with pytest.raises(LanderRaised) as raised:
        stand.land(claimed, 1, (claimed.job, 1, "a"), lander=lander)
    assert raised.value.cause is error
    assert stand.notes() == []
    assert stand.row(claimed.job)["landed_seq"] == 0
    assert stand.land(claimed, 1, (claimed.job, 1, "a")) is Landed.LANDED


def test_rows_that_do_not_decode_take_the_batch_back_without_the_lander(stand: Stand) -> None:
    """K3."""
    claimed, called = stand.running(), []

    def torn() -> Any:
        raise RowsRefused("torn")

    batch = land(claimed, 1, [("x", "y", "z")], lambda *_: called.append(1))
    with pytest.raises(RowsRefused, match="torn"):
        stand.write(replace(batch, rows=torn))
    assert called == []
    assert stand.row(claimed.job)["landed_seq"] == 0
