"""Control groups: where ours is, by made-up mount tables, and what the real kernel does with them."""

import os
import secrets
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ipc.guardian import cgroup
from ipc.guardian.cgroup import folders

ROOT = Path(__file__).resolve().parents[2]
NOBODY = 65534
Start = Callable[..., "subprocess.Popen[str]"]

# --- where our group is, by made-up mount tables

ALONE = "31 23 0:28 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate,memory_recursiveprot\n"
BESIDE = (
    "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n"
    "35 31 0:31 / /sys/fs/cgroup/memory rw shared:9 - cgroup cgroup rw,memory\n"
    "36 31 0:32 / /sys/fs/cgroup/cpu,cpuacct rw shared:10 master:2 - cgroup cgroup rw,cpu,cpuacct\n"
    "40 31 0:37 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd\n"
    "41 31 0:38 / /sys/fs/cgroup/unified rw shared:11 - cgroup2 cgroup2 rw\n"
)
PART = "31 23 0:28 /pods/one /sys/fs/cgroup ro - cgroup2 cgroup rw\n"
BLANK = "31 23 0:28 /my\\040pods /mnt/my\\040groups\\134here rw - cgroup2 cgroup2 rw\n"
TWICE = ALONE + "50 23 0:28 /user.slice /mnt/groups rw - cgroup2 cgroup2 rw\n"
OLD = "35 31 0:31 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
OTHER = "22 27 0:21 / /proc rw - proc proc rw\n27 1 254:0 / / rw - ext4 /dev/vda rw,cgroup2\n\n"


@pytest.mark.parametrize(
    ("mountinfo", "own", "expected"),
    [
        (ALONE, "0::/user.slice/a.service\n", ["/sys/fs/cgroup/user.slice/a.service"]),
        (ALONE, "0::/\n", ["/sys/fs/cgroup"]),
        (ALONE, "0::/a:b:c\n", ["/sys/fs/cgroup/a:b:c"]),
        (BESIDE, "4:memory:/x\n3:cpu,cpuacct:/y\n1:name=systemd:/z\n0::/w\n", ["/sys/fs/cgroup/unified/w"]),
        (PART, "0::/pods/one/worker\n", ["/sys/fs/cgroup/worker"]),
        (PART, "0::/pods/one\n", ["/sys/fs/cgroup"]),
        (PART, "0::/pods/one-more\n", []),
        (PART, "0::/\n", []),
        (BLANK, "0::/my pods/a b\n", ["/mnt/my groups\\here/a b"]),
        (TWICE, "0::/user.slice/a\n", ["/sys/fs/cgroup/user.slice/a", "/mnt/groups/a"]),
        (TWICE, "0::/system.slice/a\n", ["/sys/fs/cgroup/system.slice/a"]),
        (ALONE, "0::/../../host\n", []),
        (OLD, "4:memory:/x\n", []),
        (OLD, "4:memory:/x\n0::/x\n", []),
        (OTHER, "0::/x\n", []),
        ("", "", []),
        (ALONE, "garbage\n", []),
    ],
    ids=[
        "alone",
        "the root group",
        "colons in a name",
        "beside version 1",
        "a mount of a part",
        "a mount of just ours",
        "a mount of another part",
        "a mount of a part that we are above",
        "blanks and backslashes",
        "two mounts",
        "two mounts, one of another part",
        "outside our namespace",
        "version 1 alone",
        "version 2 not mounted",
        "other file systems",
        "empty",
        "garbage",
    ],
)
def test_our_group_is_found_through_any_mount_that_shows_it(
    mountinfo: str, own: str, expected: list[str]
) -> None:
    assert folders(mountinfo, own) == expected


def test_a_controller_of_version_1_is_found_by_its_name() -> None:
    own = "4:memory:/x\n3:cpu,cpuacct:/y\n1:name=systemd:/z\n0::/w\n"
    assert folders(BESIDE, own, "memory") == ["/sys/fs/cgroup/memory/x"]
    assert folders(BESIDE, own, "cpuacct") == ["/sys/fs/cgroup/cpu,cpuacct/y"]
    assert folders(BESIDE, own, "pids") == []
    assert folders(ALONE, own, "memory") == []


def test_where_nothing_is_mounted_or_a_folder_is_not_our_group_there_is_no_base(tmp_path: Path) -> None:
    own, mountinfo = tmp_path / "cgroup", tmp_path / "mountinfo"
    assert cgroup.base(str(mountinfo), str(own)) is None
    own.write_text("0::/\n")
    mountinfo.write_text(f"31 23 0:28 / {tmp_path / 'groups'} rw - cgroup2 cgroup2 rw\n")
    assert cgroup.base(str(mountinfo), str(own)) is None
    (tmp_path / "groups").mkdir()
    assert cgroup.base(str(mountinfo), str(own)) is None
    (tmp_path / "groups/cgroup.procs").write_text("1\n0\n")
    assert cgroup.base(str(mountinfo), str(own)) is None
    assert os.listdir(tmp_path / "groups") == ["cgroup.procs"]


def test_a_folder_that_looks_like_our_group_but_cannot_kill_is_no_base(tmp_path: Path) -> None:
    """What is tried is the kill itself; a copy that lives on shows that there is none."""
    (tmp_path / "own").write_text("0::/\n")
    (tmp_path / "mountinfo").write_text(f"31 23 0:28 / {tmp_path / 'groups'} rw - cgroup2 cgroup2 rw\n")
    (tmp_path / "groups").mkdir()
    code = (
        "import os\n"
        "from ipc.guardian import cgroup\n"
        f"os.chdir({str(tmp_path)!r})\n"
        "open('groups/cgroup.procs', 'w').write(str(os.getpid()))\n"
        "print(cgroup.base('mountinfo', 'own'), os.listdir('groups'))\n"
    )
    assert output(code) == "None ['cgroup.procs']\n"


def output(code: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=40,
        check=True,
    ).stdout


# --- the real kernel


@pytest.fixture(scope="module")
def base() -> str:
    """The folder of our own group, if groups can be made below it."""
    found = output("from ipc.guardian.cgroup import base\nprint(base() or '')").strip()
    if not found:
        pytest.skip("no control group of version 2 is ours to make groups in")
    return found


@pytest.fixture
def prefix(base: str) -> Iterator[str]:
    """What this test's groups are called; all of them are ended and removed."""
    name = f"laneway-{secrets.token_hex(8)}-"
    yield name
    for group in cgroup.leftovers(base, name):
        cgroup.kill(group)
        until_removed(group)


@pytest.fixture
def group(base: str, prefix: str) -> str:
    return cgroup.make(base, f"{prefix}1")


@pytest.fixture
def start() -> Iterator[Start]:
    """Start programs, ready when they have said a line; stdout ends when all that they started is gone."""
    started = []

    def run(code: str, *values: str) -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            [sys.executable, "-c", code, *values],
            env={"PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        return process

    yield run
    for process in started:
        process.kill()
        process.communicate(timeout=40)


def until_removed(group: str) -> None:
    until = time.monotonic() + 20
    while not cgroup.remove(group):
        assert time.monotonic() < until, f"{group} is not empty: {cgroup.members(group)}"
        select.select([], [], [], 0.005)


WAIT = "print('up', flush=True)\ninput()\n"
HOSTILE = """
import os, signal, sys, time
from ipc.guardian import cgroup
cgroup.join(sys.argv[1])
def stay():
    print("up", flush=True)
    os.read(0, 1)
    os._exit(0)
for way in ("plain", "deaf", "session", "orphan", "orphan in a session", "hopper"):
    if os.fork() == 0:
        if way == "deaf":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if way in ("session", "orphan in a session"):
            os.setsid()
        if way.startswith("orphan") and os.fork():
            os._exit(0)
        end = time.monotonic() + 30
        while way == "hopper" and time.monotonic() < end:
            if os.fork():
                os._exit(0)
            os.setsid()
        stay()
stay()
"""


def test_a_hostile_tree_is_gone_at_one_stroke(base: str, group: str, start: Start) -> None:
    """FIELD A5: sessions, orphans and a chain of forks included."""
    process = start(HOSTILE, group)
    assert process.stdout is not None
    for _ in range(5):
        assert process.stdout.readline() == "up\n"
    assert {process.pid} < set(cgroup.members(group))
    assert cgroup.kill(group)
    assert process.communicate(timeout=20)[0] == ""  # its end comes when the last that held it is gone
    assert process.returncode == -9
    until_removed(group)  # a process has closed its files a moment before it has left its group
    assert cgroup.members(group) == []
    assert cgroup.leftovers(base, group.rpartition("/")[2]) == []


def test_the_trial_moves_nobody_and_leaves_nothing(base: str, prefix: str) -> None:
    code = (
        "import os\n"
        "from ipc.guardian import cgroup\n"
        f"cgroup.TRIAL = {prefix!r}\n"
        "where = cgroup.text_of('/proc/self/cgroup')\n"
        "found = cgroup.base()\n"
        "print(found, cgroup.text_of('/proc/self/cgroup') == where, cgroup.leftovers(found, cgroup.TRIAL))\n"
        "try:\n    os.wait()\nexcept ChildProcessError:\n    print('no child')\n"
    )
    assert output(code) == f"{base} True []\nno child\n"


def test_another_process_can_be_taken_in_and_what_it_starts_then_is_in_too(group: str, start: Start) -> None:
    process = start(
        "import os\n"
        "print('up', flush=True)\n"
        "input()\n"
        "if (pid := os.fork()) == 0:\n    os.read(0, 1)\n    os._exit(0)\n"
        "print(pid, flush=True)\n"
        "os.read(0, 1)\n"
    )
    assert cgroup.take_in(group, process.pid)
    assert cgroup.members(group) == [process.pid]
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("\n")
    process.stdin.flush()
    child = int(process.stdout.readline())
    assert cgroup.members(group) == sorted([process.pid, child])
    assert os.getpid() not in cgroup.members(group)


def test_who_is_gone_cannot_be_taken_in(group: str, start: Start) -> None:
    process = start(WAIT)
    process.kill()
    process.wait()
    assert not cgroup.take_in(group, process.pid)
    assert cgroup.members(group) == []


def test_what_the_kernel_refuses_is_heard(base: str, prefix: str) -> None:
    """OS.md 1: a buffered write lost its error, and the worker ran on unconfined."""
    code = (
        "import os\n"
        "from ipc.guardian import cgroup\n"
        f"group = cgroup.make({base!r}, {prefix + 'threaded'!r})\n"
        "cgroup.put(group + '/cgroup.type', b'threaded')\n"
        "inner = cgroup.make(group, 'inner')\n"
        "for path in (inner, group + '/none'):\n"
        "    try:\n        cgroup.join(path)\n"
        "    except OSError as error:\n        print(error.strerror)\n"
        "print(cgroup.kill(group), cgroup.take_in(inner, os.getpid()), cgroup.members(group))\n"
    )
    assert output(code) == "Operation not supported\nNo such file or directory\nFalse False []\n"


def test_a_group_in_which_somebody_is_left_stays(group: str, start: Start) -> None:
    inner, beside = cgroup.make(group, "inner"), cgroup.make(group, "beside")
    process = start(WAIT)
    assert cgroup.take_in(inner, process.pid)
    assert cgroup.members(group) == [process.pid]
    assert not cgroup.remove(group)
    assert os.path.isdir(inner)
    assert not os.path.isdir(beside)
    assert process.poll() is None
    assert cgroup.kill(group)
    assert process.wait(20) == -9
    until_removed(group)
    assert cgroup.remove(group)
    assert not cgroup.kill(group)


def test_groups_that_a_job_has_nested_deeper_than_calls_can_go_are_removed(group: str) -> None:
    code = (
        "import os, sys\n"
        "from ipc.guardian import cgroup\n"
        "sys.setrecursionlimit(100)\n"
        f"deep = {group!r}\n"
        "for _ in range(150):\n    deep = cgroup.make(deep, 'd')\n"
        f"print(len(cgroup.tree({group!r})), cgroup.members({group!r}), cgroup.remove({group!r}))\n"
    )
    assert output(code) == "151 [] True\n"
    assert not os.path.exists(group)


def test_a_group_is_made_once_only(base: str, group: str) -> None:
    """What is left in one of a dead run may not get company."""
    with pytest.raises(FileExistsError):
        cgroup.make(base, group.rpartition("/")[2])


def test_leftovers_are_those_of_one_prefix(base: str, prefix: str, group: str) -> None:
    second = cgroup.make(base, f"{prefix}2")
    cgroup.make(group, f"{prefix}3")
    assert cgroup.leftovers(base, prefix) == [group, second]
    assert cgroup.leftovers(base, f"{prefix}9") == []
    assert cgroup.leftovers(f"{base}/{prefix}9", prefix) == []
    assert cgroup.leftovers(base, "cgroup.") == []


# --- rights

DELEGATED = """
import os, sys
from ipc.guardian import cgroup
group = sys.argv[1]
cgroup.join(group)
for name in ("", "/cgroup.procs", "/cgroup.subtree_control", "/cgroup.threads"):
    os.chown(group + name, USER, USER)
os.setgroups([])
os.setgid(USER)
os.setuid(USER)
found = cgroup.base()
made = cgroup.make(found, "one")
if (pid := os.fork()) == 0:
    cgroup.join(made)
    os.read(0, 1)
while cgroup.members(made) != [pid]:
    os.sched_yield()
killed = cgroup.kill(made)
ended = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
print(found == group, killed, ended, cgroup.remove(made), flush=True)
""".replace("USER", str(NOBODY))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can delegate a group")
def test_an_ordinary_user_ends_trees_in_a_group_that_was_delegated(group: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", DELEGATED, group],
        env={"PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        capture_output=True,
        text=True,
        timeout=40,
        check=False,
    )
    assert (done.stderr, done.stdout) == ("", "True True -9 True\n")


@pytest.mark.skipif(os.geteuid() != 0, reason="it is root that becomes an ordinary user here")
def test_an_ordinary_user_has_no_base_in_a_group_of_roots(base: str) -> None:
    code = f"import os\nfrom ipc.guardian import cgroup\nos.setuid({NOBODY})\nprint(cgroup.base())"
    assert output(code) == "None\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can delegate a group")
def test_a_group_that_may_be_filled_but_not_left_for_one_below_is_no_base(group: str) -> None:
    """A permission to make folders is not enough: the processes stay root's to move."""
    code = (
        "import os\n"
        "from ipc.guardian import cgroup\n"
        f"cgroup.join({group!r})\n"
        f"os.chown({group!r}, {NOBODY}, {NOBODY})\n"
        f"os.setuid({NOBODY})\n"
        f"print(cgroup.base(), cgroup.tree({group!r}) == [{group!r}])\n"
    )
    assert output(code) == "None True\n"
