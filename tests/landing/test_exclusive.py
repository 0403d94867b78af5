"""What may not run beside another job of its kind waits for it, in claim order, and for nothing else."""

from contextlib import closing

import pytest

from landing.claim import Claimed, ClaimReply
from landing.connect import open_writer, store_path
from landing.enqueue import Register
from landing.hold import Hold, Unhold
from landing.retry import Retry
from landing.sql import queue as sql
from landing.transaction import Transaction
from policies.job import State
from policies.options import Options
from policies.transitions import Move
from policies.verdict import Verdict
from tests.landing.stand import Stand

KINDS = {"mine": Options(exclusive_by="revision"), "other": Options(priority=60)}
ONE, TWO = '{"revision":1}', '{"revision":2}'


@pytest.fixture
def mines(stand: Stand) -> Stand:
    stand.write(Register("app", KINDS))
    return stand


def look(stand: Stand) -> ClaimReply:
    return stand.look(loaded=KINDS)


def take(stand: Stand) -> Claimed:
    claimed = look(stand).claimed
    assert claimed is not None
    assert stand.start(claimed)
    return claimed


def waits(stand: Stand, job: int) -> tuple[object, ...]:
    row = stand.row(job)
    return row["state"], row["reason"], row["watch"], row["watch_key"]


def test_a_rival_waits_until_what_it_may_not_run_beside_has_ended(mines: Stand) -> None:
    """A49, U37, K14: its own reason, with a watch, set by the claim that refused it."""
    first, second = mines.enqueue("mine", ONE), mines.enqueue("mine", ONE)
    running = take(mines)
    assert running.job == first
    assert look(mines).claimed is None
    assert waits(mines, second) == (State.PENDING, "exclusive", "exclusive", "mine 1")
    mines.finish(running)
    assert take(mines).job == second


def test_another_value_of_the_field_or_none_is_no_rival(mines: Stand) -> None:
    """A49."""
    jobs = [mines.enqueue("mine", payload) for payload in (ONE, TWO, "{}", "{}", '["revision"]')]
    assert [take(mines).job for _ in jobs] == jobs


def test_two_that_are_in_line_never_keep_each_other_out(mines: Stand) -> None:
    """A50, U37: also after cancel and retry only what is in flight counts."""
    first, second = mines.enqueue("mine", ONE), mines.enqueue("mine", ONE)
    for job in (first, second):
        mines.cancel(job)
        mines.write(Retry(job))
    assert [mines.row(job)["state"] for job in (first, second)] == [State.QUEUED, State.QUEUED]
    running = take(mines)
    assert running.job == first
    mines.finish(running)
    assert take(mines).job == second


@pytest.mark.parametrize("state", [State.RUNNING, State.PENDING])
def test_who_waits_behind_one_that_is_cancelled_goes_on(mines: Stand, state: str) -> None:
    """A49, U37: A runs, B and C wait for it, B is cancelled; or A itself is."""
    a, b, c = (mines.enqueue("mine", ONE) for _ in "abc")
    running = take(mines)
    assert look(mines).claimed is None
    if state == State.RUNNING:
        mines.cancel(a, live=False)
        assert take(mines).job == b
    else:
        mines.cancel(b)
        mines.finish(running)
        assert take(mines).job == c


def test_those_that_wait_go_on_one_at_a_time_in_claim_order(mines: Stand) -> None:
    """A49, K14: an end wakes only as many as fit."""
    mines.enqueue("mine", ONE)
    running = take(mines)
    late, early, urgent = (mines.enqueue("mine", ONE, priority=p) for p in (70, 60, 20))
    assert look(mines).claimed is None
    order = []
    for _ in range(3):
        mines.finish(running)
        running = take(mines)
        order.append(running.job)
        states = mines.query("SELECT state, COUNT(*) FROM laneway_jobs WHERE state = 'queued' GROUP BY 1")
        assert states == []
    assert order == [urgent, early, late]


def test_what_is_behind_a_rival_goes_before_all_that_is_less_urgent(mines: Stand) -> None:
    """C79, U15, K14: one blocked head never starves its group."""
    mines.enqueue("mine", ONE)
    take(mines)
    mines.enqueue("mine", ONE)
    free = mines.enqueue("mine", TWO)
    mines.enqueue("other")
    assert take(mines).job == free


def test_a_held_rival_is_out_of_line(mines: Stand) -> None:
    """U27, U37: nobody waits for one that is held."""
    mines.enqueue("mine", ONE)
    running = take(mines)
    held, next_one = mines.enqueue("mine", ONE), mines.enqueue("mine", ONE)
    assert look(mines).claimed is None
    mines.write(Hold(held))
    mines.finish(running)
    running = take(mines)
    assert running.job == next_one
    mines.write(Unhold(held))
    assert look(mines).claimed is None
    mines.finish(running, Verdict(Move.FAIL, "failed"))
    assert take(mines).job == held


class Rivals:
    """Many rows that wait for one key, and some queued behind it."""

    def __init__(self, many: int) -> None:
        self.many = many

    def apply(self, tx: Transaction) -> None:
        tx.run(
            "INSERT INTO laneway_jobs (kind, state, group_id, priority, payload, created_at, waiting_since,"
            "                          exclusive, watch, watch_key, reason)"
            " WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < ?)"
            " SELECT 'mine', 'pending', 1, 50, '{\"revision\":1}', n, n,"
            "        'mine 1', 'exclusive', 'mine 1', 'exclusive' FROM n",
            (self.many,),
        )


def steps(stand: Stand, statement: str) -> int:
    """Count the steps of SQLite's machine that a statement takes, in hundreds; nothing is kept."""
    counted = 0

    def count() -> int:
        nonlocal counted
        counted += 1
        return 0

    with closing(open_writer(store_path(stand.home))) as db:
        db.execute("BEGIN")
        db.set_progress_handler(count, 100)
        db.execute(statement).fetchall()
        db.set_progress_handler(None, 0)
        db.execute("ROLLBACK")
    return counted


@pytest.fixture(params=[False, True], ids=["taken", "free"])
def crowded(mines: Stand, request: pytest.FixtureRequest) -> Stand:
    """A key that is taken, or has just become free; who waits for it comes in the test."""
    mines.enqueue("mine", ONE)
    running = take(mines)
    if request.param:
        mines.finish(running)
    return mines


def test_freeing_costs_the_same_however_many_wait(crowded: Stand) -> None:
    """K14: one seek for each key, at any depth."""
    crowded.write(Rivals(100))
    few = steps(crowded, sql.FREE_EXCLUSIVE)
    crowded.write(Rivals(20_000))
    assert steps(crowded, sql.FREE_EXCLUSIVE) <= few + 2
