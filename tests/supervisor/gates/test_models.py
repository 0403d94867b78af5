"""Models of tiers on a real run: kept warm in a child, or by a real HTTP server."""

from dataclasses import replace
from pathlib import Path

from landing.claim import Revive
from policies.residency import Ceiling
from policies.routing import BUILT_IN, Tier
from supervisor.application import load_application
from supervisor.run.serve import Served, serve
from supervisor.settings.gates import Scheduling
from tests.supervisor.gates.test_gates import Machine
from tests.supervisor.residency.model_server import serving
from tests.supervisor.serving import House

KEEPING = str(Path(__file__).with_name("keeping_lanes.py"))
GATED = str(Path(__file__).with_name("gated_lanes.py"))
GB = 10**9
MINILM = Tier("minilm", model="minilm", memory=1_000_000_000, window=512, loader="child")


def run(house: House, scheduling: Scheduling | None = None) -> Served:
    settings = replace(house.settings, scheduling=scheduling or house.settings.scheduling)
    return serve(
        load_application(settings),
        settings,
        until_idle=True,
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
