"""What dead runs left behind: found by the marker in its environment, never by a number that was stored."""

import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ipc import leftovers
from ipc.guardian import cgroup
from ipc.leftovers import MARKER, Leftovers, Marks, end_leftovers, signal_marked, wake

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.skipif(not leftovers.can_look(), reason="this system shows no environments")
DEAF = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("up", flush=True)
time.sleep(600)
"""
Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def marker() -> str:
    return secrets.token_hex(16)


@pytest.fixture
def start() -> Iterator[Start]:
    """Start processes in sessions of their own, ready when it returns; all are ended at the end."""
    started = []

    def run(code: str = DEAF, **env: str) -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            [sys.executable, "-c", code], env=env, stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        return process

    yield run
    for process in started:
        process.kill()
        process.communicate()


def test_a_process_that_left_its_group_and_is_deaf_to_sigterm_is_ended(start: Start, marker: str) -> None:
    """K9, U41, FIELD B3."""
    left = start(**{MARKER: marker})
    assert end_leftovers({marker}, time.monotonic) == Leftovers((left.pid,))
    assert left.wait(10) == -signal.SIGKILL


def test_strangers_are_left_alone_whatever_they_carry(start: Start, marker: str) -> None:
    """K11, FIELD B5: only this very variable, with one of these very values."""
    other = secrets.token_hex(16)
    strangers = [
        start(),
        start(**{MARKER: other}),
        start(**{MARKER: marker + "0"}),
        start(**{MARKER: ""}),
        start(**{f"NO_{MARKER}": marker}),
        start(PATH=f"{MARKER}={marker}"),
    ]
    assert end_leftovers({marker}, time.monotonic) == Leftovers()
    assert [one.poll() for one in strangers] == [None] * len(strangers)


def test_a_number_that_means_a_stranger_by_now_is_never_signalled(start: Start, marker: str) -> None:
    """FIELD B5: the look that counts comes after the handle."""
    stranger, marks = start(**{MARKER: secrets.token_hex(16)}), Marks.of({marker})
    assert signal_marked(stranger.pid, marks, signal.SIGKILL) is None
    gone = start(**{MARKER: marker})
    gone.kill()
    gone.wait()
    assert signal_marked(gone.pid, marks, signal.SIGKILL) is None
    assert stranger.poll() is None


LOOKER = """
import sys, time
from ipc.leftovers import end_leftovers
print(end_leftovers({sys.argv[1]}, time.monotonic).ended)
"""


def test_who_looks_is_not_a_leftover_though_it_carries_the_marker(start: Start, marker: str) -> None:
    """A job of the dead run may have started the supervisor that looks."""
    left = start(**{MARKER: marker})
    env = {MARKER: marker, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", LOOKER, marker],
        env=env,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, f"({left.pid},)\n")


FORKER = """
import os, sys, time
print("up", flush=True)
os.close(1)
end = time.monotonic() + 60
while time.monotonic() < end:
    if os.fork() == 0:
        os.setsid()
    else:
        time.sleep(0.002)
        os._exit(0)
"""


def test_a_chain_of_forks_that_runs_ahead_of_the_look_is_caught_up_with(start: Start, marker: str) -> None:
    """K9: it looks until nothing is left."""
    start(FORKER, **{MARKER: marker})
    found = end_leftovers({marker}, time.monotonic)
    assert found.survivors == ()
    assert leftovers.marked(Marks.of({marker})) == []


HOPPER = FORKER.replace("        time.sleep(0.002)\n", "")


def test_one_that_does_nothing_but_fork_and_leave_is_caught_by_asking_for_the_youngest(
    start: Start, marker: str
) -> None:
    """K9: by the time that a number of a list of processes is looked at, it is another."""
    for _ in range(5):
        start(HOPPER, **{MARKER: marker})
        found = end_leftovers({marker}, time.monotonic)
        assert found.survivors == ()
        assert found.ended
        assert not [pid for pid in map(int, forks_seen()) if Marks.of({marker}).are_on(pid)]


def forks_seen() -> Iterator[str]:
    """Yield the last process ids that were given out, for as long as one that hops needs a hundred times."""
    end = time.monotonic() + 0.1
    while time.monotonic() < end:
        yield Path("/proc/loadavg").read_text().split()[-1]


HEADLESS = """
import ctypes, threading, time
threading.Thread(target=time.sleep, args=(600,)).start()
print("up", flush=True)
ctypes.CDLL(None).pthread_exit(None)
"""


def test_a_process_whose_first_thread_has_ended_is_known_by_the_others(start: Start, marker: str) -> None:
    """K9: its own line of /proc shows no environment any more, and says that it is a zombie."""
    left = start(HEADLESS, **{MARKER: marker})
    stat = Path(f"/proc/{left.pid}/stat")
    while stat.read_text().rpartition(")")[2].split()[0] != "Z":
        time.sleep(0.001)
    assert leftovers.read(f"{left.pid}/environ") == b""
    assert end_leftovers({marker}, time.monotonic) == Leftovers((left.pid,))
    assert left.wait(10) == -signal.SIGKILL


@pytest.fixture
def group(marker: str) -> Iterator[str]:
    """A control group as a guardian makes it: named after the marker of its run."""
    if (base := cgroup.base()) is None:
        pytest.skip("no control group may be made here")
    path = cgroup.make(base, f"laneway-{marker}-1")
    yield path
    cgroup.remove(path)


def test_who_has_no_environment_is_known_by_the_name_of_its_control_group(
    start: Start, marker: str, group: str
) -> None:
    """K9: and by that of a group below; what is dead there is over."""
    below = cgroup.make(group, "below")
    left = [start(), start()]
    dead = start()
    assert cgroup.take_in(group, left[0].pid)
    assert cgroup.take_in(below, left[1].pid)
    assert cgroup.take_in(group, dead.pid)
    dead.kill()
    os.waitid(os.P_PID, dead.pid, os.WEXITED | os.WNOWAIT)
    assert end_leftovers({secrets.token_hex(16)}, time.monotonic) == Leftovers()
    assert end_leftovers({marker}, time.monotonic) == Leftovers(tuple(sorted(one.pid for one in left)))
    assert [one.wait(10) for one in left] == [-signal.SIGKILL] * 2
    assert cgroup.remove(group)


def test_control_groups_are_ended_with_what_is_in_them(start: Start, marker: str, group: str) -> None:
    """K9: who is found in them can be waited for first."""
    left = start()
    assert cgroup.take_in(group, left.pid)
    found = end_leftovers({marker}, time.monotonic, lambda: cgroup.kill(group))
    assert found == Leftovers((left.pid,))


def test_who_was_stopped_is_woken_and_strangers_are_not(start: Start, marker: str) -> None:
    """K9: a guardian that a job has stopped."""
    stopped, stranger = start(**{MARKER: marker}), start(**{MARKER: secrets.token_hex(16)})
    for one in (stopped, stranger):
        one.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, one.pid, os.WSTOPPED)
    wake({marker})
    os.waitid(os.P_PID, stopped.pid, os.WCONTINUED)
    assert Path(f"/proc/{stranger.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


def test_a_zombie_is_gone_already(start: Start, marker: str) -> None:
    left = start(**{MARKER: marker})
    left.kill()
    os.waitid(os.P_PID, left.pid, os.WEXITED | os.WNOWAIT)
    assert end_leftovers({marker}, time.monotonic) == Leftovers()


@pytest.mark.parametrize("refusal", [None, PermissionError()], ids=["state D", "another user's by now"])
def test_what_sigkill_does_not_end_is_said_to_survive_and_is_waited_for_no_longer(
    start: Start, marker: str, monkeypatch: pytest.MonkeyPatch, refusal: Exception | None
) -> None:
    """K9. No test can put a process into state D: here the signal goes nowhere."""

    def send(handle: int, number: int) -> None:
        if refusal is not None:
            raise refusal

    monkeypatch.setattr(signal, "pidfd_send_signal", send)
    monkeypatch.setattr(leftovers, "PATIENCE", 0.1)
    left = start(**{MARKER: marker})
    assert end_leftovers({marker}, time.monotonic) == Leftovers((), (left.pid,))
    assert left.poll() is None


def test_without_a_marker_to_look_for_nothing_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clean start costs nothing."""
    monkeypatch.setattr(leftovers, "PROC", "/nowhere")
    assert end_leftovers(set(), time.monotonic) == Leftovers()


def test_where_the_system_shows_no_environments_nothing_is_looked_for(
    start: Start, marker: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leftovers, "PROC", "/nowhere")
    assert not leftovers.can_look()
    left = start(**{MARKER: marker})
    assert end_leftovers({marker}, time.monotonic) == Leftovers()
    assert left.poll() is None
