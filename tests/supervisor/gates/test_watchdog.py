"""The watchdog on a real run: made-up readings of memory, real jobs, one worker."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from policies.job import Priority
from supervisor import events
from supervisor.client import Client
from supervisor.probes import watch
from supervisor.run.serve import Served, serve
from tests.supervisor.gates.test_gates import PLENTY, Machine
from tests.supervisor.serving import House, wait_for

APP = str(Path(__file__).with_name("watchful_lanes.py"))
GB = 10**9


class Watched:
    """A home whose supervisor runs in a thread, and counts how often it looks at the memory."""

    def __init__(self, folder: Path, pool: ThreadPoolExecutor) -> None:
        self.house = House(folder, workers=1, app=APP)
        self._machine = Machine()
        self._pool = pool
        self._looks = 0

    def start(self) -> Future[Served]:
        """Serve until idle."""
        return self._pool.submit(
            serve,
            self.house.application,
            self.house.settings,
            until_idle=True,
            report=self.house.events.append,
            probes={**self._machine.probes, "memory": self._look},
        )

    def _look(self) -> Any:
        self._looks += 1
        return self._machine.now["memory"]

    def have(self, available: int) -> None:
        """Have so many bytes available, and wait until the run goes by it: it asks when it has an answer."""
        self._machine.turn(memory=replace(PLENTY, available=available))
        enough = self._looks + 2  # the look that is under way may have seen what was there before
        wait_for(lambda: self._looks >= enough)

    def alarms(self) -> list[dict[str, Any]]:
        """Return the jobs that the watchdog has queued, oldest first."""
        return sorted(Client(self.house.home).jobs(kind="watchdog"), key=lambda job: int(job["id"]))


@pytest.fixture
def watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Watched]:
    monkeypatch.setitem(watch.INTERVALS, "memory", 0.05)
    with ThreadPoolExecutor(1) as pool:
        found = Watched(tmp_path, pool)
        yield found
        for name in ("first", "second"):  # whatever failed, let the run end
            (tmp_path / name).touch()


def claimed_at(house: House, job: int) -> int:
    [attempt] = house.attempts(job)
    assert (attempt["outcome"], attempt["kill"]) == ("done", None)
    return int(attempt["claimed_at"])


def landed_rows(house: House, job: int) -> Callable[[], int]:
    """Return what tells how far a job is."""
    return lambda: int(house.job(job)["landed_rows"])


def test_low_memory_is_one_reactive_job_at_the_next_boundary_and_interrupts_nothing(
    watched: Watched, tmp_path: Path
) -> None:
    """C114, C115, U19, U28: once until there is plenty again, also where it gets still less."""
    house = watched.house
    first = house.enqueue("long", {"until": str(tmp_path / "first")})
    second = house.enqueue("long", {"until": str(tmp_path / "second")})
    served = watched.start()
    rows = landed_rows(house, first)
    wait_for(rows)
    watched.have(2 * GB)
    assert watched.alarms() == [], "as much as the threshold is enough"

    watched.have(2 * GB - 1)  # a change so small is no news, but an alarm
    [alarm] = wait_for(watched.alarms)
    assert (alarm["priority"], alarm["state"]) == (Priority.REACTIVE, "queued")
    before = rows()
    wait_for(lambda: rows() > before)
    watched.have(1 * GB)
    assert [job["id"] for job in watched.alarms()] == [alarm["id"]]

    (tmp_path / "first").touch()
    wait_for(landed_rows(house, second))
    order = [claimed_at(house, first), claimed_at(house, alarm["id"])]
    assert house.query("SELECT n FROM items WHERE job = ?", alarm["id"]) == [(2 * GB,)]
    watched.have(GB // 2)
    assert len(watched.alarms()) == 1, "nor is its end a reason for another"

    watched.have(20 * GB)
    watched.have(1 * GB)
    wait_for(lambda: len(watched.alarms()) == 2)
    (tmp_path / "second").touch()
    assert served.result(40).ended == "idle"
    order += [claimed_at(house, second), claimed_at(house, watched.alarms()[1]["id"])]
    assert order == sorted(order)
    assert [one.text for one in house.of(events.Warned) if one.code == "watchdog"] == [
        "less than 2 GB of memory is available (a table)"
    ] * 2
