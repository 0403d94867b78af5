"""When a request is one that is there already: the same for ever, or the same while it waits."""

import multiprocessing
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from landing.enqueue import Enqueue, Enqueued, KeyInUse, Register, RegisterTiers
from landing.sql import queue as sql
from landing.store import Store
from policies.job import MICROS, State
from policies.options import Options
from policies.transitions import Move
from policies.verdict import Verdict
from tests.landing.stand import START, Stand

KINDS = {
    "sync": Options(unique="waiting"),
    "page": Options(unique="forever"),
    "plain": Options(),
}
A_FIELD = '{"root":"/a","deep":true}'
ITS_TWIN = '{"deep":true,"root":"/a"}'


@pytest.fixture
def queue(stand: Stand) -> Stand:
    stand.write(Register("app", KINDS))
    return stand


def ask(stand: Stand, kind: str = "sync", payload: str = A_FIELD, **more: Any) -> Enqueued:
    reply: Enqueued = stand.write(Enqueue(kind=kind, payload=payload, **more))
    return reply


def run(stand: Stand, verdict: Verdict | None = None) -> int:
    """Claim the next job, start it and, where a verdict is given, end it so."""
    claimed = stand.look(loaded=KINDS).claimed
    assert claimed is not None
    assert stand.start(claimed)
    if verdict is not None:
        stand.finish(claimed, verdict)
    return claimed.job


def test_an_equal_request_that_waits_is_returned_instead_of_a_new_row(queue: Stand) -> None:
    """C74, U2."""
    first = ask(queue)
    assert first.outcome == "created"
    assert ask(queue) == Enqueued(first.id, "coalesced")
    assert queue.query("SELECT COUNT(*) FROM laneway_jobs") == [(1,)]


def test_kinds_that_do_not_say_so_always_insert(queue: Stand) -> None:
    """C74, C99: an extra row, never a lost job."""
    assert [ask(queue, "plain").outcome, ask(queue, "plain").outcome] == ["created", "created"]


TAKES_AWAY: dict[str, Callable[[Stand], object]] = {
    State.LEASED: lambda stand: stand.look(loaded=KINDS),
    State.RUNNING: run,
    State.DONE: lambda stand: run(stand, Verdict(Move.COMPLETE, "done")),
    State.FAILED: lambda stand: run(stand, Verdict(Move.FAIL, "failed")),
    State.DEFERRED: lambda stand: run(stand, Verdict(Move.DEFER, "ceiling: full", START + 60 * MICROS)),
    State.CANCELLED: lambda stand: stand.cancel(1),
}


@pytest.mark.parametrize("state", TAKES_AWAY)
def test_only_a_row_that_has_not_begun_absorbs_a_request(queue: Stand, state: str) -> None:
    """C75, U2."""
    first = ask(queue)
    TAKES_AWAY[state](queue)
    assert queue.row(first.id)["state"] == state
    assert ask(queue).outcome == "created"


def test_a_pending_row_absorbs_a_request_too(queue: Stand) -> None:
    """U2: a row that backs off waits as well."""
    first = ask(queue)
    run(queue, Verdict(Move.BACK_OFF, "backoff", START + 60 * MICROS, counts=True))
    assert queue.row(first.id)["state"] == State.PENDING
    assert ask(queue) == Enqueued(first.id, "coalesced")


@pytest.mark.parametrize("other", [{"payload": ITS_TWIN}, {"tier": "big"}, {"key": "k"}])
def test_the_key_is_kind_stored_text_tier_and_key(queue: Stand, other: dict[str, str]) -> None:
    """C76, U39: other key order is another text, and makes an extra row."""
    queue.write(RegisterTiers({"big": 8192}))
    first = ask(queue)
    assert ask(queue, **other).outcome == "created"
    assert ask(queue) == Enqueued(first.id, "coalesced")


def test_the_first_row_wins_and_its_priority_can_only_get_better(queue: Stand) -> None:
    """C77, U16: a more urgent request promotes it, a less urgent one changes nothing."""
    first = ask(queue, priority=100)
    queue.tick(5)
    ask(queue, priority=10)
    ask(queue, priority=50)
    row = queue.row(first.id)
    assert (row["priority"], row["created_at"], row["waiting_since"]) == (10, START, START)
    other = queue.enqueue("plain", priority=20)
    assert run(queue) == first.id
    assert run(queue) == other


@pytest.mark.parametrize("rows", [(), ((1, 1, "x"),)])
def test_a_row_that_has_landed_or_has_a_mark_is_never_a_target(
    queue: Stand, rows: tuple[object, ...]
) -> None:
    """C78: not even promoted; a fresh full pass is inserted beside it."""
    first = ask(queue, priority=100)
    claimed = queue.look(loaded=KINDS).claimed
    assert claimed is not None
    queue.start(claimed)
    queue.land(claimed, 1, *rows, point={"mark": "half", "skip": 0, "digest": b""})
    queue.finish(claimed, Verdict(Move.RELEASE, "yielded"), last_seq=1)
    assert queue.row(first.id)["state"] == State.QUEUED
    assert ask(queue, priority=0).outcome == "created"
    assert queue.row(first.id)["priority"] == 100


def land_a_row(stand: Stand) -> None:
    """Land a row without a mark, and yield."""
    claimed = stand.look(loaded=KINDS).claimed
    assert claimed is not None
    stand.start(claimed)
    stand.land(claimed, 1, (1, 1, "x"))
    stand.finish(claimed, Verdict(Move.RELEASE, "yielded"), last_seq=1)


def have_a_mark(stand: Stand) -> None:
    """Have a mark alone, as from another queue's file."""
    stand.alter("UPDATE laneway_jobs SET mark = 'half'")


@pytest.mark.parametrize(
    ("begin", "begun"), [(land_a_row, (State.QUEUED, 1, None)), (have_a_mark, (State.QUEUED, 0, "half"))]
)
def test_either_a_row_that_has_landed_or_a_mark_is_enough(
    queue: Stand, begin: Callable[[Stand], None], begun: tuple[str, int, str | None]
) -> None:
    """C78, U2: each alone says that a row has begun."""
    first = ask(queue, priority=100)
    begin(queue)
    row = queue.row(first.id)
    assert (row["state"], row["landed_seq"], row["mark"]) == begun
    assert ask(queue, priority=0).outcome == "created"
    assert queue.row(first.id)["priority"] == 100


@pytest.mark.parametrize("kind", ["plain", "sync"])
def test_a_key_alone_means_waiting(queue: Stand, kind: str) -> None:
    """U2."""
    first = ask(queue, kind, key="nightly")
    assert ask(queue, kind, key="nightly") == Enqueued(first.id, "coalesced")
    assert ask(queue, kind, key="weekly").outcome == "created"


def test_a_key_with_another_payload_is_refused_and_nothing_is_written(queue: Stand) -> None:
    """U2: to drop either would lose work."""
    first = ask(queue, "plain", key="nightly", priority=50)
    with pytest.raises(KeyInUse, match=rf"#{first.id}, which waits with another payload; cancel it"):
        ask(queue, "plain", "{}", key="nightly", priority=0)
    assert queue.query("SELECT id, priority FROM laneway_jobs") == [(first.id, 50)]
    run(queue)
    assert ask(queue, "plain", "{}", key="nightly").outcome == "created"


@pytest.mark.parametrize("state", [*TAKES_AWAY, State.QUEUED])
def test_the_same_for_ever_is_one_job_in_any_state(queue: Stand, state: str) -> None:
    """A9, A10, A11, U2, U39: the content counts, not how it is written."""
    first = ask(queue, "page")
    TAKES_AWAY.get(state, lambda _stand: None)(queue)
    assert queue.row(first.id)["state"] == state
    assert ask(queue, "page", ITS_TWIN) == Enqueued(first.id, "existing")
    assert ask(queue, "page", "{}").outcome == "created"


def enqueue_often(home: Path, kind: str, replies: Any) -> None:
    store = Store(home, lambda: START)
    ids = {store.write(Enqueue(kind=kind, payload=A_FIELD)).id for _ in range(20)}
    replies.put(ids)


@pytest.mark.parametrize("kind", ["sync", "page"])
def test_two_processes_that_ask_for_the_same_at_once_get_one_row(queue: Stand, kind: str) -> None:
    """C74, A10, U13."""
    context = multiprocessing.get_context("spawn")
    replies = context.Queue()
    askers = [context.Process(target=enqueue_often, args=(queue.home, kind, replies)) for _ in range(2)]
    for one in askers:
        one.start()
    found = [replies.get(timeout=40) for _ in askers]
    for one in askers:
        one.join(20)
    assert found[0] == found[1]
    assert len(found[0]) == 1


def test_an_identity_is_found_by_its_index_whatever_waits(queue: Stand) -> None:
    """C74: no walk over the queue."""
    for statement in (sql.SAME_EVER, sql.SAME_WAITING):
        (step, *_rest) = queue.query(f"EXPLAIN QUERY PLAN {statement}", "x")
        assert "laneway_jobs_identities (identity=?" in str(step[-1]), step
