"""The hostile tree under one guardian: killed means gone, 100 times of 100 (issue 4; SPEC C126, FIELD A5)."""

import json
import os
import secrets
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from ipc.guardian import cgroup
from tests.ipc import trees
from tests.ipc.behind import ORDINARY, reachable

ROOT = Path(__file__).resolve().parents[2]
AS_ROOT = os.geteuid() == 0
KILLS = 100
USERS = ("root", "ordinary") if AS_ROOT else ("ordinary",)

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="there is no subreaper"),
    pytest.mark.timeout(240),
]


@pytest.fixture(params=USERS)
def user(request: pytest.FixtureRequest) -> int | None:
    """Whom the trees run as, None for who runs the tests."""
    return ORDINARY if AS_ROOT and request.param == "ordinary" else None


@pytest.fixture
def place(user: int | None) -> Iterator[Path]:
    """A folder that every user can reach, unlike those that pytest makes; the program is in it."""
    place = Path(tempfile.mkdtemp(prefix="trees-"))
    shutil.copytree(ROOT / "ipc", place / "ipc", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copyfile(trees.__file__, place / "trees.py")
    (place / "lock").touch()
    os.chown(place / "lock", user or os.geteuid(), -1)
    place.chmod(0o755)
    yield place
    shutil.rmtree(place)


@pytest.fixture
def python(user: int | None) -> str:
    """An interpreter that this user may run: that of the tests may lie in a folder of root's."""
    found = sys.executable if user is None else None
    found = found or next(filter(reachable, (sys.executable, "/usr/bin/python3")), None)
    if found is None:
        pytest.skip("no Python here that an ordinary user may run")
    return found


@pytest.fixture
def group(user: int | None) -> Iterator[str]:
    """A control group in which this user may make others, delegated by root where it must be."""
    base = cgroup.base()
    if base is None:
        pytest.skip("no control group can be made here")
    made = cgroup.make(base, f"laneway-test-{secrets.token_hex(8)}")
    for name in ("", "/cgroup.procs", "/cgroup.subtree_control", "/cgroup.threads"):
        os.chown(made + name, user or os.geteuid(), -1)
    yield made
    assert cgroup.members(made) == []
    assert cgroup.remove(made)


def run(python: str, place: Path, user: int | None, group: str | None = None) -> list[dict[str, object]]:
    how = "alone" if group is None else "grouped"
    program = subprocess.Popen(
        [python, "-I", "-S", "-B", *map(str, (place / "trees.py", place, place / "lock", KILLS)), how],
        user=user,
        group=user,
        extra_groups=None if user is None else [],
        env={},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    if group is not None:
        assert cgroup.take_in(group, program.pid)
    try:
        out, errors = program.communicate("\n", timeout=200)
    finally:
        program.kill()
    assert (program.returncode, errors) == (0, "")
    return json.loads(out)


def judge(kills: list[dict[str, object]], tier: str) -> None:
    assert len(kills) == KILLS
    assert {one["tier"] for one in kills} == {tier}
    assert {one["signal"] for one in kills} == {9}
    assert [one["survivors"] for one in kills if one["survivors"]] == []
    assert min(one["ended"] for one in kills) >= 1 + len(trees.MEMBERS)
    times = sorted(one["ms"] for one in kills)
    print(f"{tier}: median {statistics.median(times):.1f} ms, worst {times[-1]:.1f} ms")


def test_a_hostile_tree_is_gone_a_hundred_times_of_a_hundred(
    user: int | None, python: str, place: Path
) -> None:
    """C126, U3, FIELD A5: plain, deaf to TERM, away in its own session, orphaned, both, and hopping."""
    judge(run(python, place, user), "guardian")


def test_so_it_is_where_the_kernel_ends_its_control_group(
    user: int | None, python: str, place: Path, group: str
) -> None:
    """C126, U3, FIELD A5."""
    judge(run(python, place, user, group), "cgroup")
