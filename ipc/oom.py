"""Whether it was the kernel's out-of-memory killer that ended a process (FIELD J3, H9).

    before = witness.look()    a worker dies of a SIGKILL that is not ours    now = witness.look()
                               evidence(before, now, pid)

To whoever reaps it, such a death looks like any other SIGKILL. What tells them apart, the surest first: the
kernel's log names the process, but most systems let only root read that; the memory group counts
its own; /proc/vmstat counts those of the whole machine. A count that is missing is no evidence.
"""

import os
import re
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from ipc.guardian.cgroup import folders

KEPT: Final = 64
"""Named processes that are remembered."""
RECORDS: Final = 4096
"""Records of the log that one look reads; what is left is for the next."""
PIECE: Final = 8192
"""Bytes of one read; a record of the log is never longer."""
RECENT: Final = 1.0
"""Seconds for which a look is good enough for what begins."""
FIRST_PROCESS_NAMESPACE: Final = 0xEFFFFFFC
"""Its inode. Outside it the log's numbers are not the ones that we know processes by."""
NAMED: Final = re.compile(
    rb"^(\d+),(\d+),[^;\n]*;[^\n]*?: Killed process (\d+) \([^\n]*"
    rb"anon-rss:(\d+)kB, file-rss:(\d+)kB, shmem-rss:(\d+)kB",
    re.MULTILINE,
)


class Evidence(StrEnum):
    """What says that the out-of-memory killer ended a process."""

    NAMED = "named"
    """The kernel's log names it."""
    GROUP = "group"
    """One was ended in our memory group meanwhile."""
    MACHINE = "machine"
    """One was ended on this machine meanwhile."""
    NONE = "none"
    """None was, or all that were are known to be others."""
    UNKNOWN = "unknown"
    """This system does not say."""


@dataclass(frozen=True, slots=True)
class Victim:
    """A process that the log names: the record's number, the process id, the bytes it held in memory."""

    record: int
    pid: int
    resident: int


@dataclass(frozen=True, slots=True)
class Look:
    """What the kernel says at one moment. None: it does not say.

    Attributes:
        group: processes ended in our memory group.
        covers_below: whether that counts the groups below ours, in which children may be.
        machine: processes ended on the whole machine.
        victims: those that the log has named last, since the witness has listened.
    """

    group: int | None = None
    covers_below: bool = False
    machine: int | None = None
    victims: tuple[Victim, ...] | None = None


class Witness:
    """Looks at what the kernel says. Holds up to three descriptors, on its counts and its log.

    A count of the machine takes the kernel 30 us to make up, whence `recent` for what begins often.
    """

    def __init__(self, proc: str = "/proc", log: str = "/dev/kmsg") -> None:
        file, self._covers_below = memory_group(proc)
        self._group = open_to_read(file)
        self._machine = open_to_read(f"{proc}/vmstat")
        self._log = open_to_read(log) if has_first_numbers(proc) else None
        if self._log is not None:
            os.lseek(self._log, 0, os.SEEK_END)
        self._victims = deque[Victim](maxlen=KEPT)
        self._last: tuple[float, Look] | None = None

    def recent(self, now: float) -> Look:
        """Return a look of the last second. `now` is monotonic seconds."""
        if self._last is None or now - self._last[0] > RECENT:
            self._last = now, self.look()
        return self._last[1]

    def look(self) -> Look:
        """Return what the kernel says now."""
        return Look(count(self._group), self._covers_below, count(self._machine), self._read_log())

    def _read_log(self) -> tuple[Victim, ...] | None:
        if self._log is None:
            return None
        for _ in range(RECORDS):
            try:
                record = os.read(self._log, PIECE)
            except BrokenPipeError:  # records that we had not read were overwritten
                continue
            except OSError:
                break
            if not record:
                break
            self._victims += victims_in(record)
        return tuple(self._victims)

    def close(self) -> None:
        """Look no more; from now on nothing is said."""
        for fd in (self._group, self._machine, self._log):
            if fd is not None:
                os.close(fd)
        self._group = self._machine = self._log = None


def evidence(before: Look, now: Look, pid: int) -> Evidence:
    """Tell what says that `pid`, which a SIGKILL ended between two looks, was out of memory. Pure."""
    named = named_since(before, now)
    if any(victim.pid == pid for victim in named):
        return Evidence.NAMED
    killed = killed_since(before, now)
    if killed is None:
        return Evidence.UNKNOWN
    on_machine = rise(before.machine, now.machine)
    if killed == 0 or (on_machine is not None and len(named) >= on_machine):
        return Evidence.NONE
    return Evidence.GROUP if rise(before.group, now.group) else Evidence.MACHINE


def killed_since(before: Look, now: Look) -> int | None:
    """Return how many processes the killer ended: in our memory group if that says it, else on the machine.

    A group that does not count what is below it may miss a child: its zero says nothing. None: unknown.
    """
    in_group = rise(before.group, now.group)
    if in_group or (in_group == 0 and now.covers_below):
        return in_group
    return rise(before.machine, now.machine)


def named_since(before: Look, now: Look) -> Sequence[Victim]:
    """Return the processes that the log has named between two looks, and what they held in memory."""
    return [victim for victim in now.victims or () if victim not in (before.victims or ())]


def rise(before: int | None, now: int | None) -> int | None:
    """Return by how much a count has risen, None where it is missing or of another group by now."""
    return None if before is None or now is None or now < before else now - before


def victims_in(records: bytes) -> list[Victim]:
    """Return the processes that records of the log name, if the kernel wrote them and not a program."""
    found = (map(int, match.groups()) for match in NAMED.finditer(records))
    return [
        Victim(record, pid, (anonymous + file + shared) << 10)
        for priority, record, pid, anonymous, file, shared in found
        if priority >> 3 == 0
    ]


def memory_group(proc: str) -> tuple[str, bool]:
    """Return the file that counts for our memory group ("": none), and whether it covers groups below."""
    try:
        with open(f"{proc}/self/mountinfo", "rb") as mounts, open(f"{proc}/self/cgroup", "rb") as own:
            texts = os.fsdecode(mounts.read()), os.fsdecode(own.read())
    except OSError:
        return "", False
    events = [file for folder in folders(*texts) if (file := nearest(folder, "memory.events"))]
    first_version = [f"{folder}/memory.oom_control" for folder in folders(*texts, "memory")]
    return next(iter(events + first_version), ""), bool(events)


def nearest(folder: str, name: str) -> str:
    """Return a file of a group, or of the nearest group above that has it; "" if none has."""
    while os.path.exists(f"{folder}/cgroup.procs"):
        if os.path.exists(f"{folder}/{name}"):
            return f"{folder}/{name}"
        folder = os.path.dirname(folder)
    return ""


def count(fd: int | None) -> int | None:
    """Return the count of kills from a file of names and numbers, None where it is not there."""
    if fd is None:
        return None
    text = b"\n"
    try:
        while b"\n" not in (found := text.partition(b"\noom_kill ")[2]):
            piece = os.pread(fd, PIECE, len(text) - 1)
            if not piece:
                return None
            text += piece
        return int(found.partition(b"\n")[0])
    except (OSError, ValueError):
        return None


def has_first_numbers(proc: str) -> bool:
    """Tell whether we know processes by the numbers that the kernel's log uses."""
    try:
        return os.stat(f"{proc}/self/ns/pid").st_ino == FIRST_PROCESS_NAMESPACE
    except OSError:
        return False


def open_to_read(path: str) -> int | None:
    """Open a file that is never waited for, None where it may not be read."""
    try:
        return os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
