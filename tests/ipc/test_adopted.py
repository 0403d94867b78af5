"""What a killed guardian leaves is taken over and ended, and nothing else is touched (CONTRACTS K11)."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from ipc.adopted import Orphanage, alive_below, end_below
from ipc.child import Exit
from ipc.guardian import cgroup, meter
from ipc.subreaper import adopting_orphans
from tests.ipc.kept import Kept, alive, state_of
from tests.ipc.trees import TREE

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="there is no subreaper")

SLEEP = [sys.executable, "-I", "-S", "-c", "import time; time.sleep(3600)"]
BARE = """
import os
def bare():
    os.setsid()
    os.execve("/bin/sleep", ["sleep", "3600"], {})
if os.fork() == 0:
    if os.fork() == 0: bare()
    os._exit(0)
os.wait()
"""
"""Nothing tells whose this one is: no marker, no session of ours, its parent is dead."""


@pytest.fixture
def subreaper() -> Iterator[None]:
    """Orphans below this process become its children, as a supervisor's do."""
    with adopting_orphans() as adopts:
        assert adopts
        yield


def end(kept: Kept, orphans: Orphanage, guardians: set[int]) -> None:
    kept.wait_for(lambda: kept.keeper.reap() and orphans.pass_once(guardians) == [])


@pytest.mark.parametrize("how", ["killed", "put down"])
def test_what_a_killed_guardian_kept_is_ended_and_reaped_whatever_it_has_become(
    kept: Kept, subreaper: None, how: str
) -> None:
    """C126, FIELD A5, H5: the hostile tree, and one that has hidden all that it could."""
    before = set(meter.children(os.getpid())) - {kept.keeper.pid}
    child = kept.start(BARE + TREE)
    for name in ("plain", "deaf", "away", "orphan away", "hopper"):
        kept.said(f"{name}\n")
    bare = next(pid for pid in meter.descendants(kept.keeper.pid) if name_of(pid) == "sleep")
    if how == "killed":
        os.kill(kept.keeper.pid, signal.SIGKILL)
    else:
        kept.keeper.put_down()
    kept.wait_for(lambda: kept.keeper.gone)
    orphans = Orphanage(kept.marker, {kept.keeper.pid} | child.sessions)
    end(kept, orphans, set())
    assert alive(kept.marker) == []
    assert state_of(bare) == ""
    assert set(meter.children(os.getpid())) == before, "no zombie is left"
    assert orphans.ended >= 7


def name_of(pid: int) -> str:
    return meter.read(f"/proc/{pid}/comm").decode().strip()


def test_children_of_other_kinds_are_neither_signalled_nor_reaped(kept: Kept, subreaper: None) -> None:
    """K11: what a lander has started, in a session of its own, running or ended, and another guardian."""
    with (
        subprocess.Popen(SLEEP, start_new_session=True) as running,
        subprocess.Popen(["/bin/sh", "-c", "exit 7"], start_new_session=True) as ended,
    ):
        os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
        other = Kept(kept.folder, kept.marker)
        child, others = kept.up(), other.up()
        kept.keeper.put_down()
        kept.wait_for(lambda: kept.keeper.gone)
        end(kept, Orphanage(kept.marker, {kept.keeper.pid} | child.sessions), {other.keeper.pid})
        assert child.pid not in alive(kept.marker)
        assert others.pid in alive(kept.marker)
        assert running.poll() is None
        assert ended.wait() == 7
        running.kill()
    other.close()


STOPPER = """
import os, signal
guardian = os.getppid()
for _ in range(3):
    if os.fork() == 0: break
print("up", flush=True)
while True: os.kill(guardian, signal.SIGSTOP)
"""


def test_a_guardian_that_is_stopped_again_and_again_is_put_down_and_its_tree_ended(
    kept: Kept, subreaper: None
) -> None:
    """C126, LESSONS 12: each order wakes it; where that is not enough, the ladder's next rung is."""
    child = kept.start(STOPPER)
    kept.said("up\nup\nup\nup\n")
    kept.keeper.term()
    kept.keeper.kill()
    kept.keeper.put_down()
    kept.wait_for(lambda: kept.keeper.gone)
    end(kept, Orphanage(kept.marker, {kept.keeper.pid} | child.sessions), set())
    assert alive(kept.marker) == []


def test_a_supervisor_that_is_itself_killed_first_knows_nobody_by_that(kept: Kept, subreaper: None) -> None:
    """Where it has the place of its children in the kernel's queue, that place tells nothing."""
    child = kept.up()
    own = meter.read("/proc/self/oom_score_adj")
    try:
        set_oom_score("self", b"800")
        orphans = Orphanage(kept.marker, {kept.keeper.pid} | child.sessions)
    finally:
        set_oom_score("self", own)
    with subprocess.Popen(SLEEP) as stranger:
        set_oom_score(stranger.pid, b"800")
        kept.keeper.put_down()
        kept.wait_for(lambda: kept.keeper.gone)
        end(kept, orphans, set())
        assert stranger.poll() is None
        stranger.kill()


def set_oom_score(pid: object, score: bytes) -> None:
    with open(f"/proc/{pid}/oom_score_adj", "wb") as file:
        file.write(score)


def test_what_is_in_its_control_group_is_ended_by_the_kernel(kept: Kept, subreaper: None) -> None:
    """C126: also who hides from us what it is."""
    base = cgroup.base()
    if base is None:
        pytest.skip("no control group can be made here")
    prefix = f"{base}/laneway-test-{kept.marker}"
    group = f"{prefix}-{kept.keeper.pid}"
    child = kept.start(BARE + TREE, group=prefix)
    kept.said("hopper\n")
    assert len(cgroup.members(group)) >= 7
    os.kill(kept.keeper.pid, signal.SIGKILL)
    kept.wait_for(lambda: kept.keeper.gone)
    orphans = Orphanage("no marker", {kept.keeper.pid} | child.sessions, group)
    end(kept, orphans, set())
    assert not os.path.exists(group)
    assert alive(kept.marker) == []


def test_what_is_below_a_guardian_that_does_nothing_is_ended_without_it(kept: Kept) -> None:
    """FIELD A5, A7: whatever session it is in, and whether it carries the marker; nobody else is touched."""
    bystander = subprocess.Popen(SLEEP)
    try:
        child = kept.start(BARE + TREE.replace("started(hop)\n", ""))
        for name in ("plain", "deaf", "away", "orphan away"):
            kept.said(f"{name}\n")
        kept.wait_for(lambda: "sleep" in map(name_of, meter.descendants(kept.keeper.pid)))
        os.kill(kept.keeper.pid, signal.SIGSTOP)
        kept.wait_for(lambda: state_of(kept.keeper.pid) == "T")
        below = set(alive_below(kept.keeper.pid))
        assert len(below) >= 7
        assert end_below(kept.keeper.pid, "") == below
        kept.wait_for(lambda: alive_below(kept.keeper.pid) == [])
        assert state_of(kept.keeper.pid) == "T"
        assert bystander.poll() is None
        os.kill(kept.keeper.pid, signal.SIGCONT)
        assert kept.over(child).exit == Exit(None, signal.SIGKILL)
    finally:
        bystander.kill()
        bystander.wait()
