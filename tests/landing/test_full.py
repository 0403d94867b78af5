"""No room, or no writing: the lander waits with one notice, whoever opens or makes a store is told."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent

FULL = """
import os, resource, sys, time
sys.path.insert(0, sys.argv[1])
from contextlib import suppress
from pathlib import Path
from landing.batches import Landed
from tests.landing.stand import Stand, land, lander_thread

how, room = sys.argv[2], Path(sys.argv[3])
stand = Stand(room / "home").furnish()
small, big = stand.running("embed"), stand.running("scan")
plug = room / "plug"

def fill():
    if how == "limit":
        resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, resource.RLIM_INFINITY))
        return
    with plug.open("wb", buffering=0) as file:
        with suppress(OSError):
            while True:
                file.write(bytes(4096))
        file.truncate(max(0, file.tell() - 200_000))

def make_room():
    if how == "limit":
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
    else:
        plug.unlink()

with lander_thread(stand.home) as thread:
    assert thread.ask(land(small, 1, [(small.job, 1, "a")])) is Landed.LANDED
    fill()
    rows = [(big.job, n, "x" * 10_000) for n in range(60)]
    replies = [thread.post(land(big, 1, rows)), thread.post(land(small, 2, [(small.job, 2, "b")]))]
    notice = thread.notices.get(timeout=20)
    assert "the disk is full" in notice.text and not notice.fatal, notice
    make_room()
    assert [reply.get(timeout=20) for reply in replies] == [Landed.LANDED, Landed.LANDED]
    assert thread.notices.empty()
assert len(stand.notes()) == 62
print("resumed")
"""


ITS_OWN_WAL = """
import resource, sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from landing.batches import Landed
from landing.snapshot import store_size
from tests.landing.stand import Stand, land, lander_thread

stand = Stand(Path(sys.argv[2]) / "home").furnish()
job = stand.running("embed")
rewrite = "UPDATE notes SET text = ? WHERE seq = 0"
with lander_thread(stand.home) as thread:
    assert thread.ask(land(job, 1, [(job.job, 0, "x" * 100_000)])) is Landed.LANDED
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, resource.RLIM_INFINITY))
    for seq in range(2, 40):
        batch = land(job, seq, [()], lander=lambda db, job, rows: db.execute(rewrite, ("y" * 100_000,)))
        assert thread.ask(batch) is Landed.LANDED
    assert thread.notices.empty()
    assert max(store_size(stand.home)) <= 1_000_000
print("landed")
"""


def test_where_its_own_wal_is_what_fills_the_disk_the_lander_folds_it_back(tmp_path: Path) -> None:
    """K1, K8: 38 batches of 100 kB over one row, in files of at most 1 MB."""
    command = [sys.executable, "-c", ITS_OWN_WAL, str(ROOT), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=50, check=False)
    assert (done.stdout, done.stderr) == ("landed\n", "")


def run_full(how: str, room: Path, *prefix: str) -> subprocess.CompletedProcess[str]:
    room.mkdir()
    command = [*prefix, sys.executable, "-c", FULL, str(ROOT), how, str(room)]
    return subprocess.run(command, capture_output=True, text=True, timeout=50, check=False)


def test_a_file_at_the_processs_size_limit_is_waited_for_with_one_notice(tmp_path: Path) -> None:
    """K1."""
    done = run_full("limit", tmp_path / "room")
    assert (done.stdout, done.stderr) == ("resumed\n", "")


MOUNT = 'mount -t tmpfs -o size=3m none "$0" && exec "$@"'


def can_mount(folder: Path) -> bool:
    if shutil.which("unshare") is None:
        return False
    probe = ["unshare", "-rm", "sh", "-c", MOUNT, str(folder), "true"]
    return subprocess.run(probe, capture_output=True, check=False).returncode == 0


def test_a_full_disk_is_waited_for_with_one_notice(tmp_path: Path) -> None:
    """K1."""
    if not can_mount(tmp_path):
        pytest.skip("no small disk can be mounted here")
    room = tmp_path / "room"
    done = run_full("disk", room, "unshare", "-rm", "sh", "-c", MOUNT, str(room))
    assert (done.stdout, done.stderr) == ("resumed\n", "")


READONLY = """
import os, subprocess, sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from landing.batches import Landed
from tests.landing.stand import Stand, land, lander_thread

room = Path(sys.argv[2])
stand = Stand(room / "home").furnish()
job = stand.running()

def mount(*words):
    subprocess.run(words, check=True)

def descriptors(name):
    links = {fd: os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd") if fd.isdigit()
             and os.path.lexists(f"/proc/self/fd/{fd}")}
    return [int(fd) for fd, target in links.items() if target == str(stand.home / name)]

with lander_thread(stand.home) as thread:
    assert thread.ask(land(job, 1, [(job.job, 1, "a")])) is Landed.LANDED
    open_files = descriptors("store.db-wal")
    assert open_files
    kept = [os.dup(fd) for fd in open_files]
    mount("mount", "--bind", str(room), str(room))
    mount("mount", "-o", "remount,ro,bind", str(room))
    closed = os.open(stand.home / "store.db-wal", os.O_RDONLY)
    for fd in open_files:
        os.dup2(closed, fd)
    reply = thread.post(land(job, 2, [(job.job, 2, "b")]))
    notice = thread.notices.get(timeout=20)
    assert notice.code == "store_readonly" and "read-only" in notice.text and not notice.fatal, notice
    os.chdir("/")
    os.close(closed)
    for fd, before in zip(open_files, kept):
        os.dup2(before, fd)
    mount("umount", "-l", str(room))
    assert reply.get(timeout=20) is Landed.LANDED
    assert thread.notices.empty()
assert [seq for _, seq, _ in stand.notes()] == [1, 2]
print("resumed")
"""


def test_a_disk_mounted_read_only_under_way_is_waited_for_with_one_notice(tmp_path: Path) -> None:
    """K1: what was open for writing fails its writes, as it does when a disk is taken out of service."""
    if not can_mount(tmp_path):
        pytest.skip("nothing can be mounted here")
    room = tmp_path / "room"
    room.mkdir()
    prefix = ["unshare", "-rm", "sh", "-c", MOUNT, str(room)]
    command = [*prefix, sys.executable, "-c", READONLY, str(ROOT), str(room)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=50, check=False)
    assert (done.stdout, done.stderr) == ("resumed\n", "")


OPENING = """
import sys
sys.path.insert(0, sys.argv[1])
from contextlib import suppress
from pathlib import Path
from landing.errors import StoreFull
from landing.snapshot import snapshot
from landing.store import Store
from tests.landing.stand import Stand

room = Path(sys.argv[2])
if sys.argv[3] == "opened":
    Stand(room / "home").furnish()
with (room / "plug").open("wb", buffering=0) as file, suppress(OSError):
    while True:
        file.write(bytes(4096))
try:
    if sys.argv[3] == "opened":
        with snapshot(room / "home") as db:
            db.execute("SELECT COUNT(*) FROM laneway_jobs").fetchone()
        Stand(room / "home").enqueue()
    else:
        Store(room / "home", lambda: 1, create_missing=True)
except StoreFull as error:
    assert "the disk is full" in str(error), error
    print("told")
"""


@pytest.mark.parametrize("how", ["opened", "created"])
def test_a_full_disk_is_told_as_such_where_a_store_is_opened_or_created(tmp_path: Path, how: str) -> None:
    """A4."""
    if not can_mount(tmp_path):
        pytest.skip("no small disk can be mounted here")
    room = tmp_path / "room"
    room.mkdir()
    prefix = ["unshare", "-rm", "sh", "-c", MOUNT, str(room)]
    command = [*prefix, sys.executable, "-c", OPENING, str(ROOT), str(room), how]
    done = subprocess.run(command, capture_output=True, text=True, timeout=50, check=False)
    assert (done.stdout, done.stderr) == ("told\n", "")
