"""Processes that outlived their supervisor, found by the marker of its run (CONTRACTS K9, K11).

    /proc/* has a marker -> pidfd -> look again -> SIGKILL -> gone, or a survivor

Children die with their supervisor, and a guardian ends what they started; what is found here has
outlived both. TERM would be of no use, since whom it could report to is dead. A number that was
stored is never used: a process is known by what the kernel says of it now, and killed through a
descriptor that can mean no other. The marker stands in the environment that a process was started
with, which it can have cleared for those that it starts, and in the name of its control group, where
it has one.
"""

import os
import select
import signal
from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass
from errno import EINVAL, ENOENT, ESRCH
from typing import Final

from ipc.child import rss_gib
from ipc.ladder import PATIENCE, PATIENCE_PER_GIB

MARKER: Final = "LANEWAY_MARKER"
"""The environment variable that every child, and with it its descendants, carries."""
PROC: Final = "/proc"
AT_ONCE: Final = 256
"""Processes that handles are held on at a time."""
LOOKS: Final = 2
"""Looks that have to find nobody: one that was killed may have forked just before."""
NOBODY: Final = (ESRCH, EINVAL, ENOENT)
"""What the system says of a number that is no process's, but perhaps a thread's."""
HOPS: Final = 200
"""How often a look asks for the youngest process."""


@dataclass(frozen=True, slots=True)
class Leftovers:
    """What was found, by process id: those that are gone now, and those that SIGKILL did not end in time."""

    ended: tuple[int, ...] = ()
    survivors: tuple[int, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.ended or self.survivors)


def can_look() -> bool:
    """Tell whether this system shows the environment of processes, and gives handles on them."""
    return hasattr(os, "pidfd_open") and os.path.exists(f"{PROC}/self/environ")


@dataclass(frozen=True, slots=True)
class Marks:
    """What tells the processes of some runs: an entry of their environment, a word of their group's name."""

    entries: frozenset[bytes]
    words: frozenset[bytes]

    @classmethod
    def of(cls, markers: Set[str]) -> "Marks":
        """Return the marks that runs with these markers leave."""
        return cls(frozenset(map(marker_entry, markers)), frozenset(map(os.fsencode, markers)))

    def are_on(self, pid: int) -> bool:
        """Tell whether a process carries one of them; what is dead carries none."""
        if not self.entries.isdisjoint(environ_of(pid)):
            return True
        return not self.words.isdisjoint(group_words(pid)) and is_alive(pid)


def end_leftovers(
    markers: Set[str], monotonic: Callable[[], float], kill_groups: Callable[[], object] = lambda: None
) -> Leftovers:
    """Kill every process that carries one of the markers, but not this one; look again until none is left.

    It waits for their end as long as the ladder of a child does: 5 s, more for those that hold much memory.

    Args:
        markers: of runs that are dead.
        monotonic: seconds.
        kill_groups: ends their control groups at one stroke, where there are some: what forks too fast
            for a look does not outrun the kernel.
    """
    if not markers or not can_look():
        return Leftovers()
    marks = Marks.of(markers)
    until = monotonic() + PATIENCE + PATIENCE_PER_GIB * sum(map(rss_gib, marked(marks)))
    ended: set[int] = set()
    in_vain = 0
    while in_vain < LOOKS and monotonic() < until:
        handles = signal_all(marks, signal.SIGKILL)
        kill_groups()
        ended |= wait_and_close(handles, until, monotonic)
        in_vain = 0 if handles else in_vain + 1
    return Leftovers(tuple(sorted(ended)), tuple(marked(marks)))


def wake(markers: Set[str]) -> None:
    """Continue every process that carries one of the markers: a job may have stopped its guardian."""
    if markers and can_look():
        for handle in signal_all(Marks.of(markers), signal.SIGCONT):
            os.close(handle)


def marker_entry(marker: str) -> bytes:
    """Return a marker as it stands in an environment."""
    return os.fsencode(f"{MARKER}={marker}")


def marked(marks: Marks) -> list[int]:
    """Return the ids of the other processes that carry one of the marks."""
    return [pid for pid in others() if marks.are_on(pid)]


def others() -> list[int]:
    """Return the ids of all processes but this one."""
    return sorted(int(name) for name in os.listdir(PROC) if name.isdigit() and int(name) != os.getpid())


def youngest() -> int:
    """Return the id that was given out last, to a process or a thread; our own where nobody says."""
    fields = read("loadavg").split()
    return int(fields[-1]) if fields else os.getpid()


def candidates() -> Iterator[int]:
    """Yield the ids of all processes, then many times the youngest.

    Who does nothing but fork and leave is gone by the time that its number in a list is looked at. To
    ask for the last number takes less time than one such hop.
    """
    yield from others()
    before = os.getpid()
    for _ in range(HOPS):
        if (pid := youngest()) != before:
            yield pid
        before = pid


def signal_all(marks: Marks, number: int) -> dict[int, int]:
    """Signal the processes that carry one of the marks, AT_ONCE at most; return handles with their ids."""
    handles: dict[int, int] = {}
    for pid in candidates():
        if (handle := signal_marked(pid, marks, number)) is not None:
            handles[handle] = pid
        if len(handles) >= AT_ONCE:
            break
    return handles


def signal_marked(pid: int, marks: Marks, number: int) -> int | None:
    """Signal a process if it carries one of the marks, and return a handle on it; None if it is gone.

    The handle is opened before the look that counts: were the number given to another process
    between the two, the signal would go to the one that is gone.
    """
    try:
        handle = os.pidfd_open(pid)
    except OSError as error:
        if error.errno not in NOBODY:
            raise
        return None
    try:
        if not marks.are_on(pid):
            raise ProcessLookupError
        signal.pidfd_send_signal(handle, number)
    except PermissionError:  # it has another user's rights by now: it will be said to survive
        return handle
    except ProcessLookupError:
        os.close(handle)
        return None
    return handle


def wait_and_close(handles: Mapping[int, int], until: float, monotonic: Callable[[], float]) -> set[int]:
    """Wait for the end of processes until `until`; return those that are gone."""
    try:
        return {handles[handle] for handle in wait_for_ends(set(handles), until, monotonic)}
    finally:
        for handle in handles:
            os.close(handle)


def environ_of(pid: int) -> list[bytes]:
    """Return a process's environment as it was started with: nothing of a zombie or of another user's.

    A process goes on when its first thread has ended, and shows its environment through the others.
    """
    text = read(f"{pid}/environ")
    if not text:
        others = (thread for thread in threads_of(pid) if thread != str(pid))
        text = next(filter(None, (read(f"{pid}/task/{thread}/environ") for thread in others)), b"")
    return text.split(b"\0")


def group_words(pid: int) -> list[bytes]:
    """Return the words that the name of a process's control group, and those above it, are made of."""
    groups = [line for line in read(f"{pid}/cgroup").splitlines() if line.startswith(b"0::")]
    return [word for line in groups for name in line.split(b"/") for word in name.split(b"-") if word]


def is_alive(pid: int) -> bool:
    """Tell whether any thread of a process goes on."""
    dead = (b"Z", b"X")
    states = (read(f"{pid}/task/{thread}/stat").rpartition(b")")[2].split() for thread in threads_of(pid))
    return any(state and state[0] not in dead for state in states)


def threads_of(pid: int) -> list[str]:
    """Return the ids of a process's threads, none when it is gone."""
    try:
        return os.listdir(f"{PROC}/{pid}/task")
    except OSError:
        return []


def read(path: str) -> bytes:
    """Return a file of /proc, nothing where it is gone or not ours to read."""
    try:
        with open(f"{PROC}/{path}", "rb") as file:
            return file.read()
    except OSError:
        return b""


def wait_for_ends(handles: Set[int], until: float, monotonic: Callable[[], float]) -> set[int]:
    """Wait until the processes have ended or `until` comes; return the handles of those that have."""
    poll, gone = select.poll(), set[int]()
    for handle in handles:
        poll.register(handle, select.POLLIN)
    while len(gone) < len(handles):
        ready = [handle for handle, _ in poll.poll(max(0.0, until - monotonic()) * 1000)]
        for handle in ready:
            poll.unregister(handle)
        gone.update(ready)
        if not ready and monotonic() >= until:
            break
    return gone
