"""A memory group with a hard limit and no swap: in it the kernel really runs out of memory. Needs root."""

import os
import secrets
import select
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ipc.guardian.cgroup import folders

SECONDS = 10.0
"""How long the end of what was killed in a group is waited for."""


class MemoryGroup:
    """One such group. `procs` is the file that a process id is written to, in one call, to move it there."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.procs = path / "cgroup.procs"

    def join_code(self) -> str:
        """Return Python source that moves the process that runs it into the group."""
        return (
            "import os\n"
            f"procs = os.open({str(self.procs)!r}, os.O_WRONLY)\n"
            "os.write(procs, b'0')\n"
            "os.close(procs)\n"
        )


@contextmanager
def memory_group(limit: int) -> Iterator[MemoryGroup]:
    """Make a group whose processes may hold `limit` bytes together, or skip the test where that cannot be.

    At the end what is left in it is killed and the group removed.
    """
    parent, limits = place()
    group = MemoryGroup(parent / f"laneway-test-{secrets.token_hex(8)}")
    try:
        group.path.mkdir()
    except OSError as error:
        pytest.skip(f"no memory group can be made here: {error}")
    try:
        for name in limits:
            if (group.path / name).exists():  # swap may not be counted at all
                (group.path / name).write_text("0" if name == "memory.swap.max" else str(limit))
        yield group
    finally:
        end(group)


def place() -> tuple[Path, tuple[str, ...]]:
    """Return where a memory group can be made, and the files of its limits, by version 2 or else 1."""
    texts = Path("/proc/self/mountinfo").read_text(), Path("/proc/self/cgroup").read_text()
    for folder in map(Path, folders(*texts)):
        for above in (folder, *folder.parents):
            handed_down = above / "cgroup.subtree_control"
            if handed_down.exists() and "memory" in handed_down.read_text().split():
                return above, ("memory.max", "memory.swap.max")
    for folder in map(Path, folders(*texts, "memory")):
        if folder.exists():
            return folder, ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes")
    pytest.skip("no memory controller here")


def end(group: MemoryGroup) -> None:
    until = time.monotonic() + SECONDS
    while group.path.exists():
        for pid in group.procs.read_text().split():
            os.kill(int(pid), signal.SIGKILL)
        try:
            group.path.rmdir()
        except OSError:
            assert time.monotonic() < until, f"{group.path} does not get empty"
            select.select([], [], [], 0.005)
