"""Whose descriptors are whose: what was closed or replaced is noticed, what its owner gives up is not."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from supervisor import sensors
from supervisor.descriptors import OPEN, Descriptors, Severed, all_open, identity
from supervisor.loop import CHECK_SECONDS, READ, Loop


@pytest.fixture
def fd() -> Iterator[int]:
    """A descriptor that a test may close."""
    fd, other = os.pipe()
    os.close(other)
    yield fd
    if identity(fd) is not None:
        os.close(fd)


@pytest.fixture
def ours(fd: int) -> Descriptors:
    found = Descriptors()
    found.note(fd, "the store")
    return found


def replace(fd: int, file: Path) -> None:
    """Have a number mean a file."""
    opened = os.open(file, os.O_RDWR | os.O_CREAT)
    os.dup2(opened, fd)
    os.close(opened)


def test_what_is_as_it_was_noted_is_ours(ours: Descriptors, fd: int) -> None:
    ours.check()
    assert ours.is_ours(fd)
    assert not ours.is_ours(fd + 1), "nobody has noted it"
    assert all_open()[fd] == identity(fd)


def test_what_was_closed_or_replaced_is_told(ours: Descriptors, fd: int, tmp_path: Path) -> None:
    """K11."""
    for change in (lambda: replace(fd, tmp_path / "other"), lambda: os.close(fd)):
        change()
        with pytest.raises(
            Severed, match=rf"^the store \(descriptor {fd}\) was closed or replaced by code in"
        ):
            ours.check()


def test_what_its_owner_closes_is_not_missed(ours: Descriptors, fd: int) -> None:
    ours.close(fd)
    ours.check()
    assert identity(fd) is None


def test_a_number_that_is_noted_again_was_closed_behind_its_owners_back(
    ours: Descriptors, fd: int, tmp_path: Path
) -> None:
    """K11: who opens the next thing gets the number, and would hide what happened."""
    replace(fd, tmp_path / "other")
    ours.note(fd, "a child")
    assert ours.is_ours(fd)
    assert ours.lost().startswith("the store")


def test_what_is_somebody_elses_now_is_not_closed(ours: Descriptors, fd: int, tmp_path: Path) -> None:
    """K11."""
    replace(fd, tmp_path / "other")
    ours.close(fd)
    assert identity(fd) == identity(tmp_path / "other")
    assert ours.lost()


def test_a_stream_may_be_redirected_and_not_closed(fd: int, tmp_path: Path) -> None:
    ours = Descriptors()
    ours.note(fd, "stdout", OPEN)
    replace(fd, tmp_path / "other")
    ours.check()
    os.close(fd)
    assert ours.lost().startswith("stdout")


def test_a_loop_wakes_itself_by_no_number_that_is_somebody_elses(tmp_path: Path) -> None:
    """K11: nothing is written there, and the next turn says so."""
    now = [0.0]
    loop = Loop(lambda: now[0])
    bell, file = loop._wake_write, tmp_path / "other"
    replace(bell, file)
    loop.post(print, "")
    assert file.stat().st_size == 0
    now[0] += CHECK_SECONDS
    with pytest.raises(Severed, match="the loop's bell"):
        loop.turn(0.0)
    loop.close()


def test_a_loop_whose_wait_is_something_else_says_so(tmp_path: Path) -> None:
    """K11."""
    loop = Loop(sensors.monotonic)
    replace(loop._selector.fileno(), tmp_path / "other")
    with pytest.raises(Severed, match="the loop's wait"):
        loop.turn(0.0)
    loop.close()


def test_what_a_loop_watches_is_noted_until_it_is_not_watched(fd: int) -> None:
    loop = Loop(sensors.monotonic)
    loop.watch(fd, READ, lambda _events: None)
    loop.unwatch(fd)
    os.close(fd)
    loop.descriptors.check()
    loop.close()
