"""A child that kills all that it can, in a process namespace whose first process is the supervisor."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ipc.guardian.shield import abi
from tests.supervisor.misbehaving.meeting import Meeting
from tests.supervisor.serving import House, kill_session, wait_for

USER = [] if os.geteuid() == 0 else ["--map-root-user"]
UNSHARE = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", *USER]
SIGNALS_STAY_INSIDE = 6
"""The version of the shield from which on a process behind it reaches none outside with a signal."""


def can_unshare() -> bool:
    try:
        return subprocess.run([*UNSHARE, "true"], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


pytestmark = pytest.mark.skipif(not can_unshare(), reason="no process namespace may be made here")


@pytest.fixture
def house(tmp_path: Path) -> House:
    return Meeting(tmp_path, "deaf_children").house


def run(house: House, kind: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Have such a child beside one that works, and a quick one after it; return both their attempts."""
    paths = {name: str(house.settings.folder / name) for name in ("beside", "over", "noted")}
    job = house.enqueue(kind, paths | {"outside": os.readlink("/proc/self/ns/pid")})
    beside = house.enqueue("bystander", paths, max_attempts=3, backoff=0.01)
    after = house.enqueue("quick", max_attempts=3, backoff=0.01)
    command = [sys.executable, "-m", "supervisor", "run", "--until-idle", "--max-workers", "2"]
    process = subprocess.Popen(
        [*UNSHARE, *command, "--home", str(house.home), "--app", house.app],
        cwd=house.settings.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        wait_for(lambda: house.job(after)["state"] == "done")
        Path(paths["over"]).touch()
        output, errors = process.communicate(timeout=30)
    finally:
        kill_session(process)
    assert (process.returncode, errors) == (0, ""), output
    assert house.job(beside)["state"] == "done"
    rows = [n for n, _ in house.items(beside)]
    assert rows == list(range(len(rows))), "each row once, in order"
    (attempt,) = house.attempts(job)
    return attempt, house.attempts(beside)


def test_a_child_that_kills_everybody_costs_those_beside_it_an_attempt_and_nobody_a_job(house: House) -> None:
    """FIELD A13: its guardian is among them, and so it goes with the others."""
    attempt, beside = run(house, "kills_everybody")
    assert (attempt["outcome"], attempt["error_code"]) == ("died", "guardian_died")
    assert [one["outcome"] for one in beside] == ["died", "done"]


def test_behind_the_shield_it_kills_nobody_but_what_it_has_started(house: House) -> None:
    """FIELD A13."""
    if abi() < SIGNALS_STAY_INSIDE:
        pytest.skip("this kernel does not keep signals inside")
    attempt, beside = run(house, "kills_everybody_behind_the_shield")
    assert attempt["outcome"] == "done"
    assert [one["outcome"] for one in beside] == ["done"]
