"""Nothing of a run outlives it: whole trees, whatever they did to get away, when the supervisor is killed."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import pytest

from ipc.guardian import cgroup
from supervisor import sensors
from supervisor.client import Client
from supervisor.told.status import status
from tests.supervisor import families, tree_lanes
from tests.supervisor.families import Family, children, gone_after, groups_left
from tests.supervisor.serving import House, kill_session, wait_for
from tests.supervisor.tree_lanes import BRANCHES, MARKED, STATES

APP = str(Path(tree_lanes.__file__))
COMMAND = "import sys; from supervisor.cli import main; sys.exit(main())"
WITHOUT_GROUPS = f"from ipc.guardian import cgroup; cgroup.base = lambda: None; {COMMAND}"
"""`supervisor` on a system that lets us make no control groups: what an ordinary user mostly has."""
WITHOUT_RIGHTS = f"""
import ctypes, os, sys
ctypes.CDLL(None).prctl(24, 5, 0, 0, 0)
os.execv(sys.executable, [sys.executable, "-c", {WITHOUT_GROUPS!r}, *sys.argv[1:]])
"""
"""The same, of a root that cannot signal other users' processes (PR_CAPBSET_DROP, CAP_KILL)."""

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/environ").exists(), reason="looks for processes in /proc"
)


@pytest.fixture
def trees(tmp_path: Path) -> House:
    return House(tmp_path, app=APP)


@pytest.fixture(params=["cgroup", "guardian"])
def tier(request: pytest.FixtureRequest) -> str:
    if request.param == "cgroup" and cgroup.base() is None:
        pytest.skip("no control group may be made here")
    return str(request.param)


def run_script(house: House, script: str, *flags: str, before: Sequence[str] = ()) -> "subprocess.Popen[str]":
    """Start a program that calls the command line as `supervisor run` does."""
    command = [*before, sys.executable, "-c", script, "run", "--home", str(house.home), "--app", house.app]
    return subprocess.Popen(
        [*command, "--max-workers", "2", *flags],
        cwd=house.settings.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def start(house: House, tier: str, *flags: str) -> "subprocess.Popen[str]":
    """Start `supervisor run` with that way of ending trees."""
    return run_script(house, WITHOUT_GROUPS if tier == "guardian" else COMMAND, *flags)


def grown(house: House, folder: Path, branches: Iterable[str], state: str = "in Python") -> int:
    """Enqueue a job that grows a tree; return its id."""
    return house.enqueue("trees", {"folder": str(folder), "branches": [*branches], "state": state})


def markers(house: House) -> list[str]:
    return [marker for (marker,) in house.query("SELECT marker FROM laneway_runs")]


def landed(house: House, job: int) -> bool:
    return bool(house.job(job)["landed_rows"])


# --- the supervisor is killed


@pytest.mark.parametrize("state", [*STATES])
def test_a_killed_supervisor_takes_every_tree_with_it(
    trees: House, tmp_path: Path, tier: str, state: str
) -> None:
    """U41, FIELD B1: in 2 s, whatever its children are doing, and each way in which theirs got away."""
    job = grown(trees, tmp_path, BRANCHES, state)
    process = start(trees, tier)
    try:
        wait_for(lambda: landed(trees, job))
        if state == "writing":
            os.kill(process.pid, signal.SIGSTOP)
            stands_still(tmp_path / "written")
        family = Family.of(process.pid)
        assert len(family.guardians) >= 1
        assert len(family.kept) > len(BRANCHES)
        process.kill()
        gone_after(family, markers(trees))
    finally:
        kill_session(process)


def stands_still(written: Path) -> None:
    """Wait until a file has not grown for so long that whoever writes it must be held up."""
    sizes = deque[int](maxlen=50)

    def looked() -> bool:
        if written.exists():
            sizes.append(written.stat().st_size)
        return len(sizes) == sizes.maxlen and len(set(sizes)) == 1

    wait_for(looked)


STARTING: dict[str, tuple[str, Callable[[Family], object]]] = {
    "a guardian": ("quick", lambda family: family.guardians),
    "a template": ("quick", lambda family: family.kept),
    "a template and its copy": ("quick", lambda family: len(family.kept) > 1),
    "a cold child": ("quick_and_cold", lambda family: family.kept),
}


@pytest.mark.parametrize("has", STARTING)
def test_a_supervisor_killed_while_it_starts_children_leaves_none(trees: House, has: str) -> None:
    """U41, FIELD B1: at the moment at which it has just got so far."""
    kind, is_so_far = STARTING[has]
    trees.enqueue(kind)
    process = start(trees, "guardian")
    try:
        family = Family(frozenset(), frozenset())
        until = time.monotonic() + 20
        while not is_so_far(family):  # without a pause: it lasts a moment only
            assert time.monotonic() < until
            family = Family.of(process.pid)
        process.kill()
        gone_after(family, markers(trees))
    finally:
        kill_session(process)


IMPORTING = """
import os, time
from pathlib import Path
from tree_lanes import BRANCHES, app, grow

if "LANEWAY_MARKER" in os.environ:
    grow(str(Path(__file__).parent), list(BRANCHES))
    Path(__file__).with_name("grown").touch()
    time.sleep(100)
"""


def test_a_supervisor_killed_while_its_children_import_leaves_nothing_of_what_that_started(
    tmp_path: Path, tier: str
) -> None:
    """U41, FIELD B1."""
    shutil.copy(APP, tmp_path)
    source = tmp_path / f"importing_{sensors.fence()}.py"
    source.write_text(IMPORTING)
    house = House(tmp_path, app=str(source))
    house.enqueue("quick")
    process = start(house, tier)
    try:
        wait_for((tmp_path / "grown").exists)
        family = Family.of(process.pid)
        assert len(family.kept) > len(BRANCHES)
        process.kill()
        gone_after(family, markers(house))
    finally:
        kill_session(process)


def test_a_copy_that_a_lander_has_forked_keeps_no_tree_of_a_killed_supervisor_alive(
    trees: House, tmp_path: Path, tier: str
) -> None:
    """U41, FIELD B1: it has the other end of every lifeline open, and is the application's own business."""
    job = grown(trees, tmp_path, BRANCHES)
    copied = trees.enqueue("copied_by_its_lander")
    process = start(trees, tier)
    copy = 0
    try:
        wait_for(lambda: landed(trees, job) and landed(trees, copied))
        copy = int((tmp_path / "copy").read_text())
        family = Family.of(process.pid)
        family = Family(family.guardians - {families.process(copy)}, family.kept)
        process.kill()
        gone_after(family, markers(trees))
        assert families.stat(copy)[0] == "S"
    finally:
        if copy:
            os.kill(copy, signal.SIGKILL)
        kill_session(process)


# --- and its guardians with it


def kill_together(supervisor: int) -> Family:
    """Kill a supervisor and its guardians so that none can act on another's end; return who they had."""
    os.kill(supervisor, signal.SIGSTOP)
    guardians = [one.pid for one in children(supervisor)]
    for pid in guardians:
        os.kill(pid, signal.SIGSTOP)
    family = Family.of(supervisor)
    for pid in (*guardians, supervisor):
        os.kill(pid, signal.SIGKILL)
    return family


@pytest.mark.parametrize("n", range(2))
def test_what_is_left_when_guardians_die_with_their_supervisor_is_gone_before_the_next_run_claims(
    trees: House, tmp_path: Path, tier: str, n: int
) -> None:
    """K9, U41, FIELD B3: no guardian is there to end the tree, so the start does.

    It knows what it may end by the marker, in the environment or in the name of the control group.
    Without control groups, who had its environment cleared (`env -i`) and has lost its guardian is
    nobody's that could be told: that one runs on. It has no channel and no fence, so it lands nothing.
    """
    branches = [*BRANCHES] if tier == "cgroup" else [one.__name__ for one in MARKED]
    job = grown(trees, tmp_path, branches)
    process = start(trees, tier)
    try:
        wait_for(lambda: landed(trees, job))
        family = kill_together(process.pid)
    finally:
        kill_session(process)
    left = {int((tmp_path / name).read_text()) for name in branches if name != "hopping"}
    assert left <= {one.pid for one in family.alive()}
    again = start(trees, tier, "--until-idle")
    out, _ = again.communicate(timeout=40)
    assert again.returncode == 0
    assert trees.items(job) == [(0, "grown")], "its second attempt has found nobody alive"
    assert family.alive() == []
    (found,) = trees.query("SELECT at, detail FROM laneway_events WHERE name = 'leftovers'")
    claimed = trees.attempts(job)[1]["claimed_at"]
    assert found[0] <= claimed
    told = json.loads(found[1])
    assert told["survivors"] == []
    assert left <= {*told["ended"]}
    assert "ended what a dead run had left running: pid" in out
    assert groups_left(markers(trees)) == []


# --- a job is killed, and its supervisor lives


def test_a_cancelled_job_is_called_so_once_no_descendant_is_left(trees: House, tier: str) -> None:
    """FIELD A5, U17, K6: what a shell started beside the job, and behind its back."""
    job = trees.enqueue("shell")
    process = start(trees, tier)
    try:
        wait_for(lambda: landed(trees, job))
        kept = Family.of(process.pid).kept
        tree = Family(frozenset(), frozenset(one for one in kept if is_shells(one.pid)))
        assert len(tree.kept) >= 3
        assert Client(trees.home).cancel(job).state == "cancelling"
        looks = []
        while trees.job(job)["state"] != "cancelled":
            looks.append(len(tree.alive()))
        assert tree.left() == []
        assert max(looks) >= 3, "its worker ignores SIGTERM: for all of its grace they were there"
    finally:
        kill_session(process)
    (attempt,) = trees.attempts(job)
    assert attempt["outcome"] == "cancelled"
    assert attempt["kill"]["survivors"] == []
    assert attempt["kill"]["ended"] > 3


def is_shells(pid: int) -> bool:
    """Tell whether a process is a shell, or a program that one has started."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip() in {"sh", "sleep"}
    except OSError:
        return False


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start a program as another user")
def test_a_descendant_that_cannot_be_signalled_is_named_and_never_told_as_killed(
    trees: House, tmp_path: Path
) -> None:
    """FIELD A7, U3: its supervisor may not signal other users' processes; its slot is free again."""
    job, after = trees.enqueue("another_user"), trees.enqueue("quick", priority=90)
    process = run_script(trees, WITHOUT_RIGHTS)
    assert process.stdout is not None
    away = 0
    try:
        told = next(line for line in process.stdout if "no batch for" in line)
        away = int((tmp_path / "another_user").read_text())
        assert families.stat(away)[0] not in {"Z", "X"}
        assert f"killed, survivors: pid {away} (not ours to signal" in told
        assert trees.job(job)["state"] == "failed"
        assert trees.attempts(job)[0]["kill"]["survivors"] == [away]
        wait_for(lambda: trees.job(after)["state"] == "done")
        assert [line for line in status(trees.home)["reasons"] if f"pid {away}" in line]
        asked = time.monotonic()
        process.terminate()
        process.wait(20)
        assert time.monotonic() - asked < 3.0, "what could not be ended in 5 s holds up no stop"
    finally:
        if away:
            os.kill(away, signal.SIGKILL)
        kill_session(process)


# --- as the first process of a container


UNSHARE = [
    "unshare",
    "--pid",
    "--fork",
    "--kill-child",
    "--mount-proc",
    *([] if os.geteuid() == 0 else ["--map-root-user"]),
]


def test_as_pid_1_a_supervisor_leaves_no_zombie_and_stops_when_it_is_told_to(
    trees: House, tmp_path: Path
) -> None:
    """FIELD H5: 20 orphans of a job end while it runs, and their guardian reaps them."""
    if not can_unshare():
        pytest.skip("no process namespace may be made here")
    job = trees.enqueue("children_left")
    process = run_script(trees, COMMAND, before=UNSHARE)
    try:
        wait_for(lambda: landed(trees, job))
        first = next(iter(children(process.pid))).pid
        assert b"NSpid:\t%d\t1\n" % first in Path(f"/proc/{first}/status").read_bytes()
        wait_for(lambda: not zombies(first), 2.0)
        assert children(first), "its guardians"
        (tmp_path / "over").touch()
        wait_for(lambda: trees.job(job)["state"] == "done")
        wait_for(lambda: not zombies(first), 2.0)
        os.kill(first, signal.SIGTERM)
        process.communicate(timeout=20)
    finally:
        kill_session(process)
    assert process.returncode == 0
    assert trees.query("SELECT clean FROM laneway_runs") == [(1,)]


def can_unshare() -> bool:
    """Tell whether a process namespace can be made, with a /proc of its own."""
    try:
        return subprocess.run([*UNSHARE, "true"], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def zombies(pid: int) -> list[families.Process]:
    """Return the zombies below a process."""
    return [one for one in families.descendants(pid) if one.state() == "Z"]
