"""Which file system a store is on: a WAL needs shared memory, which ends at the machine (CONTRACTS K7)."""

import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Final

from landing.errors import StoreError

MOUNTS: Final = Path("/proc/self/mountinfo")
UNKNOWN: Final = "unknown"
NETWORK: Final = frozenset(
    {
        *("nfs", "nfs4", "cifs", "smb3", "smbfs", "ncpfs", "afs", "coda", "davfs", "fuse.davfs2"),
        *("fuse.sshfs", "fuse.rclone", "fuse.s3fs", "fuse.gcsfuse", "fuse.blobfuse", "fuse.juicefs"),
        *("ceph", "fuse.ceph", "glusterfs", "fuse.glusterfs", "lustre", "beegfs", "gpfs", "pvfs2"),
    }
)
"""Not those that a virtual machine shares with its host (9p, virtiofs), nor others by FUSE: there WAL
works, or the pragma that is read back says that it does not."""
ESCAPED: Final = re.compile(r"\\([0-7]{3})")


class NetworkDisk(StoreError):
    """The store would be on a network file system, where WAL loses or damages it."""

    code = "network_disk"


def refuse_network(home: Path) -> None:
    """Make sure that a home is on a local disk, as far as the system says.

    Raises:
        NetworkDisk: it is not.
    """
    if (kind := file_system(home)) in NETWORK:
        text = f"{home} is on a network file system ({kind}), where the store could be damaged"
        raise NetworkDisk(str(home), f"{text}; keep it on a local disk: --home DIR")


def file_system(folder: Path) -> str:
    """Return the type of the file system that a folder is on or would be, "unknown" where nothing tells.

    One that is there is looked up once for each device that it is on: every enqueue asks.
    """
    try:
        return known(folder, folder.stat().st_dev, MOUNTS)
    except OSError:
        return look_up(folder, 0, MOUNTS)


def look_up(folder: Path, _device: int, table: Path) -> str:
    """Look a folder up in the table of what is mounted."""
    try:
        return type_at(table.read_text("utf-8", "surrogateescape"), folder.resolve())
    except (OSError, RuntimeError):  # no such table here; or links that lead in a circle
        return UNKNOWN


known: Final = lru_cache(maxsize=64)(look_up)


def type_at(mountinfo: str, path: Path) -> str:
    """Return the type of the file system at an absolute path without links, by the text of mountinfo.

    The longest mount point above the path holds it; of two at one place the later covers the other.
    """
    best, kind, below = -1, UNKNOWN, f"{path}/"
    for point, name in mounts(mountinfo):
        if len(point) >= best and (below.startswith(f"{point}/") or point == "/"):
            best, kind = len(point), name
    return kind


def mounts(mountinfo: str) -> Iterator[tuple[str, str]]:
    """Yield (mount point, type) of each line; blanks in a name come as octal escapes."""
    for line in mountinfo.split("\n"):  # 36 35 98:0 /root /mnt/point rw,noatime master:1 - ext3 /dev/x rw
        before, _, after = line.partition(" - ")
        where, what = before.split(" ", 5)[4:5], after.split(" ", 1)[:1]
        if where and what and what[0]:
            point = where[0]
            if "\\" in point:
                point = ESCAPED.sub(lambda match: chr(int(match[1], 8)), point)
            yield point, what[0]
