"""Faults on purpose: how they are written down, whom they may touch, and what they do to a real run."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from landing.faults import COMMIT, STEPS, unarmed
from supervisor import events, faults
from supervisor.faults import Armed, Fault, FaultsRefused, Injected, reach_for, read_faults
from supervisor.run.serve import Served, serve
from tests.cli.shell import Shell
from tests.supervisor.serving import GALLERY, House

PROJECT = Path(__file__).resolve().parents[2]


def test_a_list_of_faults_is_read() -> None:
    assert read_faults("land.applied:kill@3,commit:delay=0.2@5, receive:raise") == [
        Fault("land.applied", "kill", 0.0, 3),
        Fault("commit", "delay", 0.2, 5),
        Fault("receive", "raise", 0.0, 1),
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "land.aplied:kill",
            "unknown point 'land.aplied' in 'land.aplied:kill' (did you mean \"land.applied\"?)",
        ),
        (
            "commit:explode",
            "unknown action 'explode' in 'commit:explode'; there are kill, delay, raise, full",
        ),
        ("commit", "'commit' is no POINT:ACTION[=SECONDS][@N]"),
        ("commit:kill@0", "'commit:kill@0' is no POINT"),
        ("commit:kill@-1", "is no POINT"),
        ("commit:delay", "'commit:delay': seconds belong to a delay, which needs them (delay=0.2)"),
        ("commit:kill=3", "'commit:kill=3': seconds belong to a delay"),
        ("commit:kill,", "'' is no POINT"),
    ],
)
def test_a_fault_that_cannot_be_read_is_one_clear_line(text: str, said: str) -> None:
    with pytest.raises(FaultsRefused) as refused:
        read_faults(text)
    (line,) = refused.value.complaints
    assert line.startswith("LANEWAY_FAULTS: ")
    assert said in line


def test_every_step_of_a_job_has_its_points() -> None:
    """Claim, start, send, receive, land, ack, finish, recover."""
    steps = {point.split(".")[0] for point in faults.POINTS}
    assert steps >= {
        "claim",
        "start",
        "send",
        "receive",
        "land",
        "ack",
        "finish",
        "recover",
        "renew",
        "commit",
    }
    assert len(set(faults.POINTS)) == len(faults.POINTS)
    for step in STEPS.values():
        assert {step.begin, step.applied, step.committed} <= set(faults.POINTS)


def test_without_the_variable_nothing_is_armed(tmp_path: Path) -> None:
    assert reach_for(tmp_path, {}) is unarmed
    assert reach_for(tmp_path, {"LANEWAY_FAULTS": ""}) is unarmed


def test_a_fault_happens_at_the_nth_time_and_once() -> None:
    reach = Armed(read_faults("commit:raise@2,land.begin:raise"))
    reach(COMMIT)
    with pytest.raises(Injected, match="injected at commit"):
        reach(COMMIT)
    reach(COMMIT)
    with pytest.raises(Injected, match=r"injected at land\.begin"):
        reach("land.begin")


def test_a_delay_takes_its_time() -> None:
    began = time.monotonic()
    Armed(read_faults("receive:delay=0.05"))("receive")
    assert time.monotonic() - began >= 0.05


def test_a_kill_is_sigkill() -> None:
    code = "from supervisor.faults import *; Armed(read_faults('commit:kill'))('commit')"
    done = subprocess.run([sys.executable, "-c", code], cwd=PROJECT, check=False)
    assert done.returncode == -signal.SIGKILL


def test_a_run_refuses_faults_over_a_store_that_is_not_marked_for_them(tmp_path: Path) -> None:
    """Exit code 2, one line; a variable left in an environment touches no real store."""
    home = tmp_path / "home"
    line = Shell(tmp_path).refused(
        *("run", "--until-idle", "--app", GALLERY, "--home", str(home)),
        code=2,
        env={"LANEWAY_FAULTS": "commit:kill"},
    )
    assert line == f"LANEWAY_FAULTS is set and {home} holds no file faults-allowed: it is for tests, unset it"
    assert not home.exists()


def test_a_run_over_a_marked_store_dies_where_it_is_told_to(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between COMMIT and ack: the row has landed, and the next run goes on after it."""
    job = house.enqueue("paced", {"rows": 2000})
    (house.home / faults.MARKER).touch()
    monkeypatch.setenv(faults.VARIABLE, "land.committed:kill@2")
    with house.start("--until-idle") as process:
        process.communicate(timeout=30)
    assert process.returncode == -signal.SIGKILL
    row = house.job(job)
    assert row["landed_seq"] >= 2
    assert row["landed_rows"] == len(house.items(job))
    monkeypatch.delenv(faults.VARIABLE)
    assert house.serve().ended == "idle"
    assert [n for n, _ in house.items(job)] == list(range(2000))


def serve_with(house: House, text: str) -> Served:
    """Run a supervisor here with faults."""
    reach = Armed(read_faults(text))
    return serve(house.application, house.settings, until_idle=True, report=house.events.append, reach=reach)


@pytest.mark.parametrize(("kind", "times"), [("full", 3), ("readonly", 2)])
def test_a_run_waits_out_a_store_that_takes_no_writes(house: House, kind: str, times: int) -> None:
    """K1: in the group, alone, and once more where the WAL was folded back to make room; one warning."""
    job = house.enqueue("quick")
    served = serve_with(house, ",".join(f"land.applied:{kind}@{n}" for n in range(1, times + 1)))
    assert served.ended == "idle"
    assert house.job(job)["state"] == "done"
    assert [one["outcome"] for one in house.attempts(job)] == ["done"]
    assert [warned.code for warned in house.of(events.Warned)] == [f"store_{kind}"]


def test_a_run_over_a_broken_store_ends_and_the_next_one_goes_on(house: House) -> None:
    """K1: IOERR at COMMIT, outcome unknown."""
    job = house.enqueue("quick")
    assert serve_with(house, "claim.applied:ioerr").ended == "broken"
    assert [warned.code for warned in house.of(events.Warned)] == ["store_broken"]
    assert house.serve().ended == "idle"
    assert house.job(job)["state"] == "done"
