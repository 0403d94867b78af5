"""The file that guardians hold while they live: the next start waits for it (CONTRACTS K9)."""

import os
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ipc.leftovers import MARKER
from landing.flock import Flock
from landing.runs import OpenRun
from landing.snapshot import store_identity
from policies.retry import judge
from supervisor import sensors
from supervisor.client import Client
from supervisor.events import Warned
from supervisor.run.daemon import Served
from supervisor.run.guardians import GUARDIANS
from supervisor.run.opening import tied
from tests.supervisor import tree_lanes
from tests.supervisor.families import Family
from tests.supervisor.serving import House, kill_session, wait_for
from tests.supervisor.tree_lanes import BRANCHES, MARKED, stopping

HOLDER = """
import fcntl, os, sys
file = open(sys.argv[1], "a")
fcntl.flock(file, fcntl.LOCK_SH)
print("held", flush=True)
sys.stdin.read()
os._exit(0)  # the kernel frees the lock, as the last of it
"""
needs_proc = pytest.mark.skipif(
    not Path("/proc/self/environ").exists(), reason="looks for processes in /proc"
)


def dead_run(house: House) -> str:
    """Write down a run that has died; return its marker."""
    marker = tied(sensors.fence()[:16], store_identity(house.home))
    house.store.write(OpenRun(pid=1, boot="b", version="0", marker=marker, judge=judge))
    return marker


@contextmanager
def holder(house: House, marker: str) -> Iterator["subprocess.Popen[str]"]:
    """Have another process hold the lock as a guardian does, and hang: it obeys nobody."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(house.home / GUARDIANS)],
        env={**os.environ, MARKER: marker},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
    finally:
        process.kill()
        process.__exit__(None, None, None)


def has_open(process: "subprocess.Popen[str]", path: Path) -> bool:
    """Tell whether a process has a file open."""
    try:
        fds = list(Path(f"/proc/{process.pid}/fd").iterdir())
        return any(os.path.realpath(fd) == str(path) for fd in fds)
    except OSError:
        return False


def is_free(house: House) -> bool:
    lock = Flock(house.home / GUARDIANS)
    try:
        return lock.take()
    finally:
        lock.close()


def leftovers(house: House) -> list[str]:
    return [event.text for event in house.of(Warned) if event.code == "leftovers"]


def codes(house: House) -> list[str]:
    return [event.code for event in house.of(Warned)]


# --- a start


@needs_proc
def test_a_start_claims_nothing_while_a_guardian_of_a_dead_run_lives_and_at_once_when_it_has_left(
    house: House,
) -> None:
    """K9: until the deadline of a kill; here it is nobody that could be ended by its marker."""
    job = house.enqueue("quick")
    with holder(house, "another") as guardian:
        process = house.start("--until-idle")
        try:
            wait_for(lambda: has_open(process, house.home / GUARDIANS))
            beside = house.start()
            assert beside.wait(20) == 3, "the one that waits has the supervisor's lock"
            beside.communicate()
            assert house.query("SELECT count(*) FROM laneway_runs") == [(0,)]
            guardian.kill()
            process.communicate(timeout=20)
        finally:
            kill_session(process)
    assert process.returncode == 0
    assert house.job(job)["state"] == "done"


@needs_proc
def test_a_guardian_that_hangs_is_ended_by_its_marker_when_its_time_is_up(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K9."""
    monkeypatch.setattr("supervisor.run.guardians.PATIENCE", 0.3)
    job = house.enqueue("quick")
    with holder(house, dead_run(house)) as guardian:
        began = time.monotonic()
        assert house.serve() == Served("idle")
        assert time.monotonic() - began > 0.3
        assert guardian.wait(5) == -signal.SIGKILL
        assert leftovers(house) == [f"ended what a dead run had left running: pid {guardian.pid}"]
        assert codes(house) == ["guardians", "leftovers"]
    assert house.job(job)["state"] == "done"


@needs_proc
def test_who_holds_the_lock_and_is_no_guardian_of_a_dead_run_is_left_alone(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K9, K11: a start waits for it as long as a kill may take, and goes on."""
    monkeypatch.setattr("supervisor.run.guardians.PATIENCE", 0.3)
    dead_run(house)
    with holder(house, "another") as stranger:
        assert house.serve() == Served("idle")
        assert stranger.poll() is None
        assert not is_free(house)
    assert codes(house) == ["guardians"]


@needs_proc
def test_a_guardian_that_was_stopped_is_woken_by_the_start_that_waits_for_it(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K9: it can end what it keeps, and leave."""
    monkeypatch.setattr("supervisor.run.guardians.PATIENCE", 60.0)
    with holder(house, dead_run(house)) as guardian:
        os.kill(guardian.pid, signal.SIGSTOP)
        assert guardian.stdin is not None
        guardian.stdin.close()
        assert house.serve() == Served("idle")
        assert guardian.wait(20) == 0
    assert codes(house) == []


# --- a job that stops its guardian


@pytest.fixture
def trees(tmp_path: Path) -> House:
    return House(tmp_path, app=str(Path(tree_lanes.__file__)))


@contextmanager
def orphaned(trees: House, folder: Path, *branches: str) -> Iterator[Family]:
    """Kill a supervisor whose guardians were stopped; give what it had."""
    job = trees.enqueue("trees", {"folder": str(folder), "branches": branches})
    process = trees.start()
    family = Family(frozenset(), frozenset())
    try:
        wait_for(lambda: trees.job(job)["landed_rows"])
        family = Family.of(process.pid)
        for one in family.guardians:
            os.kill(one.pid, signal.SIGSTOP)
        process.kill()
        process.wait()
        yield family
    finally:
        for one in family.alive():
            os.kill(one.pid, signal.SIGKILL)
        kill_session(process)


@needs_proc
@pytest.mark.parametrize("again", [False, True], ids=["once", "again and again"])
def test_a_job_that_stops_its_guardian_is_gone_before_the_next_run_claims(
    trees: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, again: bool
) -> None:
    """K9, FIELD B3: its guardian ends it when it gets to it; else both are ended by their marker."""
    monkeypatch.setattr("supervisor.run.guardians.PATIENCE", 0.5 if again else 60.0)
    branches = [*BRANCHES] if not again else [one.__name__ for one in (*MARKED, stopping)]
    with orphaned(trees, tmp_path, *branches) as family:
        assert trees.serve() == Served("idle")
        assert trees.items(1) == [(0, "grown")], "the second attempt has found nobody alive"
        assert family.alive() == []
    assert again or leftovers(trees) == []


# --- the file


def mode_and_inode(path: Path) -> tuple[int, int]:
    found = path.stat()
    return stat.S_IMODE(found.st_mode), found.st_ino


def test_the_file_is_private_and_the_same_for_ever(house: House) -> None:
    """K9: 0600 whatever the umask and whoever changed it; not unlinked by a stop, nor by the next start."""
    path, umask = house.home / GUARDIANS, os.umask(0)
    try:
        assert house.serve() == Served("idle")
    finally:
        os.umask(umask)
    mode, inode = mode_and_inode(path)
    assert mode == 0o600
    path.chmod(0o644)
    process = house.start("--until-idle")
    process.communicate(timeout=30)
    assert mode_and_inode(path) == (0o600, inode)
    process = house.start()
    try:
        wait_for(lambda: house.query("SELECT 1 FROM laneway_runs WHERE id = 3"))
    finally:
        kill_session(process)
    assert house.serve() == Served("idle")
    assert mode_and_inode(path) == (0o600, inode)


@pytest.mark.parametrize("command", ["status", "doctor", "jobs"])
def test_commands_that_only_look_leave_the_file_alone(house: House, command: str) -> None:
    """C96, U31: they neither make it, nor change it, nor wait for who has locked it."""
    path = house.home / GUARDIANS
    words = [sys.executable, "-m", "supervisor", command, "--json", "--home", str(house.home)]
    subprocess.run(words, capture_output=True, check=True, timeout=30)
    assert not path.exists()
    lock = Flock(path)
    try:
        assert lock.take()
        before = path.stat()
        subprocess.run(words, capture_output=True, check=True, timeout=30)
        after = path.stat()
        assert (before.st_mtime_ns, before.st_ctime_ns) == (after.st_mtime_ns, after.st_ctime_ns)
    finally:
        lock.close()


@needs_proc
def test_a_run_that_was_told_to_stop_leaves_no_guardian_for_the_next_to_wait_for(house: House) -> None:
    """K9."""
    job = house.enqueue("sleepy", {"seconds": 50}, grace=0.1)
    process = house.start()
    try:
        wait_for(lambda: house.job(job)["landed_rows"])
        family = Family.of(process.pid)
        process.terminate()
        process.wait(20)
        assert is_free(house)
        assert family.left() == []
    finally:
        kill_session(process)


@needs_proc
def test_a_run_whose_home_goes_away_leaves_nobody_behind(house: House) -> None:
    """K9, K1: no guardian is left that holds a file which nobody can find."""
    job = house.enqueue("sleepy", {"seconds": 50}, grace=0.1)
    process = house.start()
    try:
        wait_for(lambda: house.job(job)["landed_rows"])
        family = Family.of(process.pid)
        shutil.rmtree(house.home)
        assert process.wait(20) == 4
        assert family.left() == []
    finally:
        kill_session(process)


@needs_proc
def test_a_run_whose_file_was_removed_goes_on_and_its_guardians_make_another(house: House) -> None:
    """K9: nobody is told that the application does not start."""
    job = house.enqueue("sleepy", {"seconds": 50}, grace=0.1)
    process = house.start()
    try:
        wait_for(lambda: house.job(job)["landed_rows"])
        (house.home / GUARDIANS).unlink()
        for one in Family.of(process.pid).guardians:
            os.kill(one.pid, signal.SIGKILL)
        after = house.enqueue("quick")
        wait_for(lambda: house.job(after)["state"] == "done")
        assert mode_and_inode(house.home / GUARDIANS)[0] == 0o600
        assert not is_free(house)
        process.terminate()
        assert process.wait(20) == 0
    finally:
        kill_session(process)


@needs_proc
def test_of_two_starts_after_a_crash_one_runs_and_the_other_says_so(house: House) -> None:
    """K9, C190."""
    job = house.enqueue("sleepy", {"seconds": 50}, grace=0.1)
    process = house.start()
    try:
        wait_for(lambda: house.job(job)["landed_rows"])
    finally:
        kill_session(process)
    assert Client(house.home).cancel(job).state == "cancelled"
    both = [house.start("--until-idle") for _ in range(2)]
    try:
        assert sorted(one.wait(30) for one in both) in ([0, 3], [0, 0])
    finally:
        for one in both:
            kill_session(one)
    assert house.query("SELECT clean FROM laneway_runs")[1:] in ([(1,)], [(1,), (1,)])
