"""What may not run beside another job of its kind waits for it, in claim order, and for nothing else."""

import re
from contextlib import closing
from pathlib import Path

import pytest

from landing.claim import Claimed, ClaimReply
from landing.connect import open_writer, store_path
from landing.enqueue import Register, RegisterTiers
from landing.hold import Hold, Unhold
from landing.ledger import Report
from landing.retry import Retry
from landing.sql import queue as sql
from landing.transaction import Transaction
from policies.gates.vocabulary import Blocked, Gate
from policies.job import IN_FLIGHT, Outcome, State
from policies.options import Options
from policies.transitions import TRANSITIONS, Move
from policies.verdict import Admit, Verdict
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


def shut(tier: str) -> Admit:
    """Return a gate that holds a tier back."""
    return lambda _in_flight, _held: (
        lambda head: (Blocked(Gate.POWER, "on battery"),) if head.tier == tier else ()
    )


def test_a_rival_waits_until_what_it_may_not_run_beside_has_ended(mines: Stand) -> None:
    """A19, A49, U37, K14: its own reason, with a watch, set by the claim that refused it."""
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
    """A49, K14: an end wakes the head of each group, and the claim chooses."""
    mines.enqueue("mine", ONE)
    running = take(mines)
    late, early, urgent = (mines.enqueue("mine", ONE, priority=p) for p in (70, 60, 20))
    assert look(mines).claimed is None
    order = []
    for _ in range(3):
        mines.finish(running)
        running = take(mines)
        order.append(running.job)
        assert look(mines).claimed is None
        assert mines.query("SELECT id FROM laneway_jobs WHERE state = 'queued'") == []
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


def test_one_in_line_whose_tier_may_not_start_keeps_no_rival_of_another_tier_waiting(mines: Stand) -> None:
    """K14, U15: the tier is passed over, with all that is in it."""
    mines.write(RegisterTiers({"heavy": 0, "light": 0}))
    mines.enqueue("mine", ONE)
    running = take(mines)
    stuck, free = mines.enqueue("mine", ONE, tier="heavy"), mines.enqueue("mine", ONE, tier="light")
    assert look(mines).claimed is None
    assert waits(mines, stuck)[0] == waits(mines, free)[0] == State.PENDING
    mines.finish(running)
    claimed = mines.look(loaded=KINDS, admit=shut("heavy")).claimed
    assert claimed is not None
    assert claimed.job == free
    assert waits(mines, stuck)[0] == State.QUEUED
    assert mines.look(loaded=KINDS).claimed is None, "nor does it run beside it"


def test_one_that_waits_for_a_key_that_nobody_has_goes_on_with_the_next_run(mines: Stand) -> None:
    """U32: somebody has changed a cell by hand."""
    first, second = mines.enqueue("mine", ONE), mines.enqueue("mine", ONE)
    take(mines)
    assert look(mines).claimed is None
    mines.alter("UPDATE laneway_jobs SET exclusive = NULL WHERE id = ?", first)
    mines.cancel(first, live=False)
    assert look(mines).claimed is None
    mines.open_run()
    assert take(mines).job == second


def test_the_states_that_a_key_is_left_by_are_those_of_the_table() -> None:
    """The trigger of the schema names them once more."""
    text = (Path(sql.__file__).parent.parent / "migrations" / "0004.sql").read_text()
    held = {"OLD.state IN": {*IN_FLIGHT, *TRANSITIONS[Move.CLAIM][0]}, "NEW.state NOT IN": set(IN_FLIGHT)}
    for which, states in held.items():
        (named,) = re.findall(rf"{which} \((.*?)\)", text)
        assert set(re.findall(r"'(\w+)'", named)) == states


def test_one_that_gives_its_slot_back_keeps_no_rival_of_another_tier_waiting(mines: Stand) -> None:
    """K14, U15: it holds the key no more than any other that is in line."""
    mines.write(RegisterTiers({"heavy": 0}))
    mines.enqueue("mine", ONE, tier="heavy")
    running, rival = take(mines), mines.enqueue("mine", ONE)
    assert look(mines).claimed is None
    mines.finish(running, Verdict(Move.RELEASE, "yielded"), report=Report(outcome=Outcome.YIELDED))
    claimed = mines.look(loaded=KINDS, admit=shut("heavy")).claimed
    assert claimed is not None
    assert claimed.job == rival


def test_urgent_rivals_without_end_keep_none_waiting_beyond_its_aging(mines: Stand) -> None:
    """C80, C81, U16, FIELD I7: who waits for a key ages like everybody."""
    mines.enqueue("mine", ONE, priority=10)
    running = take(mines)
    patient = mines.enqueue("mine", ONE, priority=100)
    for _ in range(12):
        mines.enqueue("mine", ONE, priority=10)
        assert look(mines).claimed is None
        mines.tick(900)
        mines.finish(running)
        running = take(mines)
        if running.job == patient:
            break
    assert running.job == patient


@pytest.mark.parametrize(
    "cells",
    [
        "watch = NULL",
        "watch = 'zzz'",
        "watch = 'backoff'",
        "watch_key = NULL",
        "watch_key = 'other'",
        "watch_key = x'ff'",
    ],
)
def test_one_whose_watch_is_garbage_goes_on_with_the_next_run(mines: Stand, cells: str) -> None:
    """U32, K14: it waits for nothing that could come."""
    mines.enqueue("mine", ONE)
    running, second = take(mines), mines.enqueue("mine", ONE)
    assert look(mines).claimed is None
    mines.alter(f"UPDATE laneway_jobs SET {cells} WHERE id = ?", second)
    mines.finish(running)
    mines.open_run()
    assert take(mines).job == second


class Rivals:
    """Many rows that wait for one key, or each for its own."""

    def __init__(self, many: int, key: str = "'mine 1'") -> None:
        self.many = many
        self.key = key

    def apply(self, tx: Transaction) -> None:
        tx.run(
            "INSERT INTO laneway_jobs (kind, state, group_id, priority, payload, created_at, waiting_since,"
            "                          exclusive, watch, watch_key, reason)"
            " WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < ?)"
            " SELECT 'mine', 'pending', 1, 50, '{\"revision\":1}', n, n,"
            f"        {self.key}, 'exclusive', {self.key}, 'exclusive' FROM n",
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
    """K14: one seek for each key that was left, at any depth."""
    crowded.write(Rivals(100))
    few = steps(crowded, sql.FREE_EXCLUSIVE)
    crowded.write(Rivals(20_000))
    assert steps(crowded, sql.FREE_EXCLUSIVE) <= few + 2


def test_keys_that_nobody_has_left_cost_a_claim_nothing(mines: Stand) -> None:
    """K14."""
    mines.enqueue("mine", ONE)
    before = steps(mines, sql.FREE_EXCLUSIVE)
    mines.write(Rivals(5000, "'mine ' || n"))
    assert steps(mines, sql.FREE_EXCLUSIVE) == before
