"""Network file systems are refused before anything is made there; local ones are not (K7, FIELD E7)."""

from pathlib import Path

import pytest

from landing import disk
from landing.disk import NETWORK, NetworkDisk, file_system, refuse_network, type_at
from landing.migrate import create
from landing.snapshot import snapshot
from landing.store import Store
from tests.landing.stand import START, Stand

MOUNTS = r"""
21 1 254:1 / / rw,relatime shared:1 - ext4 /dev/root rw
22 21 0:20 / /proc rw,nosuid - proc proc rw
30 21 0:44 / /people rw,relatime shared:9 master:2 - autofs systemd-1 rw,fd=5
31 30 0:45 /export/people /people rw,relatime shared:10 - nfs4 server:/export/people rw,vers=4.2
32 31 254:2 / /people/me/scratch rw - xfs /dev/sdb1 rw
33 21 0:50 / /mnt/a\040b\134c rw - cifs //server/share rw
34 21 0:51 / /mnt/déjà rw - fuse.sshfs me@host:/ rw
35 21 0:52 / /mnt/host rw - 9p share rw,trans=virtio
36 21 0:53 / /srv rw - nfs server:/srv rw
37 36 254:3 / /srv rw - btrfs /dev/sdc rw
a line that is none
38 21 0:54 / /mnt/torn rw -
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/", "ext4"),
        ("/etc/x", "ext4"),
        ("/peopled/x", "ext4"),
        ("/people", "nfs4"),
        ("/people/me/project/.supervisor", "nfs4"),
        ("/people/me/scratch", "xfs"),
        ("/people/me/scratch/.supervisor", "xfs"),
        ("/people/me/scratchy", "nfs4"),
        ("/mnt/a b\\c/x", "cifs"),
        ("/mnt/déjà/x", "fuse.sshfs"),
        ("/mnt/host/x", "9p"),
        ("/srv/x", "btrfs"),
        ("/mnt/torn", "ext4"),
    ],
)
def test_the_mount_point_that_is_nearest_above_says_the_type(path: str, kind: str) -> None:
    assert type_at(MOUNTS, Path(path)) == kind


def test_where_nothing_tells_it_is_unknown_and_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    """macOS, and a process that may not see its mounts."""
    assert type_at("", Path("/x")) == "unknown"
    monkeypatch.setattr(disk, "MOUNTS", Path("/nowhere"))
    assert file_system(Path("/")) == "unknown"
    refuse_network(Path("/"))


def test_what_works_or_says_itself_that_it_does_not_is_not_refused() -> None:
    """K8: the pragmas are read back."""
    assert NETWORK.isdisjoint({"9p", "virtiofs", "overlay", "fuse", "fuse.mergerfs", "tmpfs", "zfs"})
    assert {"nfs", "nfs4", "cifs", "smb3", "fuse.sshfs", "ceph", "glusterfs", "lustre", "gpfs"} <= NETWORK


@pytest.fixture
def mounted(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Have the system say that the folder of `home` is NFS; return where `home` is, by a link."""
    table = tmp_path.parent / f"{tmp_path.name}-mountinfo"
    table.write_text(
        f"1 1 8:1 / / rw - ext4 /dev/sda rw\n2 1 0:9 / {tmp_path.resolve()} rw - nfs4 server:/x rw\n"
    )
    monkeypatch.setattr(disk, "MOUNTS", table)
    link = tmp_path.parent / f"{tmp_path.name}-link"
    link.symlink_to(tmp_path)
    return link / home.name


def test_a_store_is_not_made_on_a_network_disk_and_nothing_is_left_there(mounted: Path) -> None:
    """K7, FIELD E7."""
    for act in (lambda: create(mounted, START), lambda: Store(mounted, lambda: START, create_missing=True)):
        with pytest.raises(NetworkDisk) as refused:
            act()
        assert str(refused.value) == (
            f"{mounted} is on a network file system (nfs4), where the store could be damaged;"
            " keep it on a local disk: --home DIR"
        )
    assert not mounted.exists()


def test_a_store_that_another_machine_shares_is_read_and_not_written(home: Path, mounted: Path) -> None:
    """K7: two machines do not see each other's locks and shared memory."""
    with pytest.MonkeyPatch.context() as there:
        there.setattr(disk, "MOUNTS", Path("/nowhere"))
        Stand(home).furnish()
    with pytest.raises(NetworkDisk):
        Store(mounted, lambda: START)
    with snapshot(mounted):
        pass
