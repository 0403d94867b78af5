"""Retention by the supervisor: what is old enough goes, in small steps, and nobody waits for it."""

import queue
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from landing import views
from landing.lander import Lander
from landing.prune import LIMIT
from landing.snapshot import snapshot
from landing.transaction import Operation, Transaction
from policies.job import MICROS
from supervisor import events
from supervisor.application import load_application
from supervisor.attempt.conversation import World
from supervisor.run.upkeep import FINISH_SECONDS, KEPT_PAGES, LOOK_SECONDS, Upkeep
from tests.landing.stand import Gate, lander_thread
from tests.supervisor.serving import House

NOW = 1_700_000_000 * MICROS
PATIENCE = 20.0


class Rig:
    """Upkeep over a real lander; the test turns the clock and takes the answers, as the loop does."""

    def __init__(self, house: House, lander: Lander) -> None:
        self.answers: queue.SimpleQueue[tuple[Any, Any]] = queue.SimpleQueue()
        self.house, self.lander = house, lander
        self.at, self.submitted, self.under_way, self.most = 0.0, 0, 0, 0
        self.events: list[events.Event] = []
        world = World(
            run=1,
            pid=1,
            slots=1,
            monotonic=lambda: self.at,
            now=lambda: NOW,
            fence=str,
            report=self.events.append,
        )
        self.upkeep = Upkeep(world, house.application.kinds, self)  # type: ignore[arg-type]

    def submit(self, operation: Operation[Any], then: Any) -> None:
        """Pass on what the upkeep asks the lander for, counting."""
        self.submitted += 1
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        self.lander.submit(operation, lambda answer: self.answers.put((then, answer)))

    def take(self) -> None:
        then, answer = self.answers.get(timeout=PATIENCE)
        self.under_way -= 1
        then(answer)

    def look(self) -> None:
        """Turn once, and take all answers."""
        self.upkeep.turn(self.at)
        while self.upkeep.busy:
            self.take()

    def left(self) -> list[tuple[str, str]]:
        return self.house.query("SELECT kind, state FROM laneway_jobs ORDER BY id")


@contextmanager
def rig_over(house: House) -> Iterator[Rig]:
    with lander_thread(house.home) as thread:
        yield Rig(house, thread.lander)


def keep(house: House, **kinds: dict[str, float]) -> None:
    """Give kinds their retention."""
    house.settings = replace(house.settings, kinds=kinds)
    house.application = load_application(house.settings)


class Ended:
    """Put `count` ended jobs into the store, without attempts."""

    def __init__(self, kind: str, state: str, age: float, count: int = 1, payload: str = "{}") -> None:
        self.facts = (count, kind, state, payload, NOW - int(age * MICROS))

    def apply(self, tx: Transaction) -> None:
        count, kind, state, payload, finished = self.facts
        tx.run(
            "INSERT INTO laneway_groups (kind, priority, tier, num_ctx) VALUES (?, 50, '', 0)"
            " ON CONFLICT DO NOTHING",
            (kind,),
        )
        tx.run(
            "INSERT INTO laneway_jobs (kind, state, group_id, priority, payload, created_at, waiting_since,"
            " finished_at) WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < ?)"
            " SELECT ?, ?, 1, 50, ?, 1, 1, ? FROM n",
            (count, kind, state, payload, finished),
        )


def test_nothing_is_pruned_unless_a_kind_says_so(house: House) -> None:
    """U33."""
    house.store.write(Ended("quick", "done", age=10**9))
    with rig_over(house) as rig:
        rig.look()
        rig.upkeep.finish(lambda until: None)
        assert (rig.upkeep.next_due(), rig.submitted, rig.events) == (None, 0, [])
        assert rig.left() == [("quick", "done")]


def test_each_kind_keeps_its_own_ends_for_its_own_time(house: House) -> None:
    """U33: done, skipped and cancelled by keep_done, failed and failed_optional by keep_failed."""
    keep(house, quick={"keep_done": 10.0}, paced={"keep_failed": 20.0})
    for kind in ("quick", "paced", "sleepy"):
        for state in ("done", "skipped", "cancelled", "failed", "failed_optional"):
            house.store.write(Ended(kind, state, age=15))
            house.store.write(Ended(kind, state, age=25))
    with rig_over(house) as rig:
        rig.look()
        left = rig.left()
    assert {state for kind, state in left if kind == "quick"} == {"failed", "failed_optional"}
    assert sorted(state for kind, state in left if kind == "paced") == sorted(
        ["done", "skipped", "cancelled"] * 2 + ["failed", "failed_optional"]
    )
    assert sum(kind == "sleepy" for kind, _ in left) == 10
    assert rig.events == [events.Pruned(jobs=8, attempts=0, freed=0)]


def test_it_looks_at_the_start_and_then_once_a_minute(house: House) -> None:
    """U33."""
    keep(house, quick={"keep_done": 10.0})
    with rig_over(house) as rig:
        assert rig.upkeep.next_due() == 0.0
        rig.look()
        assert rig.upkeep.next_due() == LOOK_SECONDS == 60.0
        house.store.write(Ended("quick", "done", age=15))
        rig.at = LOOK_SECONDS - 0.001
        rig.look()
        assert rig.left() == [("quick", "done")]
        rig.at = LOOK_SECONDS
        rig.look()
        assert rig.left() == []


def test_it_asks_for_one_small_prune_at_a_time_until_there_is_no_more(house: House) -> None:
    """U38: it never floods the lander."""
    keep(house, quick={"keep_done": 10.0})
    house.store.write(Ended("quick", "done", age=15, count=2 * LIMIT + 1))
    with rig_over(house) as rig:
        rig.upkeep.turn(0.0)
        assert rig.upkeep.next_due() is None
        rig.upkeep.turn(10 * LOOK_SECONDS)
        rig.look()
        assert rig.left() == []
        assert rig.most == 1
        assert rig.submitted == 3 + 1 + 1  # jobs, runs, pages
        assert rig.events == [events.Pruned(2 * LIMIT + 1, 0, 0)]


def test_free_pages_over_the_threshold_are_given_back(house: House) -> None:
    """E11."""
    keep(house, quick={"keep_done": 10.0})
    house.store.write(Ended("quick", "done", age=15, count=20, payload=f'"{"x" * 1_000_000}"'))
    with rig_over(house) as rig:
        rig.look()
        with snapshot(house.home) as db:
            assert views.free_bytes(db) == KEPT_PAGES * 4096
        (told,) = rig.events
        assert isinstance(told, events.Pruned)
        assert told.jobs == 20
        assert told.freed > 15_000_000


def test_a_prune_that_is_refused_is_told_and_tried_again_at_the_next_look(house: House) -> None:
    """Bad input gets one line."""
    keep(house, quick={"keep_done": 10.0})
    house.store.write(Ended("quick", "done", age=15))

    class Refuse:
        def __init__(self, statement: str) -> None:
            self.statement = statement

        def apply(self, tx: Transaction) -> None:
            tx.run(self.statement)

    house.store.write(
        Refuse("CREATE TRIGGER no BEFORE DELETE ON laneway_jobs BEGIN SELECT RAISE (ABORT, 'mine'); END")
    )
    with rig_over(house) as rig:
        rig.look()
        assert [event.code for event in rig.events if isinstance(event, events.Warned)] == ["prune_failed"]
        assert "mine" in str(rig.events)
        house.store.write(Refuse("DROP TRIGGER no"))
        rig.at = LOOK_SECONDS
        rig.look()
        assert rig.left() == []


def test_an_operation_that_fails_keeps_none_of_the_others_from_its_turn(house: House) -> None:
    """U33: one kind cannot be pruned; the others, the runs and the pages go on, and one line says so."""
    keep(house, quick={"keep_done": 10.0}, paced={"keep_done": 10.0}, sleepy={"keep_done": 10.0})
    for kind in ("quick", "paced", "sleepy"):
        house.store.write(Ended(kind, "done", age=15))

    class Refuse:
        def apply(self, tx: Transaction) -> None:
            tx.run(
                "CREATE TRIGGER no BEFORE DELETE ON laneway_jobs WHEN OLD.kind <> 'sleepy'"
                " BEGIN SELECT RAISE (ABORT, 'mine'); END"
            )

    house.store.write(Refuse())
    with rig_over(house) as rig:
        rig.look()
        assert sorted(rig.left()) == [("paced", "done"), ("quick", "done")]
        assert rig.submitted == 3 + 1 + 1  # kinds, runs, pages
        (warned, pruned) = rig.events
        assert isinstance(warned, events.Warned)
        assert warned.text.startswith("not everything that may go was pruned: ")
        assert warned.text.endswith(": mine; the next look tries again")
        assert pruned == events.Pruned(1, 0, 0)
        rig.at = LOOK_SECONDS
        rig.look()
        assert len(rig.events) == 3, "once a look"


def test_a_run_that_is_over_waits_only_a_moment_for_a_lander_that_is_busy(house: House) -> None:
    """An idle exit is not delayed."""
    keep(house, quick={"keep_done": 10.0})
    house.store.write(Ended("quick", "done", age=15, count=2 * LIMIT))
    with rig_over(house) as rig:
        gate = Gate()
        rig.lander.submit(gate, lambda answer: None)
        turns: list[float] = []

        def turn(until: float) -> None:
            turns.append(until)
            rig.at = until

        rig.at = 5.0
        rig.upkeep.finish(turn)
        assert turns == [5.0 + FINISH_SECONDS]
        assert FINISH_SECONDS < 0.5
        gate.opened.set()
        rig.take()
        assert (rig.submitted, rig.upkeep.busy) == (1, False)
        assert rig.events == [events.Pruned(LIMIT, 0, 0)]


def test_a_supervisor_that_lives_for_seconds_prunes_what_ended_in_its_life(house: House) -> None:
    """U33: run --until-idle."""
    keep(house, quick={"keep_done": 0.000001})
    jobs = [house.enqueue("quick") for _ in range(3)]
    failed = house.enqueue("raises")
    began = time.monotonic()
    assert house.serve().ended == "idle"
    assert time.monotonic() - began < 15
    assert house.query("SELECT id FROM laneway_jobs") == [(failed,)]
    assert sum(event.jobs for event in house.of(events.Pruned)) == len(jobs)
    assert house.query("SELECT COUNT(*) FROM items")[0][0] == 9 + len(house.items(failed))


@pytest.mark.parametrize("flags", [(), ("--json",)], ids=["lines", "json"])
def test_a_run_says_what_it_pruned(tmp_path: Path, flags: tuple[str, ...]) -> None:
    """U33: told in plain lines and as JSON."""
    house = House(tmp_path)
    with (tmp_path / "supervisor.toml").open("a") as file:
        file.write('[kinds.quick]\nkeep_done = "0.01ms"\n')
    house.enqueue("quick")
    out, _ = house.start("--until-idle", *flags).communicate(timeout=PATIENCE)
    assert ('"event": "Pruned"' in out) if flags else ("pruned 1 job with 1 attempt" in out)
