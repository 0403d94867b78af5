"""Group commit: one transaction for all that waits, answers after it, a failed group redone alone."""

import sqlite3
import threading
from collections import Counter
from contextlib import closing
from typing import Any

import pytest

from landing.batches import Landed, LanderRaised
from landing.claim import Claim
from landing.connect import open_reader, store_path
from landing.enqueue import Enqueue
from landing.errors import JobNotFound, StoreError
from landing.faults import POINTS
from landing.finish import Finished
from landing.lander import Raised
from landing.lease import Renew
from landing.transaction import CommitLost, Refused, Transaction
from policies.priority import in_claim_order
from tests.landing.stand import (
    KINDS,
    PATIENCE,
    Stand,
    finish,
    keep_notes,
    land,
    lander_thread,
    one_group,
    standing,
)


class Which:
    """An operation that tells in which transaction it ran."""

    def apply(self, tx: Transaction) -> int:
        return tx.now


def test_everything_that_waits_lands_in_one_transaction(stand: Stand) -> None:
    """K1."""
    with lander_thread(stand.home, monotonic=standing) as thread:
        with one_group(thread):
            replies = [thread.post(Which()) for _ in range(50)]
        assert len({reply.get(timeout=PATIENCE) for reply in replies}) == 1
        assert thread.ask(Which()) != thread.ask(Which())


def test_a_group_ends_after_fifty_milliseconds(stand: Stand) -> None:
    """K1: what came later is in the next one."""
    now = 0.0

    class Slow(Which):
        def apply(self, tx: Transaction) -> int:
            nonlocal now
            now += 0.03
            return super().apply(tx)

    with lander_thread(stand.home, monotonic=lambda: now) as thread:
        with one_group(thread):
            replies = [thread.post(Slow()) for _ in range(5)]
        groups = Counter(reply.get(timeout=PATIENCE) for reply in replies)
    assert list(groups.values()) == [2, 2, 1]


def test_an_answer_counts_only_when_everybody_can_see_what_it_says(stand: Stand) -> None:
    """K1: after COMMIT."""
    claimed = stand.running()
    seen: list[Any] = []

    def deliver(then: Any, answer: Any) -> None:
        with closing(open_reader(store_path(stand.home))) as db:
            seen.append((answer, db.execute("SELECT seq FROM notes ORDER BY seq").fetchall()))
        then(answer)

    with lander_thread(stand.home, deliver=deliver, monotonic=standing) as thread:
        with one_group(thread):
            replies = [thread.post(land(claimed, seq, [(claimed.job, seq, "a")])) for seq in (1, 2, 3)]
        for reply in replies:
            assert reply.get(timeout=PATIENCE) is Landed.LANDED
    assert seen == [("passed", [(1,), (2,), (3,)]), *[(Landed.LANDED, [(1,), (2,), (3,)])] * 3]


def test_when_one_lander_raises_exactly_the_others_land_each_once(stand: Stand) -> None:
    """K1, C125: the failed one ran once more, alone, before it counted; what follows it is stale."""
    good, bad, late = stand.running("embed"), stand.running("scan"), stand.running("once")
    calls: list[tuple[str, int]] = []

    def counting(db: Any, view: Any, rows: list[Any]) -> None:
        calls.append((view.kind, rows[0][1]))
        keep_notes(db, view, rows)
        if view.kind == "scan":
            raise ValueError("no room for scans")

    def batch(claimed: Any, seq: int) -> Any:
        return land(claimed, seq, [(claimed.job, seq, "a")], counting)

    with lander_thread(stand.home, monotonic=standing) as thread:
        with one_group(thread):
            posts = [
                batch(good, 1),
                batch(good, 2),
                batch(bad, 1),
                batch(bad, 2),
                batch(late, 1),
                batch(good, 3),
            ]
            replies = [thread.post(post) for post in posts]
        answers = [reply.get(timeout=PATIENCE) for reply in replies]
    raised = answers.pop(2)
    assert isinstance(raised, Raised)
    assert isinstance(raised.error, LanderRaised)
    assert str(raised.error.cause) == "no room for scans"
    assert answers == [Landed.LANDED, Landed.LANDED, Landed.STALE, Landed.LANDED, Landed.LANDED]
    assert [(job, seq) for job, seq, _ in stand.notes()] == [
        (good.job, 1),
        (good.job, 2),
        (good.job, 3),
        (late.job, 1),
    ]
    assert Counter(calls)["scan", 1] == 2
    assert ("scan", 2) not in calls
    assert stand.row(bad.job)["landed_seq"] == 0


def test_whatever_else_is_in_a_failed_group_happens_once(stand: Stand) -> None:
    """K1: claims, finishes and enqueues of the group too."""
    done, bad = stand.running("embed"), stand.running("scan")
    stand.enqueue("once")
    claim = Claim(
        run=1, pid=1, fence="f", ready=frozenset(KINDS), loaded=frozenset(KINDS), order=in_claim_order
    )

    def raising(db: Any, view: Any, rows: Any) -> None:
        raise ValueError

    with lander_thread(stand.home, monotonic=standing) as thread:
        with one_group(thread):
            replies = [
                thread.post(operation)
                for operation in (
                    claim,
                    finish(done),
                    Enqueue(kind="embed", payload="{}"),
                    land(bad, 1, [(1, 2, 3)], raising),
                    Renew(1),
                )
            ]
        claimed, finished, enqueued, raised, renewed = (reply.get(timeout=PATIENCE) for reply in replies)
    assert claimed.claimed.kind == "once"
    assert finished is Finished.HELD
    assert isinstance(raised, Raised)
    assert renewed == 2
    assert stand.query("SELECT id FROM laneway_jobs WHERE id >= ?", enqueued.id) == [(enqueued.id,)]
    assert len(stand.attempts(claimed.claimed.job)) == len(stand.attempts(done.job)) == 1


def test_an_answer_of_a_redone_group_does_not_wait_for_the_rest_of_it(stand: Stand) -> None:
    """K1: each alone is committed, so each is answered."""
    claimed, answered = stand.running(), threading.Event()

    class AfterTheFirstAnswer:
        tries = 0

        def apply(self, tx: Transaction) -> str:
            self.tries += 1
            if self.tries == 1:
                raise ValueError("the group fails")
            assert answered.wait(PATIENCE)
            return "alone"

    with lander_thread(stand.home, monotonic=standing) as thread:
        with one_group(thread):
            thread.lander.submit(land(claimed, 1, [(claimed.job, 1, "a")]), lambda _: answered.set())
            second = thread.post(AfterTheFirstAnswer())
        assert second.get(timeout=PATIENCE) == "alone"
    assert stand.notes() == [(claimed.job, 1, "a")]


class Trick:
    """An operation that ends its own transaction behind the lander's back."""

    def __init__(self, *statements: str) -> None:
        self.statements = statements

    def apply(self, tx: Transaction) -> None:
        for statement in self.statements:
            tx.db.execute(statement)


def test_an_operation_that_ends_the_transaction_counts_for_nothing(stand: Stand) -> None:
    """K1: only if in_transaction held."""
    claimed = stand.running()
    with lander_thread(stand.home, monotonic=standing) as thread:
        with one_group(thread):
            landed = thread.post(land(claimed, 1, [(claimed.job, 1, "a")]))
            lost = thread.post(Trick("ROLLBACK"))
        assert landed.get(timeout=PATIENCE) is Landed.LANDED
        assert isinstance(lost.get(timeout=PATIENCE).error, CommitLost)
        assert isinstance(thread.ask(Trick("ROLLBACK")).error, CommitLost)
        assert thread.ask(land(claimed, 2, [(claimed.job, 2, "b")])) is Landed.LANDED
    assert [seq for _, seq, _ in stand.notes()] == [1, 2]


def test_what_follows_such_an_operation_in_its_group_happens_once(stand: Stand) -> None:
    """K1: outside the transaction it would commit by itself, and be redone."""
    with lander_thread(stand.home, monotonic=standing) as thread:
        with one_group(thread):
            lost = thread.post(Trick("ROLLBACK"))
            reply = thread.post(Enqueue(kind="embed", payload="{}"))
        assert isinstance(lost.get(timeout=PATIENCE).error, CommitLost)
        assert reply.get(timeout=PATIENCE).outcome == "created"
    assert stand.query("SELECT COUNT(*) FROM laneway_jobs") == [(1,)]


@pytest.mark.parametrize(
    ("statement", "said"),
    [("nonsense", "syntax error"), ("INSERT INTO laneway_results VALUES (999, '')", "FOREIGN KEY")],
)
def test_what_sqlite_refuses_is_answered_as_the_stores_own_error(
    stand: Stand, statement: str, said: str
) -> None:
    """A4."""
    with lander_thread(stand.home) as thread:
        error = thread.ask(Trick(statement)).error
        assert type(error) is StoreError
        assert said in str(error)
        assert thread.ask(Enqueue(kind="embed", payload="{}")).outcome == "created"


def test_an_error_at_commit_is_answered_and_rolled_back(stand: Stand) -> None:
    """A2, A4."""
    with lander_thread(stand.home) as thread:
        trick = Trick("PRAGMA defer_foreign_keys = ON", "INSERT INTO laneway_results VALUES (999, '')")
        assert "FOREIGN KEY" in str(thread.ask(trick).error)
        assert thread.ask(Enqueue(kind="embed", payload="{}")).outcome == "created"
    assert stand.query("SELECT * FROM laneway_results") == []


def test_what_an_operation_raises_is_its_answer(stand: Stand) -> None:
    class Unknown:
        def apply(self, tx: Transaction) -> None:
            raise JobNotFound(9)

    with lander_thread(stand.home) as thread:
        assert isinstance(thread.ask(Unknown()).error, JobNotFound)


def test_closing_finishes_what_waits_and_gives_the_store_back(stand: Stand) -> None:
    with lander_thread(stand.home, monotonic=standing) as thread, one_group(thread):
        replies = [thread.post(Enqueue(kind="embed", payload="{}")) for _ in range(5)]
    assert [reply.get(timeout=PATIENCE).outcome for reply in replies] == ["created"] * 5
    assert not (stand.home / "store.db-wal").exists()
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        thread.lander._db.execute("SELECT 1")


def test_a_stuck_operation_does_not_hold_up_close(stand: Stand) -> None:
    """K11: it says that the thread did not come back."""
    opened, entered = threading.Event(), threading.Event()

    class Stuck:
        def apply(self, tx: Transaction) -> None:
            entered.set()
            opened.wait(PATIENCE)

    with lander_thread(stand.home) as thread:
        thread.post(Stuck())
        assert entered.wait(PATIENCE)
        assert not thread.lander.close(0.01)
        opened.set()


class Eight:
    """Eight attempts, a batch each: the third lander raises, the fifth fills the disk, the sixth commits."""

    def __init__(self, stand: Stand) -> None:
        self.claimed = [stand.running("embed") for _ in range(8)]
        self.calls: Counter[int] = Counter()

    def batches(self) -> list[Any]:
        return [land(one, 1, [(one.job, 1, "a")], self.lander) for one in self.claimed]

    def lander(self, db: Any, view: Any, rows: list[Any]) -> None:
        nth = self.claimed.index(view) + 1
        self.calls[nth] += 1
        keep_notes(db, view, rows)
        if nth == 3:
            raise ValueError("not this one")
        if nth == 5:
            db.execute("INSERT INTO notes VALUES (?, 2, zeroblob(1000000))", (view.job,))
        if nth == 6:
            db.execute("COMMIT")


def test_of_eight_batches_exactly_the_right_ones_land_each_once(stand: Stand) -> None:
    """K1, E5: the full disk is SQLite's own, and the fifth lands as soon as there is room."""
    eight = Eight(stand)
    with lander_thread(stand.home, monotonic=standing) as thread:
        (pages,) = thread.lander._db.execute("PRAGMA page_count").fetchone()
        with one_group(thread):
            thread.lander._db.execute(f"PRAGMA max_page_count = {pages + 20}")
            replies = [thread.post(batch) for batch in eight.batches()]
        notice = thread.notices.get(timeout=PATIENCE)
        assert (notice.code, notice.fatal) == ("store_full", False)
        assert [seq for _, seq, _ in stand.notes()] == [1, 1, 1], "the first, the second, the fourth"
        thread.lander._db.execute(f"PRAGMA max_page_count = {pages + 1000}")
        answers = [reply.get(timeout=PATIENCE) for reply in replies]
        assert thread.notices.empty()
    assert [nth for nth, answer in enumerate(answers, 1) if answer is Landed.LANDED] == [1, 2, 4, 5, 7, 8]
    causes = [answers[nth - 1].error.cause for nth in (3, 6)]
    assert [type(cause) for cause in causes] == [ValueError, Refused]
    jobs = [one.job for one in eight.claimed]
    landed = [(jobs[nth - 1], 1) for nth in (1, 2, 4, 5, 7, 8)]
    assert [(job, seq) for job, seq, _ in stand.notes()] == sorted([*landed, (jobs[4], 2)])
    assert [stand.row(job)["landed_seq"] for job in jobs] == [1, 1, 0, 1, 1, 0, 1, 1]
    assert eight.calls[3] == 2, "it ran once more, alone, before it counted"


def test_a_batch_that_commits_behind_the_stores_back_is_refused_too(stand: Stand) -> None:
    """K1: whoever finds the connection may not end its transaction either."""
    first, second = stand.running("embed"), stand.running("embed")

    def sly(db: Any, view: Any, rows: list[Any]) -> None:
        keep_notes(db, view, rows)
        db._tx.db.commit()

    with lander_thread(stand.home, monotonic=standing) as thread:
        with one_group(thread):
            good = thread.post(land(first, 1, [(first.job, 1, "a")]))
            bad = thread.post(land(second, 1, [(second.job, 1, "a")], sly))
        assert good.get(timeout=PATIENCE) is Landed.LANDED
        assert isinstance(bad.get(timeout=PATIENCE).error, LanderRaised)
    assert stand.notes() == [(first.job, 1, "a")]
    assert stand.row(second.job)["landed_seq"] == 0


def test_fault_points_lie_around_each_operation_and_around_commit(stand: Stand) -> None:
    """A22, K1: the names that a test may arm, in the order in which they are reached."""
    claimed, points = stand.running(), list[str]()
    with lander_thread(stand.home, monotonic=standing, reach=points.append) as thread:
        with one_group(thread):
            thread.post(land(claimed, 1, [(claimed.job, 1, "a")]))
            last = thread.post(finish(claimed, last_seq=1))
        assert last.get(timeout=PATIENCE) is Finished.HELD
    applied = ["other.begin", "other.applied", "land.begin", "land.applied", "finish.begin", "finish.applied"]
    committed = ["other.committed", "land.committed", "finish.committed"]
    assert points == ["begin", *applied, "commit", *committed]
    assert set(points) < set(POINTS)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_what_dies_between_commit_and_answer_is_not_redone(stand: Stand) -> None:
    """K1: the group has happened; the lander ends, and the next start finds it landed."""
    claimed = stand.running()

    def reach(point: str) -> None:
        if point == "land.committed":
            raise RuntimeError(point)

    with lander_thread(stand.home, reach=reach) as thread:
        reply = thread.post(land(claimed, 1, [(claimed.job, 1, "a")]))
        assert thread.notices.get(timeout=PATIENCE).code == "lander_died"
    assert reply.empty()
    assert stand.notes() == [(claimed.job, 1, "a")]
