"""Models of tiers on a real run: kept warm in a child, or by a real HTTP server."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from landing import views
from landing.claim import Revive
from landing.snapshot import snapshot
from policies.residency import Ceiling
from policies.routing import BUILT_IN, Tier
from supervisor.application import load_application
from supervisor.run import models, seek
from supervisor.run.serve import Served, serve
from supervisor.settings.gates import Scheduling
from tests.supervisor.gates.test_gates import Machine
from tests.supervisor.residency.model_server import serving
from tests.supervisor.serving import House, wait_for

KEEPING = str(Path(__file__).with_name("keeping_lanes.py"))
GATED = str(Path(__file__).with_name("gated_lanes.py"))
GB = 10**9
MINILM = Tier("minilm", model="minilm", memory=1_000_000_000, window=512, loader="child")


def run(house: House, scheduling: Scheduling | None = None, only: int | None = None) -> Served:
    """Serve until idle, or until one job has ended."""
    settings = replace(house.settings, scheduling=scheduling or house.settings.scheduling)
    return serve(
        load_application(settings),
        settings,
        until_idle=only is None,
        jobs=None if only is None else frozenset({only}),
        report=house.events.append,
        probes=Machine().probes,
    )


def test_a_warm_child_loads_once_for_all_of_its_jobs(tmp_path: Path) -> None:
    """C135's child loader, `ctx.use`."""
    tiers = {**BUILT_IN, "minilm": MINILM}
    house = House(tmp_path, workers=1, app=KEEPING, scheduling=Scheduling(tiers=tiers))
    jobs = [house.enqueue("embed") for _ in range(3)]
    assert run(house).ended == "idle"
    assert {house.job(job)["state"] for job in jobs} == {"done"}
    kept = house.query("SELECT pid, loads FROM kept")
    assert len(kept) == 3
    assert set(kept) == {(kept[0][0], 1)}


def tiers(**memory: int) -> dict[str, Tier]:
    """Return the tiers of a server that has these models."""
    found = {
        name: Tier(tier, model=name, memory=size, window=4096, loader="ollama")
        for (name, size), tier in zip(memory.items(), ("minilm", "qwen"), strict=False)
    }
    return {**BUILT_IN, **{tier.name: tier for tier in found.values()}}


def test_a_model_is_loaded_by_its_server_before_its_job_and_evicted_for_the_next(tmp_path: Path) -> None:
    """C135, C138, C139: measured at the server, not believed."""
    house = House(
        tmp_path, workers=2, app=GATED, scheduling=Scheduling(tiers=tiers(small=8 * GB, large=20 * GB))
    )
    jobs = [house.enqueue(kind, {"rows": 3}) for kind in ("modelled", "other", "modelled")]
    with serving() as server:
        told = Scheduling(
            tiers=tiers(small=8 * GB, large=20 * GB), ceiling=Ceiling(24 * GB), ollama=server.url
        )
        assert run(house, told).ended == "idle"
        loads = [order["model"] for order in server.orders if order["keep_alive"] != 0]
    assert {house.job(job)["state"] for job in jobs} == {"done"}
    assert loads == ["small", "large"], "like jobs go first: one swap"


def test_a_model_over_the_ceiling_defers_its_job_before_any_child_is_given_it(tmp_path: Path) -> None:
    """C136, C137, U29: not failed, no failure counted, seen with its reason; room for it revives it."""
    house = House(
        tmp_path, workers=2, app=GATED, scheduling=Scheduling(tiers=tiers(small=8 * GB, large=20 * GB))
    )
    job, light = house.enqueue("other", {"rows": 3}), house.enqueue("light")
    with serving() as server:
        small = Scheduling(
            tiers=tiers(small=8 * GB, large=20 * GB), ceiling=Ceiling(10 * GB), ollama=server.url
        )
        assert run(house, small).ended == "idle"
        assert [order for order in server.orders if order["keep_alive"] != 0] == []
        row = house.job(job)
        assert (row["state"], row["failures"], row["deferrals"]) == ("deferred", 0, 1)
        assert row["reason"].startswith("ceiling: large would make it 20 of 10 GB")
        assert house.job(light)["state"] == "done"
        house.store.write(Revive())
        run(house, replace(small, ceiling=Ceiling(24 * GB)))
    assert house.job(job)["state"] == "done"


def test_while_a_model_is_refused_the_next_job_of_its_tier_stays_queued_with_that_reason(
    tmp_path: Path,
) -> None:
    """C136, U27, U29: asked at the claim, so that nobody is claimed only to be deferred."""
    both = tiers(small=8 * GB, large=20 * GB)
    house = House(tmp_path, workers=1, app=GATED, scheduling=Scheduling(tiers=both))
    first, second = house.enqueue("other"), house.enqueue("other")
    with serving() as server:
        told = Scheduling(tiers=both, ceiling=Ceiling(10 * GB), ollama=server.url)
        assert run(house, told).ended == "idle"
    rows = [house.job(job) for job in (first, second)]
    assert [(row["state"], row["deferrals"]) for row in rows] == [("deferred", 1), ("queued", 0)]
    assert house.attempts(second) == []
    with snapshot(house.home) as db:
        blocked = (views.last_run(db) or {})["told"]["blocked"]
    [why] = blocked["other"]
    assert (why["gate"], why["text"]) == ("model", rows[0]["reason"])


def test_a_refused_job_goes_on_by_itself_once_another_model_has_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C137, U29: in the same run, long before it would wake."""
    monkeypatch.setattr(models, "LOOK_SECONDS", 0.05)
    monkeypatch.setattr(models, "CALM_SECONDS", 0.05)
    monkeypatch.setattr(seek, "REVIVE_SECONDS", 3600.0)
    pinned = Tier("routing", model="router", memory=8 * GB, window=4096, loader="ollama", pinned=True)
    three = {**tiers(small=8 * GB, large=20 * GB), "routing": pinned}
    house = House(tmp_path, workers=1, app=GATED, scheduling=Scheduling(tiers=three))
    job = house.enqueue("other")
    with ThreadPoolExecutor(1) as pool, serving() as server:
        told = Scheduling(tiers=three, ceiling=Ceiling(24 * GB), ollama=server.url)
        served = pool.submit(run, house, told, only=job)
        try:
            wait_for(lambda: house.job(job)["deferrals"])
            assert [order["model"] for order in server.orders] == ["router"]
            server.resident.clear()
            wait_for(lambda: house.job(job)["state"] == "done", seconds=20)
            assert list(server.resident) == ["large"]
        finally:  # let the run end, whatever failed
            server.resident.clear()
            house.store.write(Revive())
            assert served.result(20).ended == "idle"
    assert len({one["run_id"] for one in house.attempts(job)}) == 1
    assert house.job(job)["failures"] == 0


def test_a_server_that_is_down_defers_and_names_it(tmp_path: Path) -> None:
    """C139: a failed probe is no licence to load."""
    house = House(
        tmp_path, workers=2, app=GATED, scheduling=Scheduling(tiers=tiers(small=8 * GB, large=20 * GB))
    )
    job = house.enqueue("modelled")
    told = Scheduling(tiers=tiers(small=8 * GB, large=20 * GB), ollama="http://127.0.0.1:9")
    assert run(house, told).ended == "idle"
    row = house.job(job)
    assert (row["state"], row["failures"]) == ("deferred", 0)
    assert "127.0.0.1:9" in row["reason"] or "nobody can tell" in row["reason"]
