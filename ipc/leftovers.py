"""Processes that outlived their supervisor, found by the marker in their environment (CONTRACTS K9, K11).

    /proc/*/environ holds a marker -> pidfd -> look again -> SIGKILL -> gone, or a survivor

Children die with their supervisor; what is found here has left them: a descendant in a session of
its own, say. TERM would be of no use, since whom it could report to is dead. A number that was
stored is never used: a process is known by what the kernel says of it now, and killed through a
descriptor that can mean no other.
"""

import os
import select
import signal
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass
from typing import Final

from ipc.child import rss_gib
from ipc.ladder import PATIENCE, PATIENCE_PER_GIB

MARKER: Final = "LANEWAY_MARKER"
"""The environment variable that every child, and with it its descendants, carries."""
PROC: Final = "/proc"
AT_ONCE: Final = 256
"""Processes that handles are held on at a time."""


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


def end_leftovers(markers: Set[str], monotonic: Callable[[], float]) -> Leftovers:
    """Kill every process that carries one of the markers, but not this one; look again until none is left.

    It waits for their end as long as the ladder of a child does: 5 s, more for those that hold much memory.
    """
    if not markers or not can_look():
        return Leftovers()
    entries = frozenset(map(marker_entry, markers))
    ended: set[int] = set()
    found = marked(entries)
    until = monotonic() + PATIENCE + PATIENCE_PER_GIB * sum(map(rss_gib, found))
    while found and monotonic() < until:
        ended |= end(found[:AT_ONCE], entries, until, monotonic)
        found = marked(entries)
    return Leftovers(tuple(sorted(ended)), tuple(found))


def marker_entry(marker: str) -> bytes:
    """Return a marker as it stands in an environment."""
    return os.fsencode(f"{MARKER}={marker}")


def marked(entries: Set[bytes]) -> list[int]:
    """Return the ids of the other processes that carry one of the markers."""
    pids = sorted(int(name) for name in os.listdir(PROC) if name.isdigit())
    return [pid for pid in pids if pid != os.getpid() and not entries.isdisjoint(environ_of(pid))]


def end(pids: Sequence[int], entries: Set[bytes], until: float, monotonic: Callable[[], float]) -> set[int]:
    """Kill processes and wait for their end until `until`; return those that are gone."""
    handles = {handle: pid for pid in pids if (handle := kill_marked(pid, entries)) is not None}
    try:
        return {handles[handle] for handle in wait_for_ends(set(handles), until, monotonic)}
    finally:
        for handle in handles:
            os.close(handle)


def kill_marked(pid: int, entries: Set[bytes]) -> int | None:
    """Kill a process if it carries one of the markers, and return a handle on it; None if it is gone.

    The handle is opened before the look that counts: were the number given to another process
    between the two, the signal would go to the one that is gone.
    """
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return None
    try:
        if entries.isdisjoint(environ_of(pid)):
            raise ProcessLookupError
        signal.pidfd_send_signal(handle, signal.SIGKILL)
    except PermissionError:  # it has another user's rights by now: it will be said to survive
        return handle
    except ProcessLookupError:
        os.close(handle)
        return None
    return handle


def environ_of(pid: int) -> list[bytes]:
    """Return a process's environment as it was started with: nothing of a zombie or of another user's."""
    try:
        with open(f"{PROC}/{pid}/environ", "rb") as file:
            return file.read().split(b"\0")
    except OSError:
        return []


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
