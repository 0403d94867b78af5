"""The worlds of children: sealed or not, limited or not, each kind in its own, and what `show` says of it."""

import resource
import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ipc.guardian import shield
from supervisor import machine
from supervisor.application import load_application
from tests.cli.shell import Shell
from tests.supervisor.serving import House

WORLDS = str(Path(__file__).with_name("world_lanes.py"))
REFUSED = "network = false: no connection to 192.0.2.1:9; set network = true for this kind"
BOUNDED = ["bounded", "bounded_cold", "bounded_twice"]


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path, workers=1, app=WORLDS)


@pytest.fixture
def near() -> Iterator[int]:
    """The port of a listener on this machine."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


def kill_tiers() -> list[str]:
    return list(dict.fromkeys([machine.kill_tier()[0], "guardian"]))


@pytest.fixture(params=kill_tiers())
def tier(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each way by which trees can be ended here."""
    if request.param == "guardian":
        monkeypatch.setattr("supervisor.run.daemon.cgroup.base", lambda: None)
    return str(request.param)


def attempt_of(house: House, job: int) -> dict[str, Any]:
    (attempt,) = house.attempts(job)
    return attempt


# --- the network


def test_kinds_with_and_without_network_take_children_of_their_own(house: House, near: int) -> None:
    """C157, K13: they alternate on one slot, with children that are used again."""
    kinds = ["open", "sealed"] * 4
    jobs = [house.enqueue(kind, {"near": near}) for kind in kinds]
    assert house.serve().ended == "idle"
    children: dict[str, set[int]] = {"open": set(), "sealed": set()}
    for kind, job in zip(kinds, jobs, strict=True):
        (pid, far), (_, at_home) = house.items(job)
        children[kind].add(pid)
        assert (far, at_home) == ("connected" if kind == "open" else REFUSED, "connected")
        assert attempt_of(house, job)["world"]["network"] == kind
    assert children["open"].isdisjoint(children["sealed"])
    assert sum(map(len, children.values())) < len(jobs), "some were used again"


def test_a_refused_connection_ends_a_job_by_the_name_of_the_option(house: House) -> None:
    """C157."""
    job = house.enqueue("calls_home")
    house.serve()
    assert attempt_of(house, job)["error"]["type"] == "PermissionError"
    assert house.job(job)["reason"] == f"PermissionError: {REFUSED}"


def test_the_settings_can_seal_a_kind_and_open_one(house: House, near: int) -> None:
    """C157, U14."""
    kinds = {"open": {"network": False}, "sealed": {"network": True}}
    house.settings = replace(house.settings, kinds=kinds)
    house.application = load_application(house.settings)
    jobs = [house.enqueue(kind, {"near": near}) for kind in kinds]
    house.serve()
    assert [house.items(job)[0][1] for job in jobs] == [REFUSED, "connected"]
    assert [attempt_of(house, job)["world"]["network"] for job in jobs] == ["sealed", "open"]


def test_the_built_in_lanes_are_sealed(house: House, tmp_path: Path) -> None:
    """C157."""
    (tmp_path / "notes").mkdir()
    job = house.enqueue("vault_sync", {"root": str(tmp_path / "notes")})
    house.serve()
    assert attempt_of(house, job)["outcome"] == "done"
    assert attempt_of(house, job)["world"]["network"] == "sealed"


# --- limits


@pytest.mark.parametrize("kind", BOUNDED)
def test_open_files_and_file_sizes_end_at_their_limits_in_every_job(house: House, kind: str) -> None:
    """U3: the second job has as much as the first, be it another copy or the same child."""
    jobs = [house.enqueue(kind) for _ in range(2)]
    house.serve()
    (first, second) = (house.items(job) for job in jobs)
    assert first == second
    files, written, *_, own = (n for n, _ in first)
    assert (written, own) == (100_000, 64)
    assert 40 < files < 64, "some are open anyway"
    limits = {"open_files_limit": 64, "file_size_limit": 100_000}
    assert [attempt_of(house, job)["world"]["limits"] for job in jobs] == [limits, limits]


def test_limits_bind_the_job_and_not_the_template(house: House) -> None:
    """DESIGN 5: a template lives on, and what it opens or writes is no job's."""
    job = house.enqueue("bounded")
    house.serve()
    assert attempt_of(house, job)["world"]["spawn"] == "template"
    said = {text: n for n, text in house.items(job)}
    here = {
        "Max open files": resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        "Max file size": resource.getrlimit(resource.RLIMIT_FSIZE)[0],
    }
    assert {name: said[name] for name in here} == here


@pytest.mark.parametrize("kind", ["burns", "burns_cold"])
def test_a_job_that_uses_up_its_cpu_time_dies_of_that(house: House, kind: str) -> None:
    """FIELD H9: told apart from other signals, with what to do."""
    job = house.enqueue(kind, {"seconds": 30})
    house.serve()
    attempt = attempt_of(house, job)
    assert (attempt["outcome"], attempt["error_code"]) == ("died", "cpu_limit")
    assert house.job(job)["reason"] == "the worker used its 1 s of CPU time"
    assert "raise cpu_limit" in Shell(house.settings.folder)("show", str(job), "--home", str(house.home)).out


def test_each_job_of_a_child_has_its_own_allowance_of_cpu_time(house: House) -> None:
    """DESIGN 5: together they use more than one may, also with all that the kernel rounds up."""
    jobs = [house.enqueue("burns_in_series", {"seconds": 0.7}) for _ in range(4)]
    over = house.enqueue("burns_in_series", {"seconds": 30})
    house.serve()
    assert [house.job(job)["state"] for job in jobs] == ["done"] * 4
    assert len({house.items(job)[0][0] for job in [*jobs, over]}) == 1, "one process ran them all"
    assert attempt_of(house, over)["error_code"] == "cpu_limit"


# --- what is told of it


def test_show_says_of_each_attempt_what_was_on(house: House, tier: str) -> None:
    """K13: for programs as it is, for people in words."""
    job = house.enqueue("second_time")
    house.serve()
    shell = Shell(house.settings.folder)
    attempts = shell("show", str(job), "--json", "--home", str(house.home)).json["attempts"]
    world = {
        "spawn": "template",
        "kill": tier,
        "shield": None,
        "network": "sealed",
        "limits": {"memory_limit": 500 << 20},
    }
    assert [(one["outcome"], one["world"]) for one in attempts] == [("failed", world), ("done", world)]
    screen = shell("show", str(job), "--home", str(house.home)).out
    line = f"world    template child, whole tree ended by its {tier}, network sealed, memory limit 524 MB"
    assert line in screen.splitlines()


def test_a_child_that_could_not_be_a_copy_says_why(tmp_path: Path) -> None:
    """K13: a reason for everything, also for a slow start."""
    app = tmp_path / "with_a_thread.py"
    thread = "import threading, time\nthreading.Thread(target=time.sleep, args=(600,), daemon=True).start()\n"
    app.write_text(thread + Path(WORLDS).read_text())
    house = House(tmp_path, workers=1, app=str(app))
    job = house.enqueue("calls_home")
    house.serve()
    spawn = attempt_of(house, job)["world"]["spawn"]
    assert spawn == "cold importing the application left 1 thread running"
    screen = Shell(tmp_path)("show", str(job), "--home", str(house.home)).out
    assert "world    cold child (importing the application left 1 thread running), whole tree" in screen


@pytest.mark.skipif(shield.abi() < 3, reason="this kernel has no Landlock that keeps a file whole")
def test_everything_at_once_is_told_in_one_line(tmp_path: Path, tier: str) -> None:
    """K13: the order is that of a child's life."""
    house = House(tmp_path, workers=1, app=WORLDS)
    everything = {"shield": True, "spawn": "cold", "process_limit": 9, "cpu_limit": 5, "open_files_limit": 99}
    house.settings = replace(house.settings, kinds={"calls_home": everything})
    house.application = load_application(house.settings)
    job = house.enqueue("calls_home")
    house.serve()
    screen = Shell(tmp_path)("show", str(job), "--home", str(house.home)).out
    assert (
        f"world    cold child, whole tree ended by its {tier}, shield ({shield.described(shield.abi())}),"
        " network sealed, process limit 9, CPU limit 5 s, open files limit 99"
    ) in screen.splitlines()
