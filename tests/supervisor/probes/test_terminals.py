"""Since when nobody has typed: by made-up terminals, and by a real one."""

import os
from collections.abc import Iterator
from math import inf
from pathlib import Path

import pytest

from supervisor.probes.terminals import (
    console_idle,
    device_idle,
    is_console_in_use,
    is_mac_person,
    is_person,
    terminal_idle,
)

NOW = 4_000_000_000.0  # later than any file that a test makes: root's consoles have been typed at since


def now() -> int:
    return int(NOW * 1_000_000)


def terminal(devices: Path, name: str, used: float) -> None:
    path = devices / name
    path.parent.mkdir(exist_ok=True)
    path.touch()
    os.utime(path, (used, NOW))  # output moves the other time


def everybody(_uid: int) -> bool:
    return True


def test_the_terminal_that_was_used_last_counts(tmp_path: Path) -> None:
    terminal(tmp_path, "pts/0", NOW - 500)
    terminal(tmp_path, "pts/12", NOW - 30)
    terminal(tmp_path, "pts/ptmx", NOW)
    assert terminal_idle(str(tmp_path), counts=everybody, now=now) == (30.0, "/dev/pts/12")


def test_a_terminal_of_a_service_does_not_count(tmp_path: Path) -> None:
    terminal(tmp_path, "pts/0", NOW)
    assert terminal_idle(str(tmp_path), counts=lambda uid: uid != os.getuid(), now=now) is None


def test_a_clock_that_was_set_back_makes_nobody_idle_for_less_than_nothing(tmp_path: Path) -> None:
    terminal(tmp_path, "pts/0", NOW + 3600)
    assert terminal_idle(str(tmp_path), counts=everybody, now=now) == (0.0, "/dev/pts/0")


def test_a_system_without_such_terminals_has_none(tmp_path: Path) -> None:
    assert terminal_idle(str(tmp_path), now=now) is None


def test_the_terminals_of_macos_have_other_names(tmp_path: Path) -> None:
    terminal(tmp_path, "ttys003", NOW - 9)
    terminal(tmp_path, "ttyp3", NOW)
    assert terminal_idle(str(tmp_path), "ttys[0-9]*", everybody, now) == (9.0, "/dev/ttys003")


def test_a_link_to_nowhere_is_a_terminal_that_was_closed_meanwhile(tmp_path: Path) -> None:
    (tmp_path / "pts").mkdir()
    (tmp_path / "pts" / "0").symlink_to(tmp_path / "gone")
    assert terminal_idle(str(tmp_path), counts=everybody, now=now) is None


def test_the_console_that_was_used_last_counts(tmp_path: Path) -> None:
    """C60: what is no console of this machine, as a serial line, does not."""
    for name, used in (("tty1", NOW - 500), ("tty12", NOW - 30), ("tty0", NOW), ("tty", NOW), ("ttyS0", NOW)):
        terminal(tmp_path, name, used)
    assert console_idle(str(tmp_path), everybody, now) == (30.0, "/dev/tty12")


def test_a_console_of_a_service_does_not_count(tmp_path: Path) -> None:
    terminal(tmp_path, "tty1", NOW)
    assert console_idle(str(tmp_path), lambda uid: uid != os.getuid(), now) is None


@pytest.mark.parametrize(
    ("uid", "read", "handed_over", "is_used"),
    [
        (1000, 50.0, 100.0, True),
        (0, 50.0, 50.0, False),
        (0, 50.0, 100.0, False),
        (0, 108.0, 100.0, True),
    ],
)
def test_a_console_of_root_counts_only_when_somebody_has_typed_since_it_was_taken_over(
    uid: int, read: float, handed_over: float, *, is_used: bool
) -> None:
    """C60, U28: each console is root's from the boot on; a person logged in counts before the first key."""
    facts = [0o20620, 1, 1, 1, uid, 5, 0, int(read), int(handed_over), int(handed_over)]
    console = os.stat_result(facts, {"st_atime": read, "st_mtime": handed_over, "st_ctime": handed_over})
    assert is_console_in_use(console) is is_used


@pytest.mark.parametrize(
    ("uid", "linux", "mac"),
    [(0, True, False), (1000, True, True), (120, False, False), (65534, False, True), (501, False, True)],
)
def test_people_are_told_from_services_by_their_numbers(uid: int, linux: bool, mac: bool) -> None:
    assert (is_person(uid), is_mac_person(uid)) == (linux, mac)


@pytest.fixture
def keyboard() -> Iterator[tuple[int, int]]:
    """Both ends of a real terminal: where keys are typed, and where a program reads them."""
    try:
        typed, read = os.openpty()
    except OSError:
        pytest.skip("this system gives out no terminals")
    yield typed, read
    os.close(typed)
    os.close(read)


def test_a_key_that_a_program_has_read_makes_a_real_terminal_busy(keyboard: tuple[int, int]) -> None:
    """What is printed does not."""
    typed, read = keyboard
    path = os.ttyname(read)
    os.utime(path, (0, 0))
    os.write(read, b"a line of output\n")
    assert (device_idle(path) or inf) > 1e9
    os.write(typed, b"k\n")
    assert os.read(read, 10) == b"k\n"
    idle = device_idle(path)
    assert idle is not None
    assert idle < 60


def test_a_terminal_that_is_not_there_tells_nothing(tmp_path: Path) -> None:
    assert device_idle(str(tmp_path / "tty9")) is None
