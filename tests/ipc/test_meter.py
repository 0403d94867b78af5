"""The tree below a process and what it holds in memory: real trees, seen in both ways that kernels offer."""

import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ipc.guardian import meter

ROOT = Path(__file__).resolve().parents[2]
NOBODY = 65534
MIB = 1 << 20
pytestmark = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="no /proc on this system")
Start = Callable[[str], "subprocess.Popen[str]"]


@pytest.fixture
def start() -> Iterator[Start]:
    """Start programs that say a line when they are ready; what they start ends when its stdin does."""
    started = []

    def run(code: str) -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            [sys.executable, "-c", code],
            env={"PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        started.append(process)
        return process

    yield run
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture(params=["children", "stat"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways to look: the kernel's lists of children, and a look through all processes."""
    if request.param == "children" and not meter.LISTS_CHILDREN:
        pytest.skip("this kernel does not list children")
    monkeypatch.setattr(meter, "LISTS_CHILDREN", request.param == "children")
    return str(request.param)


def said(process: "subprocess.Popen[str]") -> list[int]:
    """Return the numbers of the next line that a program says."""
    assert process.stdout is not None
    return [int(word) for word in process.stdout.readline().split()]


# --- who is there

TREE = """
import os, threading
def child(then=list):
    ready, say = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.setsid()
        os.write(say, " ".join(map(str, then())).encode() + b"\\n")
        os.read(0, 1)
        os._exit(0)
    return [pid, *map(int, os.read(ready, 999).split())]
pids = child(lambda: child(child))
started, done = threading.Event(), threading.Event()
def of_thread():
    pids.extend(child())
    started.set()
    done.wait()
threading.Thread(target=of_thread, daemon=True).start()
started.wait()
print(*pids, flush=True)
os.read(0, 1)
"""


def test_the_tree_is_seen_whatever_session_and_whatever_thread_it_was_started_in(
    start: Start, way: str
) -> None:
    """FIELD A5."""
    process = start(TREE)
    chain_1, chain_2, chain_3, of_thread = said(process)
    assert sorted(meter.children(process.pid)) == sorted([chain_1, of_thread])
    assert meter.children(chain_1) == [chain_2]
    assert meter.children(chain_3) == []
    found = meter.descendants(process.pid)
    assert sorted(found) == sorted([chain_1, chain_2, chain_3, of_thread])
    assert found.index(chain_1) < found.index(chain_2) < found.index(chain_3)


def test_what_is_skipped_takes_what_is_below_it_along(start: Start, way: str) -> None:
    process = start(TREE)
    chain_1, chain_2, _, of_thread = said(process)
    assert meter.descendants(process.pid, frozenset({chain_1})) == [of_thread]
    assert sorted(meter.descendants(process.pid, frozenset({chain_2}))) == sorted([chain_1, of_thread])


MANY = """
import os
for _ in range(40):
    if os.fork() == 0:
        os.read(0, 1)
        os._exit(0)
print(flush=True)
os.read(0, 1)
"""


def test_a_look_ends_at_its_bound(start: Start, way: str) -> None:
    """A fork bomb cannot keep its watcher busy."""
    process = start(MANY)
    said(process)
    assert len(meter.descendants(process.pid)) == 40
    some = meter.descendants(process.pid, most=7)
    assert len(some) == 7
    assert set(some) <= set(meter.children(process.pid))


THREADS = """
import os, threading
done = threading.Event()
for _ in range(100):
    threading.Thread(target=done.wait, daemon=True).start()
if (pid := os.fork()) == 0:
    os.read(0, 1)
    os._exit(0)
print(pid, flush=True)
os.read(0, 1)
"""


def test_the_children_of_a_process_with_very_many_threads_are_seen_too(start: Start) -> None:
    process = start(THREADS)
    (child,) = said(process)
    assert len(os.listdir(f"/proc/{process.pid}/task")) > meter.MANY_THREADS
    assert meter.children(process.pid) == [child]
    assert meter.descendants(process.pid) == [child]


def test_a_zombie_is_a_child_until_it_is_reaped_and_holds_nothing(start: Start, way: str) -> None:
    process = start("print(flush=True); input()")
    said(process)
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert process.pid in meter.children(os.getpid())
    assert meter.resident([process.pid]) == meter.proportional([process.pid]) == 0
    process.wait()
    assert process.pid not in meter.children(os.getpid())


def test_nothing_is_below_a_process_that_is_gone_or_never_was(start: Start, way: str) -> None:
    process = start("print(flush=True)")
    process.wait()
    for pid in (process.pid, 0, -1):
        assert meter.children(pid) == meter.descendants(pid) == []
        assert meter.resident([pid]) == meter.proportional([pid]) == 0


def test_a_name_made_to_mislead_misleads_nobody(start: Start, way: str) -> None:
    """The kernel prints a process's own name in the midst of its numbers."""
    process = start(
        "import os\n"
        "open('/proc/self/comm', 'w').write(') R 1 1 (\\n)')\n"
        "if (pid := os.fork()) == 0:\n    os.read(0, 1)\n    os._exit(0)\n"
        "print(pid, flush=True)\n"
        "os.read(0, 1)\n"
    )
    (child,) = said(process)
    assert process.pid in meter.children(os.getpid())
    assert meter.descendants(process.pid) == [child]


CHURN = """
import os, time
print(flush=True)
while True:
    for life in range(20):
        if os.fork() == 0:
            os.fork()
            time.sleep(life / 1000)
            os._exit(0)
    for _ in range(20):
        os.wait()
"""


def test_processes_that_vanish_during_a_look_are_no_error(start: Start, way: str) -> None:
    process = start(CHURN)
    said(process)
    seen = set[int]()
    until = time.monotonic() + 20
    while len(seen) < 60:
        assert time.monotonic() < until
        found = meter.descendants(process.pid)
        assert len(found) == len(set(found))
        meter.proportional(found)
        seen.update(found)


WITHOUT_DESCRIPTORS = """
import os, resource
from ipc.guardian import meter
ends, end = os.pipe()
if os.fork() == 0:
    os.close(end)
    os.read(ends, 1)
    os._exit(0)
resource.setrlimit(resource.RLIMIT_NOFILE, (3, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
try:
    meter.children(os.getpid())
except OSError as error:
    refused = error.errno
measured = meter.measure(os.getpid(), frozenset(), 1, 0)
resource.setrlimit(resource.RLIMIT_NOFILE, (64, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
print(refused, measured is None, meter.measure(os.getpid(), frozenset(), 1, 0) is not None)
"""


def test_a_look_that_the_system_has_no_descriptor_for_is_not_taken_for_an_empty_tree(start: Start) -> None:
    process = start(WITHOUT_DESCRIPTORS)
    assert process.communicate(timeout=20)[0] == "24 True True\n"


# --- what it holds

COPIES = """
import os
held = bytearray(64 << 20)
for _ in range(4):
    if os.fork() == 0:
        os.read(0, 1)
        os._exit(0)
print(flush=True)
os.read(0, 1)
"""


def test_pages_that_copies_share_are_counted_once_by_the_proportional_figure_alone(start: Start) -> None:
    """FIELD J1."""
    process = start(COPIES)
    said(process)
    tree = [process.pid, *meter.descendants(process.pid)]
    assert meter.resident(tree) > 5 * 64 * MIB
    assert 64 * MIB < meter.proportional(tree) < 2 * 64 * MIB


HEADLESS = """
import ctypes, os, threading
held = bytearray(64 << 20)
def go_on():
    while open("/proc/self/stat").read().rpartition(")")[2].split()[0] != "Z":
        pass
    print(flush=True)
    os.read(0, 1)
    os._exit(0)
threading.Thread(target=go_on).start()
ctypes.CDLL(None).syscall(ctypes.c_long({exit}), ctypes.c_long(0))
"""
EXIT = {"x86_64": 60, "aarch64": 93, "riscv64": 93}.get(os.uname().machine)
"""The number of the system call that ends one thread."""


@pytest.mark.skipif(EXIT is None, reason="the number of the call that ends a thread is not known here")
def test_a_process_whose_first_thread_has_ended_holds_what_it_held(start: Start) -> None:
    """FIELD J1: by its own number it shows nothing any more."""
    process = start(HEADLESS.replace("{exit}", str(EXIT)))
    said(process)
    assert meter.pages(process.pid) == 0
    assert meter.resident([process.pid]) > 64 * MIB
    assert meter.proportional([process.pid]) > 64 * MIB
    crossed = meter.measure(os.getpid(), frozenset(), 60 * MIB, 0)
    assert crossed is not None


MEMFD = """
import mmap, os
file = os.memfd_create("held")
os.write(file, bytes(64 << 20))
mapped = mmap.mmap(file, 64 << 20) if {mapped} else None
if mapped:
    mapped[:] = bytes(64 << 20)
if os.fork() == 0:
    os.read(0, 1)
    os._exit(0)
print(os.getpid(), flush=True)
os.read(0, 1)
"""


@pytest.mark.parametrize("mapped", [False, True])
def test_a_file_in_memory_without_a_name_counts_once(start: Start, *, mapped: bool) -> None:
    """FIELD J1: however many have it open, or have mapped it as well."""
    process = start(
        f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {MEMFD!r}])".replace(
            "{mapped}", str(mapped)
        )
    )
    (worker,) = said(process)
    tree = meter.descendants(process.pid)
    assert len(tree) == 2
    assert meter.held_open(tree) == 64 * MIB
    assert meter.measure(process.pid, frozenset(), 120 * MIB, 0) is None
    crossed = meter.measure(process.pid, frozenset(), 60 * MIB, 0)
    assert crossed is not None
    assert 64 * MIB < crossed[0] < 120 * MIB
    assert meter.held_open(tree, frozenset({worker})) == 0, "it is the template's"


def test_what_descriptors_hold_is_looked_at_seldom_below_half_the_limit(start: Start) -> None:
    process = start(
        f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {MEMFD!r}])".replace(
            "{mapped}", "False"
        )
    )
    said(process)
    assert meter.measure(process.pid, frozenset(), 60 * MIB, 0, thorough=False) is None
    assert meter.measure(process.pid, frozenset(), 60 * MIB, 0) is not None


def test_only_what_has_lost_its_name_in_memory_is_held_by_who_has_it_open(tmp_path: Path) -> None:
    """A file with a name outlives the job, and one on a disk is not in memory."""
    shm = Path("/dev/shm")
    if not os.access(shm, os.W_OK):
        pytest.skip("there is no /dev/shm")
    before = meter.held_open([os.getpid()])
    for folder, held in ((shm, MIB), (tmp_path, 0)):
        with tempfile.NamedTemporaryFile(dir=folder) as file:
            file.write(bytes(MIB))
            file.flush()
            assert meter.held_open([os.getpid()]) == before
            Path(file.name).unlink()
            assert meter.held_open([os.getpid()]) == before + held
            Path(file.name).touch()


SHARED = """
import ctypes, os
held = bytearray(64 << 20)
libc = ctypes.CDLL(None)
stack = ctypes.create_string_buffer(1 << 16)
top = (ctypes.addressof(stack) + len(stack)) & ~15
pid = libc.clone(ctypes.cast(libc.pause, ctypes.c_void_p), ctypes.c_void_p(top), 0x100 | 17, None)
assert pid > 0
print(pid, flush=True)
os.read(0, 1)
os.kill(pid, 9)
"""


@pytest.mark.parametrize("kcmp", [True, False])
def test_memory_that_two_processes_have_in_common_counts_once(
    start: Start, monkeypatch: pytest.MonkeyPatch, *, kcmp: bool
) -> None:
    """FIELD J1: a child with CLONE_VM is no second 64 MiB; nor where the kernel does not compare them."""
    process = start(f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {SHARED!r}])")
    (child,) = said(process)
    try:
        if not kcmp:
            monkeypatch.setattr(meter, "KCMP", {})
        tree = meter.descendants(process.pid)
        assert len(tree) == 2
        assert meter.proportional(tree) > 2 * 64 * MIB
        assert len(meter.distinct(tree)) == 1
        assert meter.measure(process.pid, frozenset(), 120 * MIB, 0) is None
        crossed = meter.measure(process.pid, frozenset(), 60 * MIB, 0)
        assert crossed is not None
        assert crossed[1] == 2
    finally:
        os.kill(child, signal.SIGKILL)


def test_copies_of_a_process_are_not_taken_for_one(start: Start) -> None:
    """They share their pages for now, and show the same; the kernel knows them apart."""
    process = start(MANY)
    said(process)
    tree = meter.descendants(process.pid)
    try:
        meter.compared(*tree[:2])
    except OSError:
        pytest.skip("this system does not compare processes")
    assert sorted(meter.distinct(tree)) == sorted(tree)


Measured = Callable[[int, int], tuple[int, int] | None]


@pytest.fixture
def measured(start: Start) -> Measured:
    """Measure five processes that share 64 MiB, below one of their own, by a memory and a process limit."""
    process = start(f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {COPIES!r}])")
    said(process)
    return lambda memory, processes: meter.measure(process.pid, frozenset(), memory, processes)


def test_a_limit_is_crossed_by_what_the_tree_really_holds(measured: Measured) -> None:
    """FIELD J1: copies that share their pages are not taken for many times what they are."""
    assert measured(128 * MIB, 0) is None
    crossed = measured(60 * MIB, 0)
    assert crossed is not None
    held, processes = crossed
    assert 64 * MIB < held < 128 * MIB
    assert processes == 5


def test_a_process_limit_counts_what_is_below_the_guardian_and_not_itself(measured: Measured) -> None:
    assert measured(0, 5) is None
    crossed = measured(0, 4)
    assert crossed is not None
    assert crossed[1] == 5
    both = measured(1 << 40, 4)
    assert both is not None
    assert both[1] == 5


def test_without_a_limit_nothing_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """LESSON 9: limits are off by default."""
    monkeypatch.delattr(meter, "descendants")
    assert meter.measure(1, frozenset(), 0, 0) is None


def test_growth_is_seen_while_the_job_runs(start: Start) -> None:
    """FIELD J1: not only when the task has ended."""
    process = start(
        "import subprocess, sys\n"
        "subprocess.run([sys.executable, '-c', '''\n"
        "held = []\n"
        "print(flush=True)\n"
        "while len(held) < 200:\n    held.append(bytearray(1 << 20))\n"
        "input()\n'''])\n"
    )
    said(process)
    until = time.monotonic() + 30
    while (crossed := meter.measure(process.pid, frozenset(), 100 * MIB, 0)) is None:
        assert time.monotonic() < until
        select.select([], [], [], 0.01)
    assert crossed[0] > 100 * MIB
    assert crossed[1] == 1


def test_of_another_users_process_the_resident_figure_is_taken(start: Start) -> None:
    """An ordinary user may not look into pid 1."""
    process = start(
        "import os\n"
        "from ipc.guardian import meter\n"
        f"os.geteuid() or os.setuid({NOBODY})\n"
        "hidden = not meter.read('/proc/1/smaps_rollup')\n"
        "print(int(hidden), meter.proportional([1]), meter.resident([1]))\n"
    )
    hidden, proportional, resident = said(process)
    if not hidden:
        pytest.skip("pid 1 is ours to look into")
    assert proportional > 0
    assert abs(proportional - resident) < max(proportional, resident) / 2


def test_the_guardian_gets_both_modules_without_paying_for_heavy_ones() -> None:
    """Each slot has a guardian: what it imports is paid for by each."""
    code = (
        "import os, sys\n"
        "before = set(sys.modules)\n"
        f"sys.path.append({str(ROOT)!r})\n"
        "import ipc.guardian.meter\n"
        "print(*sorted(set(sys.modules) - before - {*sys.builtin_module_names}))\n"
        "import ipc.guardian.cgroup\n"
        "print(*sorted({'dataclasses', 'pathlib', 're', 'subprocess', 'typing'} & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout == "ipc ipc.guardian ipc.guardian.meter\n\n"
