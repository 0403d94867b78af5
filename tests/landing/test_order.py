"""Which of many waiting jobs a claim takes, and that nothing waits behind what cannot start."""

import json
from functools import partial

import pytest

from landing.connect import open_writer, store_path
from landing.enqueue import LearnTiers, Register, RegisterTiers, UnknownTier
from landing.sql import queue as sql
from landing.transaction import Transaction
from policies.gates.vocabulary import Blocked, Gate
from policies.job import MICROS, Priority, State
from policies.options import Options
from policies.priority import in_claim_order
from policies.transitions import Move
from policies.verdict import Admit, Verdict
from tests.landing.stand import KINDS, START, Stand

BLOCKED = (Blocked(Gate.PRESENCE, "you are here", "300 s without a touch"),)


def shutting(*tiers: str) -> Admit:
    """Gates that are shut for these tiers."""
    return lambda _in_flight, _held: lambda head: BLOCKED if head.tier in tiers else ()


@pytest.fixture
def tiered(stand: Stand) -> Stand:
    stand.write(RegisterTiers({"synthesis": 8192, "routine": 4096}))
    return stand


def test_a_job_has_the_tier_and_the_window_of_its_load(tiered: Stand) -> None:
    """C73, C113."""
    tiered.enqueue(tier="synthesis")
    claimed = tiered.claim()
    assert (tiered.row(claimed.job)["tier"], tiered.row(claimed.job)["num_ctx"]) == ("synthesis", 8192)


def test_a_job_that_was_queued_before_its_tier_was_known_has_its_window_at_the_next_claim(
    stand: Stand,
) -> None:
    """C73, C113, C144: rows with equal windows batch, whoever knew of them when; no row is touched before."""
    stand.write(Register("app", {"early": Options(tier="synthesis"), "late": Options(tier="synthesis")}))
    early = stand.enqueue("early")
    stand.write(RegisterTiers({"synthesis": 8192}))
    other, late = stand.enqueue("embed"), stand.enqueue("late")
    assert [stand.row(job)["num_ctx"] for job in (early, late)] == [0, 8192]
    stand.write(RegisterTiers({"synthesis": 4096}))
    order = partial(in_claim_order, loaded=("synthesis", 4096))
    kinds = ("early", "late", "embed")
    claims = [stand.look(loaded=kinds, order=order).claimed for _ in kinds]
    assert [(one.job, one.window) for one in claims if one] == [(early, 4096), (late, 4096), (other, 0)]
    assert [stand.row(job)["num_ctx"] for job in (early, late)] == [4096, 4096]


@pytest.mark.parametrize("unique", ["waiting", "forever"])
def test_a_request_meets_an_equal_one_of_before_its_tier_was_known(stand: Stand, unique: str) -> None:
    """C76, A9: what the store has learned since makes no other job of it; it still promotes."""
    stand.write(Register("app", {"report": Options(tier="synthesis", unique=unique, priority=60)}))
    first = stand.enqueue("report")
    stand.write(RegisterTiers({"synthesis": 8192}))
    assert stand.enqueue("report", priority=20) == first
    claimed = stand.look(loaded={"report": Options()}).claimed
    assert claimed is not None
    assert (claimed.tier, claimed.window) == ("synthesis", 8192)
    assert claimed.priority == (20 if unique == "waiting" else 60)


def test_a_store_learns_tiers_from_whoever_knows_them_and_what_a_run_said_stands(stand: Stand) -> None:
    """C113."""

    def known() -> object:
        ((value,),) = stand.query("SELECT value FROM laneway_meta WHERE name = 'tiers'")
        return json.loads(value)

    stand.write(LearnTiers({"synthesis": 0}))
    stand.write(LearnTiers({"synthesis": 8192, "big": 1}))
    assert known() == {"synthesis": 8192, "big": 1}
    stand.write(LearnTiers({"synthesis": 0, "big": 2}))
    assert known() == {"synthesis": 8192, "big": 1}
    stand.write(RegisterTiers({"synthesis": 4096}))
    assert known() == {"synthesis": 4096}


@pytest.mark.parametrize("cell", ["", "{", "[]", '{"synthesis": "wide"}', '{"synthesis": null}'])
def test_garbage_for_the_tiers_counts_as_nothing_known(stand: Stand, cell: str) -> None:
    """C113: nothing fails over it."""
    stand.write(Register("app", {"report": Options(tier="synthesis")}))
    stand.write(RegisterTiers({}))
    stand.alter("UPDATE laneway_meta SET value = ? WHERE name = 'tiers'", cell)
    job = stand.enqueue("report")
    claimed = stand.look(loaded={"report": Options()}).claimed
    assert claimed is not None
    assert (claimed.job, claimed.window) == (job, 0)


def test_a_tier_that_nobody_defined_is_refused_and_nothing_is_written(tiered: Stand) -> None:
    """C73: bad input."""
    with pytest.raises(UnknownTier, match="unknown tier 'synth'; tiers here: routine, synthesis"):
        tiered.enqueue(tier="synth")
    assert tiered.query("SELECT COUNT(*) FROM laneway_jobs") == [(0,)]


def test_a_blocked_tier_is_passed_over_and_stays_queued(tiered: Stand) -> None:
    """C79, C128, C131."""
    heavy = tiered.enqueue(tier="synthesis", priority=0)
    light = tiered.enqueue(tier="routine", priority=100)
    reply = tiered.look(admit=shutting("synthesis"))
    assert reply.claimed is not None
    assert reply.claimed.job == light
    assert reply.blocked == {"embed": BLOCKED}
    assert tiered.row(heavy)["state"] == State.QUEUED
    assert tiered.look(admit=shutting("synthesis")).claimed is None
    assert tiered.claim().job == heavy


def test_what_is_loaded_goes_first_within_a_band_and_only_there(tiered: Stand) -> None:
    """C79, C144, U15."""
    older = tiered.enqueue(tier="synthesis")
    tiered.tick(1)
    matching = tiered.enqueue(tier="routine")
    urgent = tiered.enqueue(tier="synthesis", priority=10)
    order = partial(in_claim_order, loaded=("routine", 4096))
    claims = [tiered.look(order=order).claimed for _ in range(3)]
    assert [claimed and claimed.job for claimed in claims] == [urgent, matching, older]


def test_a_job_that_yields_goes_behind_those_that_wait_already(stand: Stand) -> None:
    """C88, U16: so that a batch stays the unit of fairness; all other waits keep their place."""
    first = stand.running()
    stand.tick(1)
    second = stand.enqueue()
    stand.tick(1)
    stand.finish(first, Verdict(Move.RELEASE, "yielded"))
    row = stand.row(first.job)
    assert (row["created_at"], row["waiting_since"]) == (START, stand.now)
    assert [stand.claim().job, stand.claim().job] == [second, first.job]


def test_an_endless_urgent_stream_holds_a_background_job_back_for_a_bounded_time(stand: Stand) -> None:
    """C80, C81, U16, U35: 8,100 s from background to the floor, and there it is the oldest."""
    background = stand.enqueue("scan", priority=Priority.BACKGROUND)
    while stand.now - START < 10_000 * MICROS:
        stand.enqueue(priority=Priority.INTERACTIVE)
        claimed = stand.claim()
        if claimed.job == background:
            break
        stand.start(claimed)
        stand.finish(claimed)
        stand.tick(50)
    assert stand.now - START == 8_100 * MICROS
    assert stand.row(background)["priority"] == Priority.BACKGROUND


def test_what_is_reactive_goes_first_however_long_others_wait(stand: Stand) -> None:
    """C81, C82."""
    stand.enqueue("scan")
    stand.tick(10**6)
    reactive = stand.enqueue(priority=Priority.REACTIVE)
    assert stand.claim().job == reactive


class Depth:
    """Many queued rows in each of some kinds."""

    def __init__(self, kinds: int, rows: int) -> None:
        self.kinds, self.rows = kinds, rows

    def apply(self, tx: Transaction) -> None:
        for number in range(self.kinds):
            group = {"kind": f"kind {number}", "priority": 50, "tier": "", "num_ctx": 0}
            tx.run(sql.ADD_GROUP, group)
            tx.run(
                "INSERT INTO laneway_jobs"
                " (kind, state, group_id, priority, payload, created_at, waiting_since)"
                " WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < ?)"
                " SELECT ?, 'queued', (SELECT id FROM laneway_groups WHERE kind = ?), 50, '{}', n, n FROM n",
                (self.rows, group["kind"], group["kind"]),
            )


def steps(stand: Stand) -> int:
    """Count the steps of SQLite's machine that one look at the heads takes, in hundreds."""
    counted = []
    db = open_writer(store_path(stand.home))
    db.set_progress_handler(lambda: counted.append(1), 100)
    db.execute(sql.HEADS).fetchall()
    db.close()
    return len(counted)


def test_a_look_at_the_heads_costs_the_same_at_any_depth(stand: Stand) -> None:
    """C97, K14: one seek for each group, for a thousand kinds as well."""
    stand.write(Depth(1000, 2))
    shallow = steps(stand)
    stand.write(Depth(20, 2000))
    assert steps(stand) <= shallow + 2


def test_a_claim_among_a_thousand_kinds_takes_the_oldest(stand: Stand) -> None:
    """C79, K14."""
    stand.write(Depth(1000, 1))
    kinds = {f"kind {number}": Options() for number in range(1000)}
    stand.write(Register("app", kinds))
    claimed = stand.look(loaded=kinds).claimed
    assert claimed is not None
    assert claimed.kind == "kind 0"


def test_two_registrations_of_a_kind_leave_the_newer_one(stand: Stand) -> None:
    """U20: what waits already keeps its own priority."""
    first = stand.enqueue()
    stand.write(Register("app", {**KINDS, "embed": Options(priority=5)}))
    second = stand.enqueue()
    assert [stand.row(job)["priority"] for job in (first, second)] == [50, 5]
