"""Gates on a real run: made-up readings of the machine, real jobs, real children."""

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from landing import views
from landing.hold import HoldKind, UnholdKind
from landing.snapshot import snapshot
from policies.gates.vocabulary import Limits
from policies.readings import MemoryReading, Power, PowerReading, PresenceReading
from policies.routing import BUILT_IN, Tier
from supervisor.client import Client
from supervisor.run.serve import serve
from supervisor.settings.gates import Scheduling
from supervisor.told.status import status
from tests.supervisor.serving import House, wait_for

APP = str(Path(__file__).with_name("gated_lanes.py"))
AWAY = PresenceReading(3600.0, "nobody moves")
HERE = PresenceReading(1.0, "a key was pressed")
MAINS = PowerReading(Power.MAINS, 80.0, "a plug")
BATTERY = PowerReading(Power.BATTERY, 61.0, "a battery")
LOW = PowerReading(Power.BATTERY, 5.0, "a battery")
PLENTY = MemoryReading(20_000_000_000, 24_000_000_000, 0.0, "a table")
SHORT = MemoryReading(3_000_000_000, 24_000_000_000, 0.0, "a table")
MINILM = Tier("minilm", model="minilm", memory=1_000_000_000, window=512)
QWEN = Tier("qwen", model="qwen", memory=2_000_000_000, window=4096)


class Machine:
    """What the probes of a run say; `turn` changes it."""

    def __init__(self) -> None:
        self.now: dict[str, Any] = {"presence": AWAY, "power": MAINS, "memory": PLENTY}

    def turn(self, **readings: Any) -> None:
        self.now |= readings

    @property
    def probes(self) -> dict[str, Callable[[], Any]]:
        return {name: lambda name=name: self.now[name] for name in self.now}


class Gated:
    """A home whose supervisor runs in a thread, over a machine that obeys the test."""

    def __init__(self, folder: Path) -> None:
        tiers = {**BUILT_IN, "minilm": MINILM, "qwen": QWEN}
        limits = Limits(memory_reserve=2_000_000_000)
        self.house = House(
            folder, workers=2, app=APP, scheduling=Scheduling(limits=limits, tiers=tiers, quantum=0.2)
        )
        self.machine = Machine()
        self.told: list[Any] = []

    def serve(self) -> Any:
        """Serve until idle."""
        return serve(
            self.house.application,
            self.house.settings,
            until_idle=True,
            report=self.told.append,
            probes=self.machine.probes,
        )

    def have_quiet(self, start: int, end: int) -> None:
        """Have quiet hours, minutes from midnight, for the runs to come."""
        scheduling = self.house.settings.scheduling
        limits = replace(scheduling.limits, quiet=((start, end),))
        self.house.settings = replace(self.house.settings, scheduling=replace(scheduling, limits=limits))

    def states(self, *jobs: int) -> list[str]:
        return [self.house.job(job)["state"] for job in jobs]

    def blockers(self) -> dict[str, list[str]]:
        """Return what the run told of who is held back by what."""
        with snapshot(self.house.home) as db:
            told = views.last_run(db)["told"]
        return {kind: [one["gate"] for one in why] for kind, why in told["blocked"].items()} if told else {}


@pytest.fixture
def gated(tmp_path: Path) -> Gated:
    return Gated(tmp_path)


@pytest.mark.parametrize(
    ("readings", "gate"),
    [
        ({"presence": HERE}, "presence"),
        ({"presence": PresenceReading(None, "no answer")}, "presence"),
        ({"power": BATTERY}, "power"),
        ({"power": PowerReading(Power.UNKNOWN, None, "no answer")}, "power"),
    ],
)
def test_heavy_work_waits_with_its_reason_and_light_work_goes_on(
    gated: Gated, readings: dict[str, Any], gate: str
) -> None:
    """C60, C61, C63, C128, C130, C134, U27, U28: unknown holds back, too."""
    gated.machine.turn(**readings)
    heavy, light = gated.house.enqueue("heavy"), gated.house.enqueue("light")
    assert gated.serve().ended == "idle"
    assert gated.states(heavy, light) == ["queued", "done"]
    assert gated.blockers() == {"heavy": [gate]}
    gated.machine.turn(presence=AWAY, power=MAINS)
    gated.serve()
    assert gated.states(heavy) == ["done"]


def test_below_the_power_floor_nothing_at_all_starts_and_control_comes_back(gated: Gated) -> None:
    """C132: not even a row in flight is left behind."""
    gated.machine.turn(power=LOW)
    job = gated.house.enqueue("light")
    assert gated.serve().ended == "idle"
    assert (gated.states(job), gated.house.attempts(job)) == (["queued"], [])
    gated.machine.turn(power=replace(LOW, percent=20.0))
    gated.serve()
    assert gated.states(job) == ["done"]


def test_what_may_need_more_memory_than_is_free_waits_until_it_is(gated: Gated) -> None:
    """The memory gate: available, less what is promised, less the reserve."""
    gated.machine.turn(memory=replace(SHORT, available=2_500_000_000))
    job = gated.house.enqueue("large")
    gated.serve()
    assert (gated.states(job), gated.blockers()) == (["queued"], {"large": ["memory"]})
    gated.machine.turn(memory=SHORT)
    gated.serve()
    assert gated.states(job) == ["done"]


def test_a_kind_that_is_held_waits_with_the_reason_that_was_given(gated: Gated) -> None:
    """U27, K14."""
    job = gated.house.enqueue("light")
    gated.house.store.write(HoldKind("light", "the disk is being copied"))
    gated.serve()
    assert (gated.states(job), gated.blockers()) == (["queued"], {"light": ["held"]})
    gated.house.store.write(UnholdKind("light"))
    gated.serve()
    assert gated.states(job) == ["done"]


@pytest.fixture
def midday(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Live where it is between noon and one, whenever that is."""
    west = time.gmtime().tm_hour - 12
    monkeypatch.setenv("TZ", f"HERE{west:+d}")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("midday")
def test_quiet_hours_of_this_minute_hold_heavy_work_and_those_of_another_do_not(gated: Gated) -> None:
    """A46, U12, U27: by the local time of the claim, not by midnight's."""
    heavy, light = gated.house.enqueue("heavy"), gated.house.enqueue("light")
    gated.have_quiet(10 * 60, 15 * 60)
    assert gated.serve().ended == "idle"
    assert gated.states(heavy, light) == ["queued", "done"]
    assert gated.blockers() == {"heavy": ["quiet"]}
    gated.have_quiet(22 * 60, 7 * 60)
    gated.serve()
    assert gated.states(heavy) == ["done"]


def overlaps(gated: Gated, *jobs: int) -> bool:
    """Tell whether two of the jobs were in flight at once."""
    spans = sorted(
        (one["claimed_at"], one["finished_at"]) for job in jobs for one in gated.house.attempts(job)
    )
    return any(later[0] < earlier[1] for earlier, later in pairwise(spans))


def test_no_more_of_a_kind_run_at_once_than_it_allows(gated: Gated) -> None:
    """U37's neighbour: two slots are free, one is used."""
    jobs = [gated.house.enqueue("single", {"rows": 200}) for _ in range(3)]
    gated.serve()
    assert gated.states(*jobs) == ["done"] * 3
    assert not overlaps(gated, *jobs)


def test_while_one_model_is_in_use_no_other_is_loaded_beside_it(gated: Gated) -> None:
    """C129, C135."""
    jobs = [gated.house.enqueue(kind, {"rows": 200}) for kind in ("modelled", "other", "modelled", "other")]
    gated.serve()
    assert gated.states(*jobs) == ["done"] * 4
    assert not overlaps(gated, jobs[0], jobs[1])
    assert not overlaps(gated, jobs[2], jobs[3])


@pytest.fixture
def running(gated: Gated) -> Iterator[Callable[[], None]]:
    """Serve in another thread, where no signals are; the test waits for its end."""
    threads: list[threading.Thread] = []

    def start() -> None:
        threads.append(threading.Thread(target=gated.serve))
        threads[0].start()

    yield start
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()
    gated.machine.turn(presence=AWAY, power=MAINS, memory=PLENTY)


@pytest.mark.parametrize("kind", ["yielding"])
def test_a_job_whose_gate_closes_yields_after_the_next_batch_and_goes_on_when_it_opens(
    gated: Gated, running: Callable[[], None], kind: str, tmp_path: Path
) -> None:
    """C133, U42: no failure is counted, every row lands once, nothing is killed."""
    go = tmp_path / "go"
    job = gated.house.enqueue(kind, {"rows": 50_000, "until": str(go)})
    running()
    wait_for(lambda: gated.house.job(job)["landed_rows"] > 100)
    gated.machine.turn(power=BATTERY)
    wait_for(lambda: gated.states(job) == ["queued"], seconds=40)
    at_rest = gated.house.job(job)
    assert (at_rest["failures"], at_rest["reason"]) == (0, "yielded")
    [attempt] = gated.house.attempts(job)
    assert (attempt["outcome"], attempt["kill"]) == ("yielded", None)
    go.touch()
    gated.machine.turn(power=MAINS)
    again = threading.Thread(target=gated.serve)
    wait_for(lambda: status(gated.house.home)["supervisor"]["state"] != "up")
    again.start()
    again.join(40)
    assert gated.states(job) == ["done"]
    assert gated.house.query("SELECT count(*), count(DISTINCT n) FROM items") == [(50_000, 50_000)]


def test_power_never_stops_what_runs_already(
    gated: Gated, running: Callable[[], None], tmp_path: Path
) -> None:
    """C133: a kind that does not yield finishes on battery."""
    go = tmp_path / "go"
    job = gated.house.enqueue("heavy", {"rows": 2_000, "until": str(go)})
    running()
    wait_for(lambda: gated.house.job(job)["landed_rows"] > 10)
    gated.machine.turn(power=LOW, presence=HERE)
    go.touch()
    wait_for(lambda: gated.states(job) == ["done"])
    [attempt] = gated.house.attempts(job)
    assert (attempt["outcome"], attempt["kill"]) == ("done", None)


def test_a_long_job_makes_way_for_what_has_waited_and_then_goes_on(
    gated: Gated, running: Callable[[], None], tmp_path: Path
) -> None:
    """K12: past its quantum, with better work waiting and no slot free."""
    go = tmp_path / "go"
    long = [gated.house.enqueue("light", {"rows": 100_000, "until": str(go)}) for _ in range(2)]
    running()
    wait_for(lambda: all(gated.house.job(job)["landed_rows"] for job in long))
    better = Client(gated.house.home).enqueue("light", {"rows": 1}, priority=10).id
    wait_for(lambda: gated.states(better) == ["done"], seconds=40)
    go.touch()
    wait_for(lambda: gated.states(*long) == ["done", "done"], seconds=40)
    outcomes = sorted(one["outcome"] for job in long for one in gated.house.attempts(job))
    assert outcomes[-1] == "yielded"
    assert {gated.house.job(job)["failures"] for job in long} == {0}


def test_a_tier_that_a_job_brings_along_has_its_gates_and_its_readings(gated: Gated) -> None:
    """U27: judged by the job's own tier, also where its kind needs no reading at all."""
    job = Client(gated.house.home).enqueue("light", {"rows": 1}, tier="synthesis").id
    gated.serve()
    assert gated.states(job) == ["done"]
    gated.machine.turn(presence=HERE)
    later = Client(gated.house.home).enqueue("light", {"rows": 1}, tier="synthesis").id
    gated.serve()
    assert (gated.states(later), gated.blockers()) == (["queued"], {"light": ["presence"]})


def test_a_kind_that_is_held_gives_back_the_slots_of_its_jobs_where_they_yield(
    gated: Gated, running: Callable[[], None], tmp_path: Path
) -> None:
    """K14, C133: also while no slot is free and nothing is claimed."""
    go = tmp_path / "go"
    jobs = [gated.house.enqueue("yields_light", {"rows": 50_000, "until": str(go)}) for _ in range(2)]
    running()
    wait_for(lambda: all(gated.house.job(job)["landed_rows"] for job in jobs))
    Client(gated.house.home).hold_kind("yields_light", "the disk is being copied")
    wait_for(lambda: gated.states(*jobs) == ["queued", "queued"], seconds=40)
    assert {gated.house.job(job)["failures"] for job in jobs} == {0}


def test_a_job_that_would_start_over_is_never_asked_for_its_slot(
    gated: Gated, running: Callable[[], None], tmp_path: Path
) -> None:
    """K12: two of them would take turns for ever; beside them another makes way."""
    go = tmp_path / "go"
    over = gated.house.enqueue("over", {"rows": 100_000, "until": str(go)})
    long = gated.house.enqueue("light", {"rows": 100_000, "until": str(go)})
    running()
    wait_for(lambda: gated.house.job(over)["landed_rows"] and gated.house.job(long)["landed_rows"])
    better = Client(gated.house.home).enqueue("light", {"rows": 1}, priority=10).id
    wait_for(lambda: gated.states(better) == ["done"], seconds=40)
    go.touch()
    wait_for(lambda: gated.states(over, long) == ["done", "done"], seconds=40)
    assert [one["outcome"] for one in gated.house.attempts(over)] == ["done"]
