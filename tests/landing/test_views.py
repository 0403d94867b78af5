"""What people ask of a store is what was written to it, and never too much of it."""

from contextlib import closing
from importlib.resources import files
from inspect import isfunction
from pathlib import Path
from typing import Any

import pytest

from landing import views
from landing.connect import make_home, open_writer, store_path
from landing.errors import JobNotFound
from landing.lease import Start
from landing.ledger import Report
from landing.snapshot import snapshot
from landing.transaction import Transaction
from policies.job import ENDED, MICROS, Outcome, State
from policies.transitions import Move
from policies.verdict import Verdict
from tests.landing.stand import START, Stand


def see(stand: Stand, view: Any, *args: Any, **more: Any) -> Any:
    with snapshot(stand.home) as db:
        return view(db, *args, **more)


def test_a_job_is_shown_with_its_result_and_without_its_fence(stand: Stand) -> None:
    """C95, C73, U40."""
    claimed = stand.running()
    stand.land(claimed, 1, (claimed.job, 1, "a"), point={"mark": "m", "skip": 0, "digest": b""})
    shown = see(stand, views.job, claimed.job)
    row = stand.row(claimed.job)
    hidden = {"fence", "digest", "group_id", "discards", "identity", "exclusive"}
    hidden |= {"pid", "rows_before", "landed_at"}
    assert set(shown) == set(row) - hidden | {"result"}
    assert all(shown[name] == row[name] for name in set(row) - hidden)
    assert shown["result"] is None
    stand.finish(claimed, last_seq=1, result="[1]")
    assert see(stand, views.job, claimed.job)["result"] == "[1]"


def test_no_view_shows_a_fence(stand: Stand) -> None:
    """U40."""
    claimed = stand.running()
    shown = [
        see(stand, views.job, claimed.job),
        see(stand, views.jobs),
        see(stand, views.attempts, claimed.job),
        see(stand, views.in_flight),
        see(stand, views.last_run),
    ]
    assert claimed.fence not in repr(shown)


@pytest.mark.parametrize("job", [1, 0, -1, 2**63, 10**30])
def test_a_job_that_is_not_there_is_a_key_error(stand: Stand, job: int) -> None:
    """C95, A5."""
    with pytest.raises(KeyError), snapshot(stand.home) as db:
        views.job(db, job)
    with pytest.raises(JobNotFound, match=f"^no job #{job}$"):
        see(stand, views.job, job)
    assert see(stand, views.attempts, job) == see(stand, views.events, job) == []


def test_jobs_are_listed_newest_first_by_page_state_and_kind(stand: Stand) -> None:
    """C95."""
    ids = [stand.enqueue(kind) for kind in ("embed", "scan", "embed", "scan")]
    stand.cancel(ids[1])

    def listed(**filters: Any) -> list[int]:
        return [ids.index(row["id"]) for row in see(stand, views.jobs, **filters)]

    assert listed() == [3, 2, 1, 0]
    assert listed(limit=2) == [3, 2]
    assert listed(limit=2, before=ids[2]) == [1, 0]
    assert listed(before=ids[0]) == listed(before=0) == listed(before=-5) == []
    assert listed(before=10**30) == [3, 2, 1, 0]
    assert listed(state="queued") == [3, 2, 0]
    assert listed(state="cancelled", kind="scan") == [1]
    assert listed(kind="embed") == [2, 0]
    assert listed(kind="nobody") == listed(state="nowhere") == []


def test_jobs_are_listed_by_tag_and_what_else_is_asked_for(stand: Stand) -> None:
    """C95."""
    asked = [("embed", "a"), ("scan", "a"), ("embed", "b"), ("embed", "a"), ("embed", None)]
    ids = [stand.enqueue(kind, tag=tag) for kind, tag in asked]
    stand.cancel(ids[0])

    def listed(**filters: Any) -> list[int]:
        return [ids.index(row["id"]) for row in see(stand, views.jobs, **filters)]

    assert listed(tag="a") == [3, 1, 0]
    assert listed(tag="a", before=ids[3], limit=1) == [1]
    assert listed(tag="a", kind="embed") == [3, 0]
    assert listed(tag="a", kind="embed", state="queued") == [3]
    assert listed(tag="b", state="cancelled") == listed(tag="none") == []


@pytest.fixture
def first_schema(home: Path) -> Stand:
    """A store as the first version left it: one kind, one queued job with a tag."""
    script = files("landing").joinpath("migrations/0001.sql").read_text("utf-8")
    make_home(home)
    with closing(open_writer(store_path(home))) as db:
        db.executescript(script)
        db.execute("INSERT INTO laneway_meta VALUES ('schema', '1')")
        db.execute("INSERT INTO laneway_kinds VALUES ('embed', 'app', '{}', 1)")
        db.execute("INSERT INTO laneway_groups VALUES (1, 'embed', 50, '', 0)")
        db.execute("INSERT INTO laneway_runs VALUES (1, 7, 'boot', '0', 'm', 1, 2, 1, 0)")
        db.execute(
            "INSERT INTO laneway_jobs"
            " (kind, tag, state, group_id, priority, payload, created_at, waiting_since)"
            " VALUES ('embed', 't', 'queued', 1, 50, '{}', 1, 1)"
        )
    return Stand(home)


VIEWS: list[tuple[Any, dict[str, Any]]] = [
    *[(view, {}) for view in (views.counts, views.kinds, views.last_run, views.in_flight, views.waiting)],
    *[(view, {}) for view in (views.pending, views.jobs, views.data_version, views.free_bytes)],
    *[(view, {}) for view in (views.deferred, views.exclusive, views.holds, views.declared)],
    *[(view, {"job_id": 1}) for view in (views.job, views.attempts, views.events)],
    *[(views.jobs, {name: value}) for name, value in (("tag", "t"), ("kind", "embed"), ("state", "queued"))],
    *[(views.prunable, {"before": 9, "states": ENDED, "tag": tag}) for tag in (None, "t")],
    (views.ended_since, {"since": 0}),
    (views.has_migrated, {"app": "app"}),
    (views.discard, {"job_id": 1}),
    (views.ids, {"state": "queued", "tag": "t"}),
    (views.survivors, {"since": 0}),
    (views.held, {"run": {"id": 1, "started_at": 1}}),
]
NOTHING: list[tuple[Any, dict[str, Any]]] = [
    (views.last_code, {"job_id": 1}),
    (views.next_wake, {}),
    (views.routed, {"kind": "embed"}),
    (views.stopping_since, {"run": {"id": 1, "started_at": 1}}),
]


@pytest.mark.parametrize(
    ("view", "args"), VIEWS, ids=[f"{v.__name__} {sorted(a)}{n}" for n, (v, a) in enumerate(VIEWS)]
)
def test_every_view_works_on_a_store_of_the_first_schema(
    first_schema: Stand, view: Any, args: dict[str, Any]
) -> None:
    """C97: a store that no newer supervisor has opened yet."""
    found = see(first_schema, view, **args)
    if view is views.jobs:
        assert [row["id"] for row in found] == [1]
    if view is views.discard:
        assert found == {"due": False, "possible": False}
    assert found is not None


@pytest.mark.parametrize(("view", "args"), NOTHING, ids=[view.__name__ for view, _ in NOTHING])
def test_a_store_of_the_first_schema_has_no_answer_yet(
    first_schema: Stand, view: Any, args: dict[str, Any]
) -> None:
    """C97."""
    assert see(first_schema, view, **args) is None


def test_every_view_is_asked_on_the_first_schema() -> None:
    """C97: a new view is in the list."""
    helpers = {
        "rows",
        "page_of",
        "mapping",
        "shown",
        "shown_json",
        "whole",
        "is_whole",
        "as_id",
        "version",
        "names",
    }
    every = {name for name, value in vars(views).items() if isfunction(value)} - helpers
    assert every == {view.__name__ for view, _ in VIEWS + NOTHING}


def test_what_may_go_is_counted_to_a_bound(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    """C97."""
    for _ in range(3):
        stand.finish(stand.running())
    monkeypatch.setattr(views, "MOST_PRUNABLE", 2)
    assert see(stand, views.prunable, stand.now + 1, ENDED) == 2
    assert see(stand, views.prunable, stand.now + 1, {State.FAILED}) == 0


@pytest.mark.parametrize(("asked", "given"), [(0, 1), (-7, 1), (1000, 1000), (10**9, 1000)])
def test_a_page_of_jobs_is_bounded(stand: Stand, asked: int, given: int) -> None:
    """C97."""
    columns = "kind, state, group_id, priority, payload, created_at, waiting_since"

    class Fill:
        def apply(self, tx: Transaction) -> None:
            row = ("embed", "queued", 1, 50, "{}", START, START)
            tx.db.executemany(f"INSERT INTO laneway_jobs ({columns}) VALUES (?,?,?,?,?,?,?)", [row] * 1001)

    stand.enqueue()
    stand.write(Fill())
    assert len(see(stand, views.jobs, limit=asked)) == given
    assert see(stand, views.waiting) == [{"kind": "embed", "oldest": START, "jobs": 1000}]


def test_attempts_carry_what_their_receipts_say(stand: Stand) -> None:
    """A30, U10."""
    claimed = stand.running()
    error = {"type": "ValueError", "message": "no", "traceback": "..."}
    world = {"spawn": "template", "kill": "guardian", "shield": None, "limits": {"memory_limit": 500_000_000}}
    report = Report(
        outcome=Outcome.FAILED, error_code="failed", error=error, world=world, spent=3, log="tail"
    )
    stand.finish(claimed, Verdict(Move.BACK_OFF, "backoff", wake_at=stand.now), report=report)
    stand.tick(1)
    stand.claim()
    first, second = see(stand, views.attempts, claimed.job)
    assert (first["number"], first["outcome"], first["error_code"], first["error"]) == (
        1,
        "failed",
        "failed",
        error,
    )
    assert (first["spent"], first["log"], first["run_id"], first["pid"]) == (3, "tail", stand.run, 7)
    assert first["world"] == world
    assert (second["number"], second["claimed_at"]) == (2, START + MICROS)
    nothing_yet = ("outcome", "finished_at", "error", "exit", "kill", "world", "log")
    assert {second[name] for name in nothing_yet} == {None}
    assert second["spent"] == 0


def test_only_the_last_attempts_and_the_first_events_are_shown(stand: Stand) -> None:
    """C97."""
    claimed = stand.leased()

    class Many:
        def apply(self, tx: Transaction) -> None:
            for number in range(2, 302):
                tx.run(
                    "INSERT INTO laneway_attempts VALUES (NULL, ?, ?, 1, 1, 'f', 1, 0, 0)",
                    (claimed.job, number),
                )
                tx.run(
                    "INSERT INTO laneway_events (at, job_id, name) VALUES (?, ?, 'e')", (number, claimed.job)
                )

    stand.write(Many())
    assert [one["number"] for one in see(stand, views.attempts, claimed.job)] == list(range(102, 302))
    assert [one["at"] for one in see(stand, views.events, claimed.job)] == list(range(2, 202))


def test_counts_know_only_states_that_have_jobs(stand: Stand) -> None:
    """C95."""
    assert see(stand, views.counts) == {}
    first, _ = stand.enqueue(), stand.enqueue()
    assert see(stand, views.counts) == {"queued": 2}
    stand.cancel(first)
    assert see(stand, views.counts) == {"queued": 1, "cancelled": 1}


def test_kinds_are_shown_with_app_and_options(stand: Stand) -> None:
    kinds = see(stand, views.kinds)
    assert set(kinds) == {"embed", "scan", "fragile", "once"}
    assert kinds["scan"]["app"] == "app"
    assert kinds["scan"]["options"]["priority"] == 100


def test_the_last_run_is_the_newest(stand: Stand) -> None:
    opened = stand.open_run()
    run = see(stand, views.last_run)
    assert (run["id"], run["pid"], run["version"], run["started_at"], run["clean"]) == (
        opened.run,
        7,
        "0",
        START,
        0,
    )


def test_nobody_ran_here_yet(stand: Stand) -> None:
    with closing(open_writer(store_path(stand.home))) as db:
        db.execute("DELETE FROM laneway_runs")
    assert see(stand, views.last_run) is None


def test_in_flight_waiting_and_pending_say_what_is_going_on(stand: Stand) -> None:
    """K14: each with what it waits for."""
    running, leased, failed = stand.running("embed"), stand.leased("scan"), stand.running("once")
    stand.finish(failed, Verdict(Move.BACK_OFF, "backoff", wake_at=stand.now + 9))
    stand.tick(1)
    stand.enqueue("fragile")
    stand.tick(1)
    stand.enqueue("embed")
    stand.enqueue("embed", priority=1)
    flight = see(stand, views.in_flight)
    assert [(row["id"], row["state"]) for row in flight] == [(running.job, "running"), (leased.job, "leased")]
    assert see(stand, views.waiting) == [
        {"kind": "fragile", "oldest": START + MICROS, "jobs": 1},
        {"kind": "embed", "oldest": START + 2 * MICROS, "jobs": 2},
    ]
    assert see(stand, views.pending) == [
        {"kind": "once", "reason": "backoff", "jobs": 1, "wake_at": START + 9}
    ]


def test_what_runs_is_told_with_what_its_attempt_has_done_and_when(stand: Stand) -> None:
    """LESSONS 31, C97: what earlier attempts landed is told apart, the last batch has its time."""
    first = stand.running()
    stand.tick(1)
    stand.land(first, 1, (first.job, 1, "a"), (first.job, 2, "b"))
    [row] = see(stand, views.in_flight)
    assert (row["rows_before"], row["landed_at"], row["pid"]) == (0, START + MICROS, 0)
    stand.finish(first, Verdict(Move.RELEASE, "yielded"), 1, report=Report(outcome=Outcome.YIELDED))
    stand.tick(1)
    again = stand.claim()
    assert stand.write(Start(again.job, again.fence, pid=4711))
    [row] = see(stand, views.in_flight)
    assert (row["rows_before"], row["landed_at"], row["pid"]) == (2, stand.now, 4711)
    stand.tick(1)
    stand.land(again, 2, (again.job, 3, "c"))
    [row] = see(stand, views.in_flight)
    assert (row["landed_rows"], row["rows_before"], row["landed_at"]) == (3, 2, stand.now)


def test_what_ended_lately_is_counted_by_outcome(stand: Stand) -> None:
    """Rates, not levels."""
    stand.finish(stand.running())
    stand.tick(10)
    stand.finish(stand.running())
    stand.fail(stand.running())
    assert see(stand, views.ended_since, START) == {"done": 2, "died": 1}
    assert see(stand, views.ended_since, START + 1) == {"done": 1, "died": 1}


def killed(stand: Stand, survivors: list[int]) -> int:
    """A job whose attempt was killed; return its id."""
    claimed = stand.running()
    report = Report(outcome=Outcome.TIMED_OUT, kill={"reason": "job_deadline", "survivors": survivors})
    stand.finish(claimed, Verdict(Move.FAIL, "not done for 1 s"), report=report)
    return claimed.job


def test_who_outlived_a_kill_is_told_newest_first(stand: Stand) -> None:
    """FIELD A7: and nothing that is no list of processes counts."""
    killed(stand, [5])
    stand.tick(10)
    first, _ = killed(stand, [6, 7]), killed(stand, [])
    stand.tick(1)
    last = killed(stand, [8])
    for odd in ('"abc"', "9", "null", '{"pid": 9}'):
        claimed = stand.running()
        with closing(open_writer(store_path(stand.home))) as db:
            db.execute(
                "INSERT INTO laneway_receipts (attempt_id, job_id, outcome, finished_at, kill)"
                " VALUES (?, ?, 'timed_out', ?, ?)",
                (claimed.attempt, claimed.job, stand.now, f'{{"survivors": {odd}}}'),
            )
    found = see(stand, views.survivors, START + 1)
    assert [(row["id"], row["kill"]["survivors"]) for row in found] == [(last, [8]), (first, [6, 7])]
    assert len(see(stand, views.survivors, START)) == 3


def test_no_more_than_twenty_jobs_are_told_of_those_that_were_outlived(stand: Stand) -> None:
    """C97."""
    jobs = []
    for _ in range(22):
        stand.tick(1)
        jobs.append(killed(stand, [5]))
    assert [row["id"] for row in see(stand, views.survivors, START)] == jobs[:1:-1]


def test_an_app_has_migrated_once_its_scripts_ran(stand: Stand) -> None:
    assert see(stand, views.has_migrated, "app") is True
    assert see(stand, views.has_migrated, "other") is False


def test_data_version_changes_when_somebody_else_has_committed(stand: Stand) -> None:
    """K10."""
    with snapshot(stand.home) as db:
        seen = views.data_version(db)
        assert views.data_version(db) == seen
        stand.enqueue()
        assert views.data_version(db) != seen
