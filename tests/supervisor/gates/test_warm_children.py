"""Models that children keep: who follows whom, and who stays."""

from pathlib import Path

import pytest

from policies.routing import BUILT_IN, Tier
from supervisor.settings.gates import Scheduling
from tests.supervisor.gates.test_models import MINILM, run
from tests.supervisor.serving import House

PAIR = str(Path(__file__).with_name("pair_lanes.py"))
QWEN = Tier("qwen", model="qwen", memory=2_000_000_000, window=4096, loader="child")


@pytest.fixture
def house(tmp_path: Path) -> House:
    scheduling = Scheduling(tiers={**BUILT_IN, "minilm": MINILM, "qwen": QWEN})
    return House(tmp_path, workers=2, app=PAIR, scheduling=scheduling)


def test_a_model_in_a_child_makes_way_for_the_next_and_nobody_is_deferred(house: House) -> None:
    """C135, C138: a child that stands by for the other holds nothing yet."""
    jobs = [house.enqueue(kind) for kind in ("embed", "rank", "embed", "rank")]
    assert run(house).ended == "idle"
    assert [(house.job(job)["state"], house.job(job)["deferrals"]) for job in jobs] == [("done", 0)] * 4
    assert house.query("SELECT max(loads) FROM kept") == [(1,)]


def test_a_warm_child_is_kept_while_jobs_of_its_tier_wait(house: House) -> None:
    """C144, `ctx.use`: all of them by one child, which loads once; those of another tier come after it."""
    for kind in ("embed", "rank", "embed", "embed", "embed"):
        house.enqueue(kind)
    assert run(house).ended == "idle"
    pids = house.query("SELECT pid, count(*) FROM kept GROUP BY pid ORDER BY 2")
    assert [count for _, count in pids] == [1, 4]
