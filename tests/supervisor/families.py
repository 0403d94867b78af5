"""Who descends from whom, as /proc tells it, and whether they are gone."""

import os
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from ipc.guardian import cgroup
from ipc.leftovers import MARKER

GONE_SECONDS = 2.0


class Process(NamedTuple):
    """A process that no other can be taken for: its number, and when it was started, in ticks."""

    pid: int
    started: int

    def state(self) -> str:
        """Return the letter of its state, "" when it is gone; Z is a zombie that nobody has reaped."""
        fields = stat(self.pid)
        return fields[0] if fields and int(fields[19]) == self.started else ""


def stat(pid: int) -> list[str]:
    """Return what follows the name in a process's stat: state, parent, group, session; [] when it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def everybody() -> dict[int, list[str]]:
    """Return the stat of each process."""
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    return {pid: fields for pid in pids if (fields := stat(pid))}


def descendants(pid: int) -> set[Process]:
    """Return all processes below one, zombies included."""
    parents = everybody()
    found, new = set[int](), {pid}
    while new:
        new = {one for one, fields in parents.items() if int(fields[1]) in new} - found
        found |= new
    return {Process(one, int(parents[one][19])) for one in found}


def process(pid: int) -> Process:
    """Return the process that has a number now."""
    return Process(pid, int(stat(pid)[19]))


def children(pid: int) -> set[Process]:
    """Return the children of a process."""
    return {one for one in descendants(pid) if (fields := stat(one.pid)) and int(fields[1]) == pid}


def environ_of(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


def marked(markers: Iterable[str]) -> list[int]:
    """Return the processes that carry one of the markers of runs; a zombie shows none."""
    entries = {f"{MARKER}={marker}".encode() for marker in markers}
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    return [pid for pid in pids if not entries.isdisjoint(environ_of(pid))]


@dataclass(frozen=True, slots=True)
class Family:
    """What one supervisor had below it at some moment: its guardians, and what they kept."""

    guardians: frozenset[Process]
    kept: frozenset[Process]

    @classmethod
    def of(cls, supervisor: int) -> "Family":
        """Look at it; its guardians are its children."""
        found, guardians = descendants(supervisor), children(supervisor)
        return cls(frozenset(guardians), frozenset(found - guardians))

    def alive(self) -> list[Process]:
        """Return who of them lives; a zombie does not."""
        return [one for one in (*self.guardians, *self.kept) if one.state() not in {"", "Z"}]

    def left(self) -> list[Process]:
        """Return who is still there: to reap a dead guardian is the business of who adopted it."""
        alive = [one for one in self.guardians if one.state() not in {"", "Z"}]
        return alive + [one for one in self.kept if one.state()]


def gone_after(family: Family, markers: Iterable[str], seconds: float = GONE_SECONDS) -> float:
    """Wait until a family, and everybody with one of the markers, is gone; return the seconds that it took.

    Raises:
        AssertionError: somebody is left after `seconds`.
    """
    markers, began = list(markers), time.monotonic()
    while left := [*family.left(), *marked(markers)]:
        assert time.monotonic() - began < seconds, f"still there after {seconds:g} s: {left}"
        time.sleep(0.002)
    return time.monotonic() - began


def groups_left(markers: Iterable[str]) -> list[str]:
    """Return the control groups of runs that are still there."""
    base, markers = cgroup.base(), {*markers}
    found = [] if base is None else cgroup.leftovers(base, "laneway-")
    return [group for group in found if not markers.isdisjoint(group.split("-"))]
