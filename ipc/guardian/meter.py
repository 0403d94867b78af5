"""The tree below a process, and the memory that it holds, from /proc; where there is none, nothing is seen.

A look is not a snapshot: processes come and go while it is taken. Who is gone counts for nothing, and who
was missed (its parent ended at that moment) is seen by the next look.
"""

import os

MOST = 10_000
"""Processes at which a look ends: a fork bomb gets no more of its watcher's time."""
MANY_THREADS = 64
"""Threads above which all processes are looked through instead: a file for each thread would cost more."""
PAGE = os.sysconf("SC_PAGE_SIZE")
LISTS_CHILDREN = os.path.exists("/proc/thread-self/children")
"""Whether this kernel lists the children of a thread (CONFIG_PROC_CHILDREN)."""
PIECE = 1 << 16


def children(pid: int, families: dict[int, list[int]] | None = None) -> list[int]:
    """Return the children of a process, those of all its threads, zombies included.

    The list is whole if nobody reaps one meanwhile: of our own children, always.

    Args:
        pid: whose.
        families: the children of every process; filled when needed, so that several calls look once.

    Raises:
        OSError: the system has no memory or descriptor for a look, which is not the same as no children.
    """
    threads = names(f"/proc/{pid}/task")
    if not threads:
        return []
    if LISTS_CHILDREN and len(threads) <= MANY_THREADS:
        lists = [read(f"/proc/{pid}/task/{thread}/children") for thread in threads]
        return [int(child) for one in lists for child in one.split()]
    families = {} if families is None else families
    if not families:
        families.update(all_families())
    return families.get(pid, [])


def descendants(pid: int, skip: frozenset[int] = frozenset(), most: int = MOST) -> list[int]:
    """Return the processes below `pid`, nearest first, but not those in `skip` and what is below them.

    At most `most` of them. Raises OSError as `children` does.
    """
    families: dict[int, list[int]] = {}
    seen = {pid, *skip}
    found = [pid]
    for parent in found:
        new = [child for child in children(parent, families) if child not in seen]
        seen.update(new)
        found += new
        if len(found) > most:
            break
    return found[1 : most + 1]


def measure(pid: int, skip: frozenset[int], memory_limit: int, process_limit: int) -> tuple[int, int] | None:
    """Return the bytes and processes below `pid` when they are more than a limit, else None.

    `pid` itself is not counted, nor is what `descendants` leaves out; a limit of 0 is none. Resident
    memory counts a shared page for every process that has it: quickly read, and never too little. The
    proportional figure decides only when that one is over the limit. For too many processes the bytes
    are the resident ones. What has been swapped out is in neither. A look for which the system has no
    memory or descriptor convicts nobody.
    """
    if not memory_limit and not process_limit:
        return None
    try:
        pids = descendants(pid, skip, max(MOST, process_limit))
        if 0 < process_limit < len(pids):
            return resident(pids), len(pids)
        if 0 < memory_limit < resident(pids) and (held := proportional(pids)) > memory_limit:
            return held, len(pids)
    except OSError:
        pass
    return None


def resident(pids: list[int]) -> int:
    """Return the bytes that processes hold in memory, shared pages counted for each."""
    return sum(map(resident_of, pids))


def proportional(pids: list[int]) -> int:
    """Return the bytes that processes hold in memory, a page that n share counted 1/n for each.

    The kernel walks their page tables for it: about 10 ms per GiB.
    """
    return sum(map(proportional_of, pids))


def resident_of(pid: int) -> int:
    """Return the resident bytes of one process, 0 of one that is gone."""
    fields = read(f"/proc/{pid}/statm").split()
    return int(fields[1]) * PAGE if fields else 0


def proportional_of(pid: int) -> int:
    """Return the proportional bytes of one process; the resident ones where those are not ours to see."""
    for line in read(f"/proc/{pid}/smaps_rollup").splitlines():
        if line.startswith(b"Pss:"):
            return int(line.split()[1]) << 10
    return resident_of(pid)


def all_families() -> dict[int, list[int]]:
    """Return the children of every process that has some."""
    families: dict[int, list[int]] = {}
    for name in names("/proc"):
        stat = read(f"/proc/{name}/stat") if name.isdigit() else b""
        if stat:  # number (name, which may hold anything) state parent ...
            parent = int(stat.rpartition(b")")[2].split(None, 2)[1])
            families.setdefault(parent, []).append(int(name))
    return families


def names(folder: str) -> list[str]:
    """Return what is in a folder of /proc, nothing where there is none."""
    try:
        return os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError, ProcessLookupError, PermissionError):
        return []


def read(path: str) -> bytes:
    """Return what a file of /proc says: nothing of a process that is gone or not ours to see."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError, ProcessLookupError, PermissionError):
        return b""
    try:
        text = b""
        while piece := os.read(fd, PIECE):  # a page at a time, whatever is asked for
            text += piece
    except (ProcessLookupError, PermissionError):  # it has ended since
        return b""
    finally:
        os.close(fd)
    return text
