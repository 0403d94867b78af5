"""What earlier attempts landed goes in one transaction with what the next one lands first."""

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from landing.batches import Discard, Landed, LanderRaised
from landing.claim import Claimed
from landing.connect import store_path
from landing.enqueue import Register
from landing.finish import Finished
from landing.lander import Raised
from landing.ledger import Report
from landing.retry import Retry
from landing.transaction import CommitLost
from policies.job import Outcome
from policies.transitions import Move
from policies.verdict import Verdict
from tests.landing.stand import DONE, KINDS, Stand, finish, land, lander_thread, one_group

POINT = {"mark": "half", "skip": 3, "digest": b"\x01"}
FAILED = Verdict(Move.FAIL, "why")


def forget(db: Any, job: Claimed) -> None:
    """A discard for what `keep_notes` writes."""
    db.execute("DELETE FROM notes WHERE job = ?", (job.job,))


def starting_over(stand: Stand) -> tuple[Claimed, Discard]:
    """A job of which two rows landed, running once more from its start."""
    stand.write(Register("app", KINDS, frozenset({"embed"})))
    first = stand.running()
    stand.land(first, 1, (first.job, 1, "old"), (first.job, 2, "old"), point=POINT)
    stand.finish(first, FAILED, 1, report=Report(outcome=Outcome.FAILED))
    stand.write(Retry(first.job, from_start=True))
    again = stand.claim()
    stand.start(again)
    assert again.discards
    return again, Discard(forget, again)


def test_the_first_batch_replaces_what_was_there(stand: Stand) -> None:
    """K4, K2: landed_rows counts the new rows only, landed_seq goes on."""
    again, discard = starting_over(stand)
    assert stand.land(again, 2, (again.job, 1, "new"), discard=discard) is Landed.LANDED
    assert stand.notes() == [(again.job, 1, "new")]
    row = stand.row(again.job)
    assert (row["landed_seq"], row["landed_rows"], row["discards"]) == (2, 1, 0)
    assert row["rows_before"] == 0, "all that there is are its own"
    stand.land(again, 3, (again.job, 2, "new"))
    assert (len(stand.notes()), stand.row(again.job)["landed_rows"]) == (2, 2)


def test_a_mark_alone_replaces_nothing(stand: Stand) -> None:
    """K4, K3: it moves the resume point, the rows go with the first one after it."""
    again, discard = starting_over(stand)
    stand.land(again, 2, point=POINT, discard=discard)
    assert len(stand.notes()) == 2
    row = stand.row(again.job)
    assert (row["landed_seq"], row["landed_rows"], row["discards"], row["mark"]) == (2, 2, 1, "half")
    stand.land(again, 3, (again.job, 1, "new"), discard=discard)
    assert stand.notes() == [(again.job, 1, "new")]
    assert (stand.row(again.job)["landed_rows"], stand.row(again.job)["discards"]) == (1, 0)


def test_rows_that_land_without_a_discard_are_not_discarded_later(stand: Stand) -> None:
    """K4: a `restart` lane without one lands over what is there, and the next attempt may build on that."""
    again, _ = starting_over(stand)
    stand.land(again, 2, (again.job, 3, "new"), point=POINT)
    assert stand.row(again.job)["discards"] == 0
    stand.fail(again, last_seq=2)
    stand.tick(60)
    third = stand.claim()
    assert (third.discards, third.landed_rows, third.mark) == (False, 3, "half")


def test_a_death_before_the_first_batch_leaves_rows_and_need(stand: Stand) -> None:
    """K4, promise 3: the need is in the row, not in the attempt."""
    again, _ = starting_over(stand)
    stand.fail(again, last_seq=1)
    stand.tick(60)
    assert len(stand.notes()) == 2
    third = stand.claim()
    assert (third.job, third.discards, third.landed_rows) == (again.job, True, 2)


def test_a_job_that_yields_nothing_the_second_time_discards_at_its_end(stand: Stand) -> None:
    """K4: in the finish transaction; a mark alone is nothing."""
    again, discard = starting_over(stand)
    assert stand.finish(again, DONE, 1, discard=discard) is Finished.HELD
    assert stand.notes() == []
    row = stand.row(again.job)
    assert (row["state"], row["landed_seq"], row["landed_rows"], row["discards"]) == ("done", 1, 0, 0)


@pytest.mark.parametrize(
    ("move", "outcome"),
    [
        (Move.COMPLETE, Outcome.SKIPPED),
        (Move.FAIL, Outcome.FAILED),
        (Move.FAIL_OPTIONAL, Outcome.FAILED),
        (Move.BACK_OFF, Outcome.DIED),
        (Move.RELEASE, Outcome.YIELDED),
        (Move.CANCEL, Outcome.CANCELLED),
    ],
)
def test_no_other_end_discards(stand: Stand, move: Move, outcome: Outcome) -> None:
    """K4, K15: also not that of a job that is done because there was nothing to do."""
    again, discard = starting_over(stand)
    verdict = Verdict(move, "why", wake_at=stand.now if move is Move.BACK_OFF else None)
    stand.finish(again, verdict, 1, report=Report(outcome=outcome), discard=discard)
    assert len(stand.notes()) == 2
    row = stand.row(again.job)
    assert (row["landed_rows"], row["discards"]) == (2, 1)


def test_a_dead_fence_discards_nothing(stand: Stand) -> None:
    """K2."""
    again, discard = starting_over(stand)
    stranger = replace(again, fence="wrong")
    assert stand.land(stranger, 2, (again.job, 1, "new"), discard=discard) is Landed.STALE
    assert stand.finish(stranger, DONE, 1, discard=discard) is Finished.STALE
    assert len(stand.notes()) == 2
    assert stand.row(again.job)["discards"] == 1


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(3)])
@pytest.mark.parametrize("at_the_end", [True, False])
def test_a_discard_that_raises_takes_everything_back(
    stand: Stand, error: BaseException, at_the_end: bool
) -> None:
    """K4, K1: as a lander that raises."""
    again, _ = starting_over(stand)
    before = stand.row(again.job)

    def discard(db: Any, job: Any) -> None:
        forget(db, job)
        raise error

    failing = Discard(discard, again)
    end = finish(again, DONE, 1, discard=failing)
    first = land(again, 2, [(again.job, 1, "new")], discard=failing)
    with pytest.raises(LanderRaised) as raised:
        stand.write(end if at_the_end else first)
    assert (raised.value.cause, raised.value.half) == (error, "discard")
    assert stand.row(again.job) == before
    assert len(stand.notes()) == 2
    assert stand.attempts(again.job)[-1]["outcome"] is None


def test_a_lander_that_raises_after_a_discard_brings_the_rows_back(stand: Stand) -> None:
    """K4, K1."""
    again, discard = starting_over(stand)

    def lander(*_: Any) -> None:
        raise ValueError("no")

    with pytest.raises(LanderRaised) as raised:
        stand.land(again, 2, (again.job, 1, "new"), lander=lander, discard=discard)
    assert raised.value.half == "lander"
    assert len(stand.notes()) == 2
    assert stand.row(again.job)["discards"] == 1


def test_a_discard_can_do_what_a_lander_can_and_no_more(stand: Stand) -> None:
    """K4, K1: the same facade."""
    again, _ = starting_over(stand)

    def enqueues(db: Any, job: Any) -> None:
        forget(db, job)
        db.enqueue("scan", {"of": job.job})

    new = (again.job, 1, "new")
    assert stand.land(again, 2, new, discard=Discard(enqueues, again)) is Landed.LANDED
    assert stand.query("SELECT payload FROM laneway_jobs WHERE kind = 'scan'") == [(f'{{"of":{again.job}}}',)]
    other, _ = starting_over(stand)
    commits = Discard(lambda db, _job: db.execute("COMMIT"), other)
    with pytest.raises(LanderRaised, match="the discard raised Refused"):
        stand.land(other, other.landed_seq + 1, (other.job, 1, "new"), discard=commits)


def test_in_a_group_that_fails_a_discard_runs_again_and_nothing_is_lost(stand: Stand, home: Path) -> None:
    """K1, K4: it may run twice."""
    again, _ = starting_over(stand)
    calls = []

    def counted(db: Any, job: Any) -> None:
        calls.append(1)
        forget(db, job)

    def lander(*_: Any) -> None:
        raise ValueError("no")

    other = stand.running("scan")
    with lander_thread(home) as thread:
        with one_group(thread):
            first = thread.post(land(again, 2, [(again.job, 1, "new")], discard=Discard(counted, again)))
            failing = thread.post(land(other, 1, [(1, 1, "x")], lander))
            end = thread.post(finish(again, DONE, 2))
        assert first.get(timeout=20) is Landed.LANDED
        assert isinstance(failing.get(timeout=20), Raised)
        assert end.get(timeout=20) is Finished.HELD
    assert len(calls) == 2
    assert stand.notes() == [(again.job, 1, "new")]
    assert stand.row(again.job)["landed_rows"] == 1


def test_a_discard_that_ends_the_transaction_is_not_asked_again(stand: Stand, home: Path) -> None:
    """K1, K4: had it committed, its second answer would be stale."""
    again, _ = starting_over(stand)

    def sly(db: Any, job: Any) -> None:
        db._tx.db.guard.on = False
        db._tx.db.rollback()

    with lander_thread(home) as thread:
        answer = thread.ask(finish(again, DONE, 1, discard=Discard(sly, again)))
    assert isinstance(answer, Raised)
    assert isinstance(answer.error, LanderRaised)
    assert isinstance(answer.error.cause, CommitLost)
    assert len(stand.notes()) == 2


@pytest.mark.parametrize("garbage", ["'many'", "x'ff'", "1 << 60", "-9e999"])
def test_rows_that_nobody_can_count_are_rows(stand: Stand, garbage: str) -> None:
    """K4, U32: a `restart` lane discards once too often rather than land rows twice."""
    job = stand.enqueue()
    with closing(sqlite3.connect(store_path(stand.home), isolation_level=None)) as db:
        db.execute(f"UPDATE laneway_jobs SET landed_rows = {garbage} WHERE id = ?", (job,))
    claimed = stand.claim()
    assert (claimed.job, claimed.landed_rows) == (job, 1)
