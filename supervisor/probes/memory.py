"""How much memory may still be taken on Linux: the machine's, or the least that a control group leaves of it.

Every group above ours counts as well: each may have a limit of its own, and the tightest one kills.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from ipc.guardian.cgroup import folders, text_of
from policies.readings import MemoryReading


@dataclass(frozen=True, slots=True)
class Files:
    """The files of a memory group: its limits, what it uses, and what of that is cache that can go."""

    controller: str
    limits: tuple[str, ...]
    usage: str
    cache: str


VERSIONS: Final = (
    Files("", ("memory.max", "memory.high"), "memory.current", "inactive_file"),
    Files("memory", ("memory.limit_in_bytes",), "memory.usage_in_bytes", "total_inactive_file"),
)


@dataclass(frozen=True, slots=True)
class Room:
    """What one limit leaves, and the limit itself, in bytes; `file` is where it is set."""

    left: int
    limit: int
    file: str


def memory(
    meminfo: str = "/proc/meminfo",
    pressure: str = "/proc/pressure/memory",
    mountinfo: str = "/proc/self/mountinfo",
    own_group: str = "/proc/self/cgroup",
) -> MemoryReading:
    """Return the smaller of what the machine and its control groups leave, and how hard memory is to get."""
    try:
        available, total = (meminfo_bytes(text_of(meminfo), name) for name in ("MemAvailable", "MemTotal"))
    except (OSError, ValueError, IndexError):
        return MemoryReading(pressure=stalled(pressure), source=f"{meminfo} does not say what is available")
    rooms = list(all_rooms(mountinfo, own_group))
    limits = [room.limit for room in rooms]
    tightest = min(rooms, key=lambda room: room.left, default=None)
    source = "MemAvailable"
    if tightest is not None and tightest.left < available:
        available, source = max(0, tightest.left), tightest.file
    return MemoryReading(available, min([total, *limits]), stalled(pressure), source)


def meminfo_bytes(text: str, name: str) -> int:
    """Return one figure of meminfo. Raises: IndexError: it is not there; ValueError: it is no number."""
    return int(text.partition(f"{name}:")[2].split()[0]) << 10


def stalled(path: str) -> float | None:
    """Return in what share of the last 10 s somebody waited for memory, in percent; None: nobody counts."""
    try:
        some = next(line for line in text_of(path).splitlines() if line.startswith("some "))
        return float(dict(pair.split("=") for pair in some.split()[1:])["avg10"])
    except (OSError, StopIteration, KeyError, ValueError):
        return None


def all_rooms(mountinfo: str, own_group: str) -> Iterator[Room]:
    """Yield what each limit of our groups and of all above them leaves."""
    try:
        texts = text_of(mountinfo), text_of(own_group)
    except OSError:
        return
    for files in VERSIONS:
        for folder in folders(*texts, files.controller):
            while os.path.exists(f"{folder}/cgroup.procs"):  # noqa: PTH110 - the kernel's paths are texts here
                yield from rooms(folder, files)
                folder = os.path.dirname(folder)  # noqa: PLW2901, PTH120 - up, as far as the mount goes


def rooms(folder: str, files: Files) -> Iterator[Room]:
    """Yield what each limit of one group leaves; a group that does not say leaves what it may."""
    for name in files.limits:
        try:
            limit = int(text_of(f"{folder}/{name}"))
            used = int(text_of(f"{folder}/{files.usage}")) - cached(f"{folder}/memory.stat", files.cache)
        except (OSError, ValueError, IndexError):  # "max", no such file, or no such controller
            continue
        yield Room(limit - used, limit, f"{folder}/{name}")


def cached(path: str, name: str) -> int:
    """Return how much a group holds of cache that can go."""
    return int(f"\n{text_of(path)}".partition(f"\n{name} ")[2].split()[0])
