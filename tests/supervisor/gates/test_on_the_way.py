"""Jobs that are claimed and that no child has yet: their model is loading, or their child is starting."""

import os
import shutil
import signal
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from landing import views
from landing.snapshot import snapshot
from policies.gates.vocabulary import Limits
from policies.residency import Ceiling
from policies.routing import BUILT_IN, Tier
from supervisor import events
from supervisor.cli.cancel import cancelled
from supervisor.client import Client
from supervisor.run.serve import Served, serve
from supervisor.settings.gates import Scheduling
from tests.supervisor.gates.test_gates import SHORT, Machine
from tests.supervisor.residency.model_server import Conversation, ModelServer, serving
from tests.supervisor.serving import House, offspring, wait_for

GATED = str(Path(__file__).with_name("gated_lanes.py"))
SLOW = Path(__file__).with_name("slow_lanes.py")
GB = 10**9
TIERS = {
    **BUILT_IN,
    "minilm": Tier("minilm", model="small", memory=8 * GB, window=4096, loader="ollama"),
    "qwen": Tier("qwen", model="large", memory=20 * GB, window=4096, loader="ollama"),
}


def late(conversation: Conversation) -> None:
    """Load nothing until it is released, and then what comes first."""
    server = conversation.server
    server.hanging.set()
    server.released.wait(60)
    server.misbehave.clear()
    server.hold("small")
    conversation.say(200, b'{"done":true}')


class Loading:
    """A home whose supervisor runs in a thread, and a model server that loads late."""

    def __init__(self, house: House, server: ModelServer, pool: ThreadPoolExecutor) -> None:
        self.house = house
        self.machine = Machine()
        self.server = server
        self._pool = pool
        server.misbehave["/api/generate"] = late

    def start(self, *jobs: int) -> Future[Served]:
        """Serve until idle, or until some jobs have ended."""
        only = frozenset(jobs) if jobs else None
        return self._pool.submit(
            serve,
            self.house.application,
            self.house.settings,
            until_idle=not jobs,
            jobs=only,
            report=self.house.events.append,
            probes=self.machine.probes,
        )

    def state(self, job: int) -> str:
        return str(self.house.job(job)["state"])

    def told(self) -> dict[str, Any]:
        """Return what the run has told of its gates and models."""
        with snapshot(self.house.home) as db:
            return dict((views.last_run(db) or {}).get("told") or {})

    def jobs_of_models(self) -> list[int]:
        """Return how many jobs hold each model in memory, as the run has told."""
        models = self.told().get("models") or {}
        return [one["jobs"] for one in models.get("residents") or ()]


@contextmanager
def loading(folder: Path, app: str = GATED, workers: int = 1) -> Iterator[Loading]:
    """Set it up; what hangs is let go before the run is waited for."""
    with ThreadPoolExecutor(1) as pool, serving() as server:
        limits, ceiling = Limits(memory_reserve=2 * GB), Ceiling(24 * GB)
        scheduling = Scheduling(limits=limits, tiers=TIERS, ceiling=ceiling, ollama=server.url)
        yield Loading(House(folder, workers=workers, app=app, scheduling=scheduling), server, pool)


@pytest.fixture
def held(tmp_path: Path) -> Iterator[Loading]:
    with loading(tmp_path) as found:
        yield found


def workers() -> list[int]:
    """Return the processes that the guardians of this process keep."""
    lists = (Path(f"/proc/{keeper}/task/{keeper}/children") for keeper in offspring())
    return [int(pid) for children in lists if children.exists() for pid in children.read_text().split()]


def said(held: Loading, job: int) -> str:
    """Cancel a job on the command line, and return what that says."""
    [answer] = cancelled(Client(held.house.home), [job])
    return str(answer.line) if not isinstance(answer, Exception) else str(answer)


def has_ended_as_cancelled(held: Loading, job: int) -> None:
    """Check the row, its one receipt, and that whoever watches the run was told."""
    assert held.state(job) == "cancelled"
    [attempt] = held.house.attempts(job)
    assert (attempt["outcome"], attempt["started_at"], attempt["kill"]) == ("cancelled", None, None)
    [ended] = wait_for(lambda: [one for one in held.house.of(events.AttemptEnded) if one.job == job])
    assert (ended.state, ended.outcome) == ("cancelled", "cancelled")


def test_a_job_that_is_cancelled_while_its_model_loads_ends_at_once_and_frees_its_slot(held: Loading) -> None:
    """K6, A32: nobody waits for the load, neither the command, nor the run, nor who comes next."""
    job = held.house.enqueue("modelled")
    served = held.start()
    wait_for(held.server.hanging.is_set)
    after = held.house.enqueue("light")
    assert said(held, job) == f"#{job} cancelled; it had not started"
    has_ended_as_cancelled(held, job)
    assert served.result(40).ended == "idle"
    assert held.state(after) == "done", "its slot was free"
    assert not held.server.released.is_set(), "all of this while the server hung"


def test_a_run_that_is_for_a_job_is_over_when_that_is_cancelled_while_its_model_loads(held: Loading) -> None:
    """K6: who awaits it is told."""
    job = held.house.enqueue("modelled")
    served = held.start(job)
    wait_for(held.server.hanging.is_set)
    Client(held.house.home).cancel(job)
    assert served.result(40).ended == "idle"
    assert held.state(job) == "cancelled"
    assert not held.server.released.is_set()


def test_a_model_that_comes_for_nobody_any_more_makes_room_for_the_next(held: Loading) -> None:
    """C135, C138: a cancelled job holds no model."""
    job = held.house.enqueue("modelled")
    served = held.start()
    wait_for(held.server.hanging.is_set)
    other = held.house.enqueue("other")
    Client(held.house.home).cancel(job)
    wait_for(lambda: held.state(job) == "cancelled")
    wait_for(lambda: held.house.attempts(other))
    held.server.released.set()
    assert served.result(40).ended == "idle"
    assert held.state(other) == "done"
    assert list(held.server.resident) == ["large"]


def test_a_job_that_waits_for_a_child_is_let_go_when_it_is_cancelled(tmp_path: Path) -> None:
    """K6: the child that was ready has died, and the next takes its time."""
    app = Path(shutil.copy(SLOW, tmp_path))
    with loading(tmp_path, str(app)) as held:
        job = held.house.enqueue("modelled")
        served = held.start()
        wait_for(held.server.hanging.is_set)
        (hang := app.with_name("hang")).touch()
        try:
            killed = set(wait_for(workers))
            for pid in killed:
                os.kill(pid, signal.SIGKILL)
            # The next one is started once the run knows that: until then the dead one would get the job.
            wait_for(lambda: set(workers()) - killed)
            held.server.released.set()
            wait_for(lambda: held.jobs_of_models() == [1])
            assert said(held, job) == f"#{job} cancelled; it had not started"
            has_ended_as_cancelled(held, job)
            assert served.result(40).ended == "idle"
        finally:
            hang.unlink()


def test_what_a_job_was_let_in_for_is_counted_while_its_model_loads(tmp_path: Path) -> None:
    """The memory gate: two that are claimed in a row do not both get what is there for one."""
    with loading(tmp_path, workers=2) as held:
        held.machine.turn(memory=SHORT)
        first = held.house.enqueue("large_modelled")
        served = held.start()
        wait_for(held.server.hanging.is_set)
        second = held.house.enqueue("large")
        wait_for(lambda: "large" in held.told().get("blocked", ()))
        assert [one["gate"] for one in held.told()["blocked"]["large"]] == ["memory"]
        assert held.house.attempts(second) == []
        held.server.released.set()
        assert served.result(40).ended == "idle"
        assert [held.state(first), held.state(second)] == ["done", "done"]
