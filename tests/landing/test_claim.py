"""From enqueue to start."""

import threading
from contextlib import closing

import pytest

from landing.claim import ROUNDS
from landing.connect import open_reader, store_path
from landing.enqueue import Register, UnknownKind
from landing.errors import StoreError
from landing.hold import HoldKind
from landing.lease import LEASE_SECONDS, RENEW_SECONDS, Renew
from landing.retry import Retry
from landing.views import data_version
from policies.job import MICROS, Priority
from policies.options import Options
from tests.landing.stand import KINDS, START, Stand


def test_an_enqueued_job_is_queued_with_its_kinds_priority(stand: Stand) -> None:
    """A18, C70, C73, K15: ids ascend."""
    first, second = stand.enqueue("scan", '{"a":1}', tag="t", key="k"), stand.enqueue(priority=3)
    assert second == first + 1
    row = stand.row(first)
    assert (row["state"], row["kind"], row["payload"], row["tag"], row["key"]) == (
        "queued",
        "scan",
        '{"a":1}',
        "t",
        "k",
    )
    assert (row["priority"], stand.row(second)["priority"]) == (100, 3)
    assert row["created_at"] == row["waiting_since"] == START
    assert (row["claims"], row["failures"], row["landed_seq"], row["fence"]) == (0, 0, 0, None)


def test_a_kind_without_a_priority_has_the_default(stand: Stand) -> None:
    """C72."""
    assert stand.row(stand.enqueue("embed"))["priority"] == Priority.DEFAULT


def test_an_unknown_kind_is_refused(stand: Stand) -> None:
    with pytest.raises(UnknownKind, match="unknown kind 'embd'") as refused:
        stand.enqueue("embd")
    assert isinstance(refused.value, StoreError)
    assert refused.value.code == "unknown_kind"


def test_registering_again_writes_only_what_changed(stand: Stand) -> None:
    stand.tick(5)
    stand.write(Register("app", KINDS | {"embed": Options(nice=1)}))
    at = dict(stand.query("SELECT kind, registered_at FROM laneway_kinds"))
    assert at.pop("embed") == START + 5 * MICROS
    assert set(at.values()) == {START}


def test_a_claim_leases_the_row_and_appends_its_attempt(stand: Stand) -> None:
    """A20, C83, C84, U4: each claim has its lease, whatever the kind."""
    job = stand.enqueue(options={"grace": 1.5})
    stand.tick(10)
    claimed = stand.claim()
    row = stand.row(job)
    assert (row["state"], row["claims"], row["run_id"], row["fence"]) == (
        "leased",
        1,
        stand.run,
        claimed.fence,
    )
    assert row["started_at"] is None
    assert (claimed.job, claimed.number, claimed.kind, claimed.payload) == (job, 1, "embed", "{}")
    assert claimed.options == {"grace": 1.5}
    assert (claimed.mark, claimed.skip, claimed.digest, claimed.landed_seq) == (None, 0, b"", 0)
    attempt = "SELECT id, job_id, number, run_id, pid, fence, claimed_at, landed_seq FROM laneway_attempts"
    now = START + 10 * MICROS
    assert stand.query(attempt) == [(claimed.attempt, job, 1, stand.run, 7, claimed.fence, now, 0)]
    assert row["lease_expires_at"] - now == LEASE_SECONDS * MICROS == 60 * MICROS


def test_start_makes_it_running_once(stand: Stand) -> None:
    """A21, A24, U1."""
    claimed = stand.leased()
    stand.tick(2)
    assert stand.start(claimed)
    row = stand.row(claimed.job)
    assert (row["state"], row["started_at"]) == ("running", START + 2 * MICROS)
    stand.tick(1)
    assert not stand.start(claimed)
    assert stand.row(claimed.job) == row


def test_start_needs_the_living_fence(stand: Stand) -> None:
    """A24, K2."""
    claimed = stand.leased()
    stand.cancel(claimed.job)
    assert not stand.start(claimed)
    assert stand.row(claimed.job)["state"] == "leased"


def test_renewal_extends_every_lease_of_the_run_from_now(stand: Stand) -> None:
    """A22."""
    leased, running = stand.leased(), stand.running()
    waiting = stand.enqueue()
    stand.tick(30)
    assert stand.write(Renew(stand.run)) == 2
    for claimed in (leased, running):
        row = stand.row(claimed.job)
        assert row["lease_expires_at"] == stand.now + 60 * MICROS
        assert row["fence"] == claimed.fence
    assert stand.row(waiting)["lease_expires_at"] is None
    assert stand.write(Renew(stand.run + 1)) == 0


@pytest.mark.parametrize("lease", [1, 0, "soon", b"\xff", 2**62])
def test_a_lease_is_no_proof_of_death_but_a_new_run_is(stand: Stand, lease: object) -> None:
    """A26, C85, C89, C92, C93, U3: the queue takes nothing from a living run, whatever its leases hold."""

    class Hold:
        def apply(self, tx: object) -> None:
            tx.run("UPDATE laneway_jobs SET lease_expires_at = ? WHERE state = 'running'", (lease,))  # type: ignore[attr-defined]

    claimed = stand.running()
    stand.write(Hold())
    stand.tick(3600)
    before = stand.row(claimed.job)
    assert stand.look().claimed is None
    assert stand.row(claimed.job) == before
    assert stand.open_run().orphans == (claimed.job,)
    row = stand.row(claimed.job)
    assert (row["state"], row["fence"], row["run_id"], row["lease_expires_at"]) == (
        "queued",
        None,
        None,
        None,
    )
    assert (row["created_at"], row["claims"]) == (before["created_at"], 1)
    (receipt,) = stand.attempts(claimed.job)
    assert (receipt["outcome"], receipt["error_code"]) == ("interrupted", "orphaned")


def test_claims_take_the_best_priority_then_the_oldest_then_the_lower_id(stand: Stand) -> None:
    """C79, U15."""
    background = stand.enqueue("scan")
    first, second = stand.enqueue(), stand.enqueue()
    stand.tick(1)
    urgent, third = stand.enqueue(priority=0), stand.enqueue("once")
    order = [stand.claim().job for _ in range(5)]
    assert order == [urgent, first, second, third, background]
    assert stand.look().claimed is None


def test_a_job_that_waited_long_enough_goes_first(stand: Stand) -> None:
    """C80, C81: and its stored priority stays."""
    old = stand.enqueue("scan")
    stand.tick(9 * 900)
    stand.enqueue(priority=10)
    assert stand.claim().job == old
    assert stand.row(old)["priority"] == 100


def test_a_claim_takes_only_kinds_with_a_ready_child_and_says_what_else_it_wants(stand: Stand) -> None:
    """K13, K14."""
    stand.enqueue("scan")
    other = stand.enqueue("once")
    reply = stand.look("once")
    assert reply.claimed is not None
    assert (reply.claimed.job, [one.kind for one in reply.wanted]) == (other, ["scan"])
    reply = stand.look("once")
    assert (reply.claimed, [one.kind for one in reply.wanted]) == (None, ["scan"])
    reply = stand.look("once", loaded={"once"})
    assert (reply.claimed, reply.wanted) == (None, ())


def test_a_claim_wakes_what_is_due_and_says_when_the_next_will_be(stand: Stand) -> None:
    """A27, U8, K14."""
    claimed = stand.running()
    stand.fail(claimed)
    assert (stand.look().claimed, stand.look().next_wake) == (None, START + 5 * MICROS)
    stand.tick(4.999999)
    assert stand.look().claimed is None
    stand.tick(0.000001)
    again = stand.look()
    assert again.claimed is not None
    assert (again.claimed.job, again.claimed.number, again.claimed.failures) == (claimed.job, 2, 1)
    assert again.next_wake is None


def test_a_wake_of_a_kind_that_is_not_loaded_is_not_waited_for(stand: Stand) -> None:
    """K14: `--until-idle` must come to an end."""
    stand.fail(stand.running("embed"))
    assert stand.look("scan", loaded={"scan"}).next_wake is None
    assert stand.look("scan", loaded={"scan", "embed"}).next_wake == START + 5 * MICROS


def test_claimers_at_the_same_time_never_get_the_same_job(stand: Stand) -> None:
    """U13, A20."""
    jobs = {stand.enqueue() for _ in range(24)}
    start, got = threading.Barrier(4), []

    def take() -> None:
        start.wait()
        got.extend(stand.claim().job for _ in range(6))

    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(got) == sorted(jobs)
    assert stand.query("SELECT COUNT(*), COUNT(DISTINCT job_id) FROM laneway_attempts") == [(24, 24)]


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE laneway_jobs SET state = 'running'",
        "UPDATE laneway_jobs SET state = 'leased', fence = 'x'",
        "UPDATE laneway_jobs SET fence = 'x'",
        "UPDATE laneway_jobs SET lease_expires_at = 1",
        "UPDATE laneway_jobs SET state = 'gone'",
    ],
)
def test_the_schema_itself_ties_a_lease_to_being_in_flight(stand: Stand, statement: str) -> None:
    """C94, U1."""

    class Run:
        def apply(self, tx: object) -> None:
            tx.run(statement)  # type: ignore[attr-defined]

    job = stand.enqueue()
    with pytest.raises(StoreError, match="CHECK constraint failed"):
        stand.write(Run())
    assert stand.row(job)["state"] == "queued"


def strangers(stand: Stand, number: int) -> list[int]:
    """Queue jobs of a kind, and have its declaration lost, as an import finds it."""
    stand.write(Register("app", {"gone": Options()}))
    jobs = [stand.enqueue("gone") for _ in range(number)]
    stand.alter("DELETE FROM laneway_kinds WHERE kind = 'gone'")
    return jobs


def test_a_job_of_a_kind_that_nobody_has_declared_fails_and_can_be_retried(stand: Stand) -> None:
    """U23, A65, C123, K14: handler_missing, whatever else waits; nothing is spent."""
    other, (job,) = stand.enqueue("embed"), strangers(stand, 1)
    reply = stand.look()
    assert reply.claimed is not None
    assert reply.claimed.job == other
    assert [(one.job, one.kind, one.number, one.code) for one in reply.refused] == [
        (job, "gone", 1, "handler_missing")
    ]
    row, [attempt] = stand.row(job), stand.attempts(job)
    assert (row["state"], row["reason"], row["fence"]) == ("failed", reply.refused[0].text, None)
    assert (attempt["outcome"], attempt["error_code"], attempt["spent"]) == ("failed", "handler_missing", 0)
    stand.write(Register("app", {"gone": Options()}))
    stand.write(Retry(job))
    assert stand.look(loaded=["gone"]).claimed is not None


def test_one_of_a_kind_that_is_held_waits_for_who_holds_it(stand: Stand) -> None:
    """U23, U27."""
    (job,) = strangers(stand, 1)
    stand.write(HoldKind("gone", "not yet"))
    assert stand.look().refused == ()
    assert stand.row(job)["state"] == "queued"


def test_a_claim_fails_only_some_of_many_strangers_and_comes_again_at_once(stand: Stand) -> None:
    """U23: others need not wait while it does."""
    jobs = strangers(stand, ROUNDS + 1)
    reply = stand.look()
    assert (len(reply.refused), reply.next_wake) == (ROUNDS, stand.now)
    assert [one.job for one in stand.look().refused] == jobs[ROUNDS:]


def test_a_claim_that_finds_nothing_writes_nothing(stand: Stand) -> None:
    """C97, K13: else a run would wake itself for ever."""
    stand.look()
    with closing(open_reader(store_path(stand.home))) as db:
        before = data_version(db)
        stand.look()
        assert data_version(db) == before
        stand.enqueue()
        assert data_version(db) != before


def test_a_lease_outlives_a_renewal_that_is_missed() -> None:
    """U44, A74: nobody can set either."""
    assert LEASE_SECONDS >= 2 * RENEW_SECONDS > 0


def test_a_claim_fails_only_some_of_many_unusable_heads_and_comes_again_at_once(stand: Stand) -> None:
    """U32, K13: what waits behind them need not wait for a wake of its own."""
    bad = [stand.enqueue() for _ in range(ROUNDS + 1)]
    good = stand.enqueue()
    stand.alter("UPDATE laneway_jobs SET payload = x'ff' WHERE id <> ?", good)
    reply = stand.look()
    assert reply.claimed is None
    assert [one.job for one in reply.refused] == bad[:ROUNDS]
    assert (reply.next_wake, reply.next_try) == (stand.now, stand.now)
    again = stand.look()
    assert again.claimed is not None
    assert (again.claimed.job, [one.job for one in again.refused]) == (good, bad[ROUNDS:])
    assert (again.next_wake, again.next_try) == (None, None)
