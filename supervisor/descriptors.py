"""The descriptors that a run holds, and whether they still are what they were (CONTRACTS K11).

Code that runs in this process, a handler or a lander, can close any of them, and the next that is opened gets
the number: who goes on by it reads, or writes to, what is somebody else's. So the run ends there and then.
"""

import os
from pathlib import Path
from typing import Final, NamedTuple

Identity = tuple[int, int]

FOLDER: Final = Path("/dev/fd")
OPEN: Final = (-1, -1)
"""The identity of what may be redirected, and must only be open."""


class Severed(Exception):
    """A descriptor of this run is gone, or is another: nothing more may be done by the number of any."""


class Noted(NamedTuple):
    """What a descriptor was when it was noted, and whose it is, for a person."""

    was: Identity | None
    whose: str


class Descriptors:
    """Those that were noted. Any thread; each notes, forgets and closes only what it has opened."""

    def __init__(self) -> None:
        self._ours: dict[int, Noted] = {}
        self._lost = ""

    def note(self, fd: int, whose: str, was: Identity | None = None) -> None:
        """Remember what a descriptor is now, or `was`.

        A number that is noted already, and was not forgotten, was closed behind its owner's back.
        """
        if (before := self._ours.get(fd)) is not None:
            self._lost = self._lost or told(fd, before)
        self._ours[fd] = Noted(was or identity(fd), whose)

    def forget(self, fd: int) -> None:
        """It is about to be closed by its owner."""
        self._ours.pop(fd, None)

    def close(self, fd: int) -> None:
        """Close one that was noted; what is not ours any more is left alone, for the next check to find."""
        if self.is_ours(fd):
            self.forget(fd)
            os.close(fd)

    def is_ours(self, fd: int) -> bool:
        """Tell whether it is noted, and is what it was then."""
        return (noted := self._ours.get(fd)) is not None and is_same(fd, noted)

    def lost(self) -> str:
        """Say what is not what it was, "" for nothing."""
        for fd, noted in tuple(self._ours.items()):
            if not is_same(fd, noted) and self._ours.get(fd) is noted:  # not forgotten meanwhile
                return told(fd, noted)
        return self._lost

    def check(self) -> None:
        """Make sure that all are what they were.

        Raises:
            Severed: one is not.
        """
        if lost := self.lost():
            raise Severed(lost)


def is_same(fd: int, noted: Noted) -> bool:
    """Tell whether a descriptor is what it was when it was noted."""
    found = identity(fd)
    return found is not None and noted.was in {found, OPEN}


def told(fd: int, noted: Noted) -> str:
    """Say that a descriptor is not ours any more."""
    return f"{noted.whose} (descriptor {fd}) was closed or replaced by code in this process"


def identity(of: int | Path) -> Identity | None:
    """Return device and inode of a descriptor or a file; None where it is closed, or not there."""
    try:
        found = of.stat() if isinstance(of, Path) else os.fstat(of)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def all_open() -> dict[int, Identity]:
    """Return all descriptors of this process; none where the system does not list them."""
    try:
        numbers = [int(one.name) for one in FOLDER.iterdir()]
    except OSError:
        return {}
    return {fd: found for fd in numbers if (found := identity(fd)) is not None}
