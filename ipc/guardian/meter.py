"""The tree below a process, and the memory that it holds, from /proc; where there is none, nothing is seen.

    resident, for each process --over the limit--> proportional, once for each memory --over--> crossed
    files in memory, once for each ---------------'

A look is not a snapshot: processes come and go while it is taken. Who is gone counts for nothing, and who
was missed (its parent ended at that moment) is seen by the next look.
"""

import os
import sys
from errno import ENOSYS, ESRCH
from itertools import islice, pairwise

MOST = 10_000
"""Processes, or descriptors of one, at which a look ends: a bomb gets no more of its watcher's time."""
MANY_THREADS = 64
"""Threads above which all processes are looked through instead: a file for each thread would cost more."""
PAGE = os.sysconf("SC_PAGE_SIZE")
LISTS_CHILDREN = os.path.exists("/proc/thread-self/children")
"""Whether this kernel lists the children of a thread (CONFIG_PROC_CHILDREN)."""
PIECE = 1 << 16
IN_MEMORY = ("/memfd:", "/dev/shm/", "/SYSV")  # noqa: S108 - what a descriptor is seen to be, nothing is made
KCMP = {"x86_64": 312, "aarch64": 272, "riscv64": 272} if sys.maxsize >> 32 else {}
"""The number of the system call that compares processes, by machine."""
KCMP_VM = 1
SHOWN = ("statm", "smaps_rollup")
BLOCK = 512


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


def measure(
    pid: int, skip: frozenset[int], memory_limit: int, process_limit: int, *, thorough: bool = True
) -> tuple[int, int] | None:
    """Return the bytes and processes below `pid` when they are more than a limit, else None.

    `pid` itself is not counted, nor is what `descendants` leaves out; a limit of 0 is none. Resident
    memory counts a shared page for every process that has it: quickly read, and never too little. The
    proportional figure decides only when that one is over the limit. For too many processes the bytes
    are the resident ones. What has been swapped out is in neither. A look for which the system has no
    memory or descriptor convicts nobody. What descriptors hold is looked at when it is `thorough`, else
    only above half the limit: each costs 8 microseconds, and a process 60.
    """
    if not memory_limit and not process_limit:
        return None
    try:
        pids = descendants(pid, skip, max(MOST, process_limit))
        if 0 < process_limit < len(pids):
            return resident(pids), len(pids)
        if not memory_limit:
            return None
        mapped = resident(pids)
        held = held_open(pids, skip) if thorough or 2 * mapped > memory_limit else 0
        if mapped + held > memory_limit and (held := proportional(distinct(pids), held)) > memory_limit:
            return held, len(pids)
    except OSError:
        pass
    return None


def resident(pids: list[int]) -> int:
    """Return the bytes that processes hold in memory, shared pages counted for each."""
    return sum(map(resident_of, pids))


def proportional(pids: list[int], held: int = 0) -> int:
    """Return the bytes that processes hold in memory, a page that n share counted 1/n for each.

    The kernel walks their page tables for it: about 10 ms per GiB. `held` are bytes in files in memory that
    they have open, and perhaps mapped as well.
    """
    own, shared = map(sum, zip(*map(proportional_of, pids), strict=True)) if pids else (0, 0)
    return own + max(shared, held)


def resident_of(pid: int) -> int:
    """Return the resident bytes of one process, 0 of one that is gone."""
    return seen(pid)[1] * PAGE


def proportional_of(pid: int) -> tuple[int, int]:
    """Return the proportional bytes of one process: its own, and what may be of files in memory.

    Where they are not ours to see, those are the resident ones.
    """
    thread, found = seen(pid)
    lines = [line.split() for line in read(f"/proc/{thread}/smaps_rollup").splitlines()[1:]]
    figures = {name: int(kib) << 10 for name, kib, *_ in lines}
    held = figures.get(b"Pss:", found * PAGE)
    shared = figures.get(b"Pss_Shmem:", held)
    return held - shared, shared


def seen(pid: int) -> tuple[int, int]:
    """Return a thread by which a process shows what it has, and its resident pages.

    A process whose first thread has ended goes on, and shows nothing by its own number.
    """
    if found := pages(pid):
        return pid, found
    threads = ((int(name), pages(int(name))) for name in names(f"/proc/{pid}/task"))
    return next((one for one in threads if one[1]), (pid, 0))


def pages(thread: int) -> int:
    """Return the resident pages that a thread shows, 0 when it is over."""
    fields = read(f"/proc/{thread}/statm").split()
    return int(fields[1]) if fields else 0


def distinct(pids: list[int]) -> list[int]:
    """Return processes without those that share all their memory with one of them (CLONE_VM, vfork).

    Where the kernel does not compare them, those are taken to share it that show the same to the page.
    """
    threads = {seen(pid)[0]: pid for pid in pids}
    try:
        return [threads[one] for one in apart(list(threads))]
    except OSError:
        alike = {tuple(read(f"/proc/{one}/{name}") for name in SHOWN): pid for one, pid in threads.items()}
        return list(alike.values())


def apart(threads: list[int]) -> list[int]:
    """Return one thread for each memory, as the kernel's order of them tells.

    Raises:
        OSError: the kernel does not compare them, or not for us.
    """
    if len(threads) < 2:
        return threads
    from functools import cmp_to_key  # noqa: PLC0415 - only who is about to convict pays for it

    in_order = sorted(threads, key=cmp_to_key(compared))
    return [*in_order[:1], *(after for before, after in pairwise(in_order) if compared(before, after))]


def compared(one: int, other: int) -> int:
    """Return 0 for two threads with the same memory, else how they stand in some lasting order.

    Raises:
        OSError: the kernel does not compare them, or not for us.
    """
    try:
        from ctypes import CDLL, c_long, get_errno  # noqa: PLC0415 - not every Python has it
    except ImportError:
        raise OSError(ENOSYS, "there is no ctypes") from None
    number = KCMP.get(os.uname().machine, -1)
    found = CDLL(None, use_errno=True).syscall(*map(c_long, (number, one, other, KCMP_VM, 0, 0)))
    if found < 0 and get_errno() != ESRCH:
        raise OSError(get_errno(), "kcmp")
    return {0: 0, 1: -1}.get(found, 1)


def held_open(pids: list[int], skip: frozenset[int] = frozenset()) -> int:
    """Return the bytes in files in memory that processes have open and that have no name (memfd), each once.

    Not those that a process in `skip` has open, too.
    """
    apart = dict(one for pid in skip for one in unnamed(pid))
    files = dict(one for pid in pids for one in unnamed(pid))
    return sum(size for file, size in files.items() if file not in apart)


def unnamed(pid: int) -> list[tuple[tuple[int, int], int]]:
    """Return device, inode and bytes of each file in memory without a name that a process has open.

    Only they are looked into: others may be where an answer takes for ever.
    """
    found = []
    for fd in descriptors(seen(pid)[0]):
        try:
            if os.readlink(fd).startswith(IN_MEMORY) and not (file := os.stat(fd)).st_nlink:
                found.append(((file.st_dev, file.st_ino), file.st_blocks * BLOCK))
        except (FileNotFoundError, ProcessLookupError, PermissionError):  # closed meanwhile
            continue
    return found


def descriptors(thread: int) -> list[str]:
    """Return what a thread has open, as paths that lead there; the first of very many."""
    try:
        with os.scandir(f"/proc/{thread}/fd") as entries:
            return [entry.path for entry in islice(entries, MOST)]
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return []


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
