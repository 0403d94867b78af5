"""`status`, `show` and a real run: what its gates say reaches the person who asks."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from landing.enqueue import Register
from policies.options import Options
from supervisor.cli.status import screen
from supervisor.told.status import status
from supervisor.told.story import story
from tests.supervisor.gates.test_gates import AWAY, BATTERY, MAINS, Gated
from tests.supervisor.serving import wait_for


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Gated]:
    """A run on battery that goes on until its light job is let go."""
    gated = Gated(tmp_path)
    gated.machine.turn(power=BATTERY)
    gated.house.enqueue("light", {"rows": 100_000, "until": str(tmp_path / "go")})
    thread = threading.Thread(target=gated.serve)
    thread.start()
    yield gated
    (tmp_path / "go").touch()
    thread.join(40)
    assert not thread.is_alive()


def groups(gated: Gated) -> dict[str, Any]:
    return {group["kind"]: group for group in status(gated.house.home)["waiting"]}


def test_a_closed_gate_of_a_live_run_is_the_reason_until_it_opens(served: Gated) -> None:
    """U27, K14, promise 7: the gate, its reading, who said so, what frees the job; `show` says the same."""
    served.house.store.write(Register("elsewhere", {"strange": Options()}))
    heavy, _ = served.house.enqueue("heavy"), served.house.enqueue("strange")
    wait_for(lambda: status(served.house.home)["running"])
    wait_for(lambda: groups(served).get("heavy", {}).get("reason") == "power")
    facts = status(served.house.home)
    [power] = [gate for gate in facts["gates"] if gate["gate"] == "power"]
    assert (power["closed"], power["state"], power["percent"], power["source"]) == (
        *(True, "battery", 61.0, "a battery"),
    )
    assert (facts["slots"], len(facts["running"]), groups(served)["heavy"]["until"]) == (2, 1, "mains")
    assert groups(served)["strange"]["reason"] == "kind_not_loaded"
    assert [one["reason"] for one in story(served.house.home, heavy)["waits"]] == ["power"]
    lines = list(screen(facts | {"next": ""}))
    assert lines[1].startswith(
        "gates   power: battery 61 % (a battery), closed   presence: away 1 h   memory: "
    )
    assert "RUNNING 1 of 2" in lines
    served.machine.turn(power=MAINS, presence=AWAY)
    wait_for(lambda: served.states(heavy) == ["done"], seconds=40)
    assert "heavy" not in groups(served)
