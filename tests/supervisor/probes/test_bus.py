"""Our end of a D-Bus, at the real daemon, where this system has one."""

import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from math import inf
from pathlib import Path

import pytest

from supervisor.probes.logind import DAEMON, MANAGER, Bus, BusError, BusMissing, BusRefused
from tests.supervisor.probes.conftest import Room

PROGRAM = shutil.which("dbus-daemon")


@pytest.fixture
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a daemon of the test's own."""
    if PROGRAM is None:
        pytest.skip("no dbus-daemon on this system")
    place = tmp_path_factory.mktemp("bus") / "s"
    argv = [
        PROGRAM,
        "--session",
        "--nofork",
        "--nopidfile",
        "--print-address",
        f"--address=unix:path={place}",
    ]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as daemon:
        assert daemon.stdout is not None
        if not (told := daemon.stdout.readline().strip()):
            pytest.skip("dbus-daemon does not start for this user")
        yield told
        daemon.terminate()


def test_a_real_daemon_lets_us_in_and_answers(address: str) -> None:
    with Bus(address) as bus:
        assert "org.freedesktop.DBus" in bus.call(DAEMON, "ListNames")
        assert bus.call(DAEMON, "NameHasOwner", "s", ("org.example.Nobody",)) is False


def test_a_name_that_nobody_has_is_told_from_a_question_that_is_refused(address: str) -> None:
    with Bus(address) as bus:
        with pytest.raises(BusMissing, match=r"org\.freedesktop\.login1 answers "):
            bus.call(MANAGER, "ListSessions")
        with pytest.raises(BusRefused, match=r"org\.freedesktop\.DBus answers UnknownMethod"):
            bus.call(DAEMON, "Sing")


def test_a_machine_with_a_bus_and_no_logind_has_nobody_logged_in(address: str, room: Room) -> None:
    """U28: that is an answer, not a doubt."""
    room.desk = replace(room.desk, system_bus=address)
    assert room.look().idle_s == inf


@pytest.mark.parametrize(
    "address", ["", "unix", "tcp:host=localhost,port=1", "unix:guid=7", "unix:path=/" + "long" * 50, ";"]
)
def test_what_is_no_address_is_no_bus(address: str) -> None:
    """C62."""
    with pytest.raises(BusError):
        Bus(address)


def test_a_socket_that_nobody_serves_is_a_bus_that_is_missing(tmp_path: Path) -> None:
    with pytest.raises(BusMissing):
        Bus(f"unix:path={tmp_path}/none")
