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
from ipc.leftovers import MARKER, Leftovers, end_leftovers, kill_marked

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
    stranger = start(**{MARKER: secrets.token_hex(16)})
    assert kill_marked(stranger.pid, {f"{MARKER}={marker}".encode()}) is None
    gone = start(**{MARKER: marker})
    gone.kill()
    gone.wait()
    assert kill_marked(gone.pid, {f"{MARKER}={marker}".encode()}) is None
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
    assert leftovers.marked({f"{MARKER}={marker}".encode()}) == []


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
