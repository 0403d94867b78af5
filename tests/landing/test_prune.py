"""Prune takes whole ended jobs and nothing else; what it frees is given back in small steps."""

import sqlite3
from contextlib import closing
from typing import Any

import pytest

from landing import views
from landing.connect import open_writer, store_path
from landing.prune import ENOUGH_PAGES, Prune, Pruned, PruneRuns, Vacuum
from landing.runs import CloseRun
from landing.snapshot import snapshot
from landing.sql import prune as sql
from landing.transaction import Transaction
from policies.job import ENDED, IN_FLIGHT, MICROS, WAITING, State
from policies.transitions import Move
from policies.verdict import Verdict
from tests.landing.stand import START, Stand

LATER = START + 10**6 * MICROS
ALL = frozenset(ENDED)
FAILED = Verdict(Move.FAIL, "failed")
OF_A_JOB = ("results", "dependencies", "receipts", "attempts", "events")


class Run:
    """Any statement, as an operation."""

    def __init__(self, statement: str, *args: Any) -> None:
        self.statement, self.args = statement, args

    def apply(self, tx: Transaction) -> int:
        return tx.run(self.statement, self.args)


def prune(stand: Stand, before: int = LATER, **more: Any) -> Pruned:
    pruned: Pruned = stand.write(Prune(before, more.pop("states", ALL), **more))
    return pruned


def done(stand: Stand, kind: str = "embed", tag: str | None = None) -> int:
    """Enqueue a job and bring it to its end, with a result and an event."""
    stand.enqueue(kind, tag=tag)
    claimed = stand.claim(kind)
    assert stand.start(claimed)
    stand.finish(claimed, result="[1]", events=(("noted", {}),))
    return claimed.job


def depend(stand: Stand, job: int, needs: int) -> None:
    stand.write(Run("INSERT INTO laneway_dependencies VALUES (?, ?, 1)", job, needs))


def left(stand: Stand) -> list[int]:
    return [job for (job,) in stand.query("SELECT id FROM laneway_jobs ORDER BY id")]


def rows_of(stand: Stand, job: int) -> dict[str, int]:
    """How many rows name this job, by table."""
    return {
        table: stand.query(f"SELECT COUNT(*) FROM laneway_{table} WHERE job_id = ?", job)[0][0]
        for table in OF_A_JOB
    }


def prunable(stand: Stand, before: int = LATER, **more: Any) -> int:
    with snapshot(stand.home) as db:
        return views.prunable(db, before, more.pop("states", ALL), **more)


def test_an_ended_job_goes_with_everything_of_it_and_leaves_the_others_alone(stand: Stand) -> None:
    """U33, B26."""
    first, second, waits = done(stand), done(stand), stand.enqueue()
    depend(stand, second, first)
    assert rows_of(stand, second) == dict.fromkeys(OF_A_JOB, 1)
    assert prune(stand, limit=1) == Pruned(jobs=1, attempts=1, more=True)
    assert left(stand) == [second, waits]
    assert rows_of(stand, first) == dict.fromkeys(OF_A_JOB, 0)
    assert rows_of(stand, second) == dict.fromkeys(OF_A_JOB, 1) | {"dependencies": 0}
    assert prune(stand) == Pruned(jobs=1, attempts=1, more=False)
    assert stand.query("SELECT state, jobs FROM laneway_counts WHERE jobs") == [("queued", 1)]
    assert stand.query("PRAGMA integrity_check") == [("ok",)]
    assert stand.query("PRAGMA foreign_key_check") == []


def test_a_job_that_ended_at_the_border_or_after_it_stays(stand: Stand) -> None:
    """U33."""
    old = done(stand)
    stand.tick(1)
    young = done(stand)
    assert prunable(stand, START) == prune(stand, START).jobs == 0
    assert prunable(stand, START + MICROS) == prune(stand, START + MICROS).jobs == 1
    assert left(stand) == [young] != [old]


@pytest.mark.parametrize("state", sorted(IN_FLIGHT | WAITING))
def test_a_job_that_is_not_ended_stays_whatever_is_asked_for(stand: Stand, state: State) -> None:
    """B39: also where a garbage cell says that it ended."""
    claimed = stand.running()
    lease = "fence" if state in IN_FLIGHT else "NULL"
    stand.write(
        Run(
            f"UPDATE laneway_jobs SET state = ?, finished_at = 1, fence = {lease},"
            f" lease_expires_at = IIF({lease} IS NULL, NULL, 1)",
            state,
        )
    )
    assert prune(stand, states=frozenset(State)) == Pruned(0, 0, more=False)
    assert prunable(stand, states=State) == 0
    assert left(stand) == [claimed.job]


def test_a_job_that_an_unfinished_one_depends_on_stays_until_that_ends(stand: Stand) -> None:
    """B39's spirit: what still waits finds what it waits for."""
    needed, waits = done(stand), stand.enqueue()
    depend(stand, waits, needed)
    assert prunable(stand) == prune(stand).jobs == 0
    stand.cancel(waits)
    assert prunable(stand) == prune(stand).jobs == 2
    assert left(stand) == []


def test_a_job_whose_attempt_has_no_receipt_stays(stand: Stand) -> None:
    """B39."""
    job = done(stand)
    stand.write(Run("INSERT INTO laneway_attempts VALUES (NULL, ?, 2, 1, 1, 'f', 1, 0, 0)", job))
    assert prunable(stand) == prune(stand).jobs == 0
    assert left(stand) == [job]


def test_states_kind_and_tag_choose_what_goes(stand: Stand) -> None:
    """U33."""
    embed, scan, tagged = done(stand), done(stand, "scan"), done(stand, "scan", tag="t")
    failed = stand.running("once")
    stand.finish(failed, FAILED)
    every = {embed, scan, tagged, failed.job}

    def gone(**which: Any) -> set[int]:
        before = set(left(stand))
        expected = prunable(stand, **which)
        assert prune(stand, **which).jobs == expected
        return before - set(left(stand))

    assert gone(states=frozenset()) == gone(kind="nobody") == gone(tag="none") == set()
    assert gone(kind="embed", tag="t") == set()
    assert gone(states=frozenset({State.FAILED}), tag="t") == set()
    assert gone(states=frozenset({State.FAILED})) == {failed.job}
    assert gone(kind="scan", tag="t") == {tagged}
    assert gone(kind="scan") == {scan}
    assert gone() == every - {failed.job, tagged, scan}


def test_a_prune_is_bounded_in_jobs(stand: Stand) -> None:
    """U38: nothing that lands waits long for it."""
    for _ in range(3):
        done(stand)
    assert prune(stand, limit=2) == Pruned(2, 2, more=True)
    assert prune(stand, limit=2) == Pruned(1, 1, more=False)


def test_a_prune_is_bounded_in_attempts_but_a_job_goes_whole(stand: Stand) -> None:
    """U38."""
    many = done(stand)
    attempt = "INSERT INTO laneway_attempts VALUES (?, ?, ?, 1, 1, 'f', 1, 0, 0)"
    receipt = (
        "INSERT INTO laneway_receipts (attempt_id, job_id, outcome, finished_at) VALUES (?, ?, 'yielded', 1)"
    )
    for number in range(2, 5):
        stand.write(Run(attempt, 100 + number, many, number))
        stand.write(Run(receipt, 100 + number, many))
    one = done(stand)
    assert prune(stand, limit=3) == Pruned(1, 4, more=True)
    assert left(stand) == [one]


def test_a_prune_is_bounded_in_pages(stand: Stand) -> None:
    """U38: payloads may be large."""
    payload = f'"{"x" * 1_000_000}"'
    fit = -(-ENOUGH_PAGES // (len(payload) // 4096))
    jobs = [stand.enqueue(payload=payload) for _ in range(fit + 2)]
    for job in jobs:
        stand.cancel(job)
    assert prune(stand) == Pruned(fit, 0, more=True)
    assert prune(stand) == Pruned(2, 0, more=False)


def test_an_append_only_row_of_another_job_cannot_go_beside_a_prune(stand: Stand) -> None:
    """B26, U10: the flag names one job, and only an ended one."""
    pruned, other, running = done(stand), done(stand), stand.running()
    for table in ("receipts", "attempts"):
        beside = f"DELETE FROM laneway_{table} WHERE job_id = ?"
        for flag, job in ((pruned, other), (pruned, running.job), (running.job, running.job)):
            if (table, job) == ("receipts", running.job):
                continue  # it has none yet
            with closing(open_writer(store_path(stand.home))) as db:
                db.execute("BEGIN IMMEDIATE")
                db.execute(sql.RAISE_FLAG, {"job": flag})
                with pytest.raises(sqlite3.IntegrityError, match="append-only"):
                    db.execute(beside, (job,))
                db.execute("ROLLBACK")


def test_the_flag_is_gone_with_the_transaction_that_raised_it(stand: Stand) -> None:
    """B26."""
    done(stand)
    flag = "SELECT COUNT(*) FROM laneway_meta WHERE name = 'pruning'"
    prune(stand)
    assert stand.query(flag) == [(0,)]


def test_a_prune_that_fails_half_way_leaves_neither_a_flag_nor_a_gap(stand: Stand) -> None:
    """B26, A2."""
    jobs = [done(stand), done(stand)]
    stand.write(
        Run(
            f"CREATE TRIGGER refuse BEFORE DELETE ON laneway_jobs WHEN OLD.id = {jobs[1]}"
            " BEGIN SELECT RAISE (ABORT, 'no'); END"
        )
    )
    with pytest.raises(Exception, match="no"):
        prune(stand)
    assert left(stand) == jobs
    assert [rows_of(stand, job)["receipts"] for job in jobs] == [1, 1]
    assert stand.query("SELECT COUNT(*) FROM laneway_meta WHERE name = 'pruning'") == [(0,)]


def test_a_run_goes_when_no_attempt_names_it_and_takes_its_events_along(stand: Stand) -> None:
    """C98: the last one stays, an open one stays, ids only grow."""
    note = "INSERT INTO laneway_events (at, run_id, name) VALUES (?, ?, 'stalled')"
    done(stand)
    stand.write(CloseRun(stand.run))
    stand.write(Run(note, START, stand.run))
    idle = stand.open_run().run
    stand.write(Run(note, START, idle))
    stand.write(CloseRun(idle))
    stand.tick(1)
    last = stand.open_run().run
    stand.write(CloseRun(last))
    runs = "SELECT id FROM laneway_runs ORDER BY id"
    notes = "SELECT run_id FROM laneway_events WHERE name = 'stalled' ORDER BY id"
    stand.write(PruneRuns(START))
    assert stand.query(runs) == [(stand.run,), (idle,), (last,)]
    stand.write(PruneRuns(LATER))
    assert stand.query(runs) == [(stand.run,), (last,)]
    assert stand.query(notes) == [(stand.run,)]
    assert prune(stand, kind="embed") == Pruned(1, 1, more=False)
    assert stand.query(runs) == [(stand.run,), (last,)]
    assert prune(stand) == Pruned(0, 0, more=False)
    assert (stand.query(runs), stand.query(notes)) == ([(last,)], [])
    assert stand.open_run().run == last + 1


def test_a_run_that_was_never_closed_stays(stand: Stand) -> None:
    """B39's spirit."""
    stand.write(
        Run("INSERT INTO laneway_runs VALUES (NULL, 1, 'b', '0', 'm', 1, NULL, 0, 0, 0, NULL, NULL, NULL)")
    )
    stand.write(PruneRuns(LATER))
    assert len(stand.query("SELECT id FROM laneway_runs")) == 2


def test_free_pages_are_given_back_a_step_at_a_time_down_to_what_is_kept(stand: Stand) -> None:
    """E11: the file shrinks."""
    for _ in range(20):
        stand.enqueue(payload=f'"{"x" * 40_000}"')
    for job in left(stand):
        stand.cancel(job)
    size = store_path(stand.home).stat().st_size
    assert prune(stand).jobs == 20
    with snapshot(stand.home) as db:
        free = views.free_bytes(db) // 4096
    assert free > 190
    first = stand.write(Vacuum(50))
    assert (first.freed, first.left, first.page_size) == (50, free - 50, 4096)
    second = stand.write(Vacuum(1000, keep=100))
    assert (second.freed, second.left) == (free - 150, 100)
    assert stand.write(Vacuum(1000, keep=100)).freed == 0
    assert stand.write(Vacuum(0)).freed == stand.write(Vacuum(-1)).freed == 0
    assert stand.write(Vacuum(1000)).left == 0
    with closing(open_writer(store_path(stand.home))) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    assert store_path(stand.home).stat().st_size <= size - 4096 * free
    assert stand.query("PRAGMA integrity_check") == [("ok",)]
