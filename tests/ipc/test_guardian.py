"""The guardian: what it starts, hears, tells and ends, with real processes (SPEC C126, U3, U41; OS.md 1)."""

import errno
import json
import os
import resource
import secrets
import select
import signal
import socket
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from fcntl import ioctl
from pathlib import Path

import pytest

from ipc.child import Exit
from ipc.dump import DUMP_SIGNAL
from ipc.guardian import cgroup, orders, shield
from ipc.guardian.__main__ import FAULTS
from ipc.keeper import Beside, Crossed, Over, Started
from tests.ipc.kept import SLEEP, Kept, alive, kill_marked, state_of

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
AS_ROOT = os.geteuid() == 0
ROOT = Path(__file__).resolve().parents[2]

# --- what a child is


def test_the_end_of_a_child_is_told_with_its_code_its_peak_and_how_many_ended(kept: Kept) -> None:
    """C155, FIELD H9."""
    child = kept.over(kept.start("import sys; print('here'); sys.exit(3)"))
    assert (child.exit, child.ended, child.log.text()) == (Exit(3, None), 1, "here\n")
    assert child.peak > 1 << 20
    child = kept.over(kept.start("import os; os.kill(os.getpid(), 11)"))
    assert child.exit == Exit(None, signal.SIGSEGV)


LOOK = """
import json, os, resource, signal, subprocess, sys
def table(name):
    line = next(one for one in open("/proc/self/status") if one.startswith(name))
    return int(line.split()[1], 16)
seen = {
    "fds": {fd: os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")
            if os.path.exists(f"/proc/self/fd/{fd}")},
    "theirs": subprocess.run(["ls", "/proc/self/fd"], close_fds=False, capture_output=True).stdout.split(),
    "group": os.getpgid(0) == os.getsid(0) == os.getpid(),
    "folder": os.getcwd(), "umask": os.umask(0), "nice": os.getpriority(os.PRIO_PROCESS, 0),
    "blocked": table("SigBlk"), "ignored": table("SigIgn"),
    "oom": int(open("/proc/self/oom_score_adj").read()), "argv": sys.argv,
}
seen["theirs"] = [one.decode() for one in seen["theirs"]]
print(json.dumps(seen))
"""
PYTHON_IGNORES = {signal.SIGPIPE, signal.SIGXFSZ}
KEPT_BY_THE_C_LIBRARY = set(range(1, 65)) - signal.valid_signals()  # stay as whoever started us had set them


def test_a_child_inherits_its_descriptors_and_a_clean_slate_whatever_its_supervisor_was_started_with(
    tmp_path: Path,
) -> None:
    """FIELD B9, C156, OS.md 4: its own session, no signal blocked or ignored, nothing open but its own."""
    extra = os.open("/dev/null", os.O_RDONLY)
    os.set_inheritable(extra, True)
    odd = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGHUP, signal.SIGUSR1)}
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGCHLD, signal.SIGRTMIN])
    umask = os.umask(0o027)
    try:
        kept = Kept(tmp_path, "slate")
        child = kept.over(kept.start(LOOK, nice=os.getpriority(os.PRIO_PROCESS, 0) + 3, tail=["last"]))
    finally:
        os.umask(umask)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for number, action in odd.items():
            signal.signal(number, action)
        os.close(extra)
    seen = json.loads(child.log.text())
    channel, stacks = seen["argv"][2], seen["argv"][4]
    assert seen["argv"] == [
        *("-c", "--channel", channel, "--stack", stacks, "--parent", str(kept.keeper.pid), "last")
    ]
    assert seen["fds"].keys() == {"0", "1", "2", channel, stacks}
    assert seen["fds"]["0"] == "/dev/null"
    assert seen["fds"]["1"] == seen["fds"]["2"]
    assert seen["fds"]["1"].startswith("pipe:")
    assert seen["fds"][channel].startswith("socket:")
    assert seen["fds"][stacks].startswith("/memfd:")
    assert set(seen["theirs"]) == {"0", "1", "2", "3", channel, stacks}, "the worker closes two; ls opens one"
    assert seen["group"]
    assert (seen["folder"], seen["umask"]) == (str(tmp_path), 0o027)
    assert seen["nice"] == os.getpriority(os.PRIO_PROCESS, 0) + 3
    assert seen["oom"] >= 800
    assert seen["blocked"] == 0
    ignored = {n for n in range(1, 65) if seen["ignored"] >> (n - 1) & 1}
    assert ignored <= PYTHON_IGNORES | KEPT_BY_THE_C_LIBRARY
    kept.close()


@pytest.mark.parametrize(
    ("argv", "folder", "why"),
    [
        (["/nowhere/python"], ".", "No such file or directory"),
        (["/dev/null"], ".", "Permission denied"),
        ([sys.executable], "gone", "gone"),
    ],
)
def test_a_child_that_cannot_be_started_is_told_with_its_reason_and_the_next_one_can(
    kept: Kept, argv: list[str], folder: str, why: str
) -> None:
    """C155."""
    child = kept.over(kept.run(argv, folder=kept.folder / folder))
    assert child.failed is not None
    assert why in child.failed
    assert child.exit is None
    assert kept.over(kept.start("pass")).exit == Exit(0, None)


def test_a_guardian_without_room_for_descriptors_says_so_and_serves_on(kept: Kept) -> None:
    """No descriptor left, at any of the steps at which one is needed: a failure with its reason, no death."""
    kept.over(kept.start("pass"))
    used = len(os.listdir(f"/proc/{kept.keeper.pid}/fd"))
    before = resource.prlimit(kept.keeper.pid, resource.RLIMIT_NOFILE)
    for room in range(5):
        resource.prlimit(kept.keeper.pid, resource.RLIMIT_NOFILE, (used + room, before[1]))
        child = kept.over(kept.start("pass"))
        assert child.failed is not None or child.exit is not None
        assert room > 2 or ("cannot be started" in str(child.failed) and child.errno == errno.EMFILE)
    resource.prlimit(kept.keeper.pid, resource.RLIMIT_NOFILE, before)
    assert kept.over(kept.start("pass")).exit == Exit(0, None)
    assert len(os.listdir(f"/proc/{kept.keeper.pid}/fd")) == used


def test_a_start_that_hangs_before_the_program_begins_can_be_killed(kept: Kept) -> None:
    """A folder can hang, on a network say; here a fifo is where its group should be."""
    group = kept.folder / f"group-{kept.keeper.pid}"
    group.mkdir()
    os.mkfifo(group / "cgroup.procs")
    child = kept.start(group=str(kept.folder / "group"))
    kept.wait_for(lambda: len(alive(kept.marker)) == 2)
    kept.keeper.kill()
    assert kept.over(child).exit == Exit(None, signal.SIGKILL)
    assert child.pid == 0, "it never was a worker"


@pytest.mark.skipif(shield.abi() < 3, reason="this kernel has no Landlock")
def test_a_folder_that_is_closed_to_a_child_is_closed_before_it_begins(kept: Kept) -> None:
    """Issue 4, the shield: it is never told where, and what lies beside the folder is open."""
    store = kept.folder / "store"
    store.mkdir()
    (store / "db").write_text("kept")
    (kept.folder / "beside").write_text("seen")
    code = "import os, sys\nprint(open('beside').read())\nprint(open(os.path.join('store', 'db')).read())"
    open_to_it = kept.over(kept.start(code))
    assert open_to_it.log.text() == "seen\nkept\n"
    closed = kept.over(kept.start(code, closed=store))
    assert "PermissionError" in closed.log.text()
    assert closed.log.text().endswith("seen\n")
    assert closed.exit == Exit(1, None)
    failed = kept.over(kept.start(code, closed=kept.folder / "gone"))
    assert "No such file" in str(failed.failed)


@pytest.fixture
def groups() -> Iterator[str]:
    """What the names of control groups begin with; none may be left."""
    base = cgroup.base()
    if base is None:
        pytest.skip("no control group can be made here")
    prefix = f"laneway-test-{secrets.token_hex(8)}"
    yield f"{base}/{prefix}"
    assert cgroup.leftovers(base, prefix) == []


def test_where_there_are_control_groups_a_child_is_in_one_until_its_guardian_leaves(
    kept: Kept, groups: str
) -> None:
    """C126: told as the surer kill that it is; a group that is there already does for the next as well."""
    group = f"{groups}-{kept.keeper.pid}"
    os.mkdir(group)
    for _ in range(2):
        child = kept.up(TREE + STAY, group=groups)
        assert child.tier == "cgroup"
        assert len(cgroup.members(group)) == 6
        kept.keeper.kill()
        assert kept.over(child).ended == 6
        assert cgroup.members(group) == []
    kept.up(group=groups)
    kept.keeper.let_go()
    kept.wait_for(kept.keeper.reap)
    assert not os.path.exists(group)


def test_a_control_group_that_cannot_be_made_leaves_the_guardian(kept: Kept) -> None:
    child = kept.up(group=str(kept.folder / "no" / "groups"))
    assert child.tier == "guardian"
    kept.keeper.kill()
    kept.over(child)


# --- what a guardian does while a child works

ORPHANS = """
import os, time
for _ in range(20):
    if os.fork() == 0:
        if os.fork() == 0:
            os._exit(0)
        os._exit(0)
for _ in range(20): os.wait()
print("up", flush=True)
time.sleep(3600)
"""


def test_orphans_that_end_while_a_job_runs_are_no_zombies(kept: Kept) -> None:
    """FIELD H5."""
    kept.up(ORPHANS)
    task = Path(f"/proc/{kept.keeper.pid}/task/{kept.keeper.pid}/children")
    kept.wait_for(lambda: task.read_text().split() == [str(kept.children[-1].pid)])


def test_a_tree_over_its_limit_is_told_of_once(kept: Kept) -> None:
    """FIELD J1."""
    child = kept.up("import os\nos.fork()\nos.fork()\n" + SLEEP)
    kept.keeper.limit(0, 3)
    kept.wait_for(lambda: child.crossed)
    assert child.crossed.processes == 4
    assert child.crossed.memory > 1 << 20
    kept.keeper.ask()
    kept.wait_for(lambda: child.beside)
    assert child.beside.processes == 3
    assert sum(isinstance(one, Crossed) for one in kept.told) == 1
    kept.keeper.limit(0, 4)
    kept.keeper.ask()
    assert child.crossed.processes == 4


BUSY_TREE = """
import os, sys, time
for _ in range(300):
    if os.fork() == 0:
        time.sleep(3600)
print("up", flush=True)
sys.stdin = open("go")
for _ in range(400):
    if os.fork() == 0:
        if os.fork() == 0:
            os._exit(0)
        os._exit(0)
    os.wait()
print("done", flush=True)
time.sleep(3600)
"""


def test_what_a_child_holds_in_files_without_a_name_is_told_of_too(kept: Kept) -> None:
    """FIELD J1: it shows in no figure of its own memory, and is looked at less often."""
    child = kept.up(f"import os\nfile = os.memfd_create('held')\nos.write(file, bytes(99 << 20))\n{SLEEP}")
    kept.keeper.limit(90 << 20, 0)
    kept.wait_for(lambda: child.crossed)
    assert child.crossed.memory > 99 << 20
    kept.keeper.kill()
    kept.over(child)


def test_a_tree_is_not_measured_more_often_because_orphans_end(shipped: Kept) -> None:
    """A look at a large tree takes long: a stream of dying orphans must not have one taken at each death."""
    go = shipped.folder / "go"
    os.mkfifo(go)
    shipped.up(BUSY_TREE)
    shipped.keeper.limit(1 << 40, 1000)
    before, began = cpu_seconds(shipped.keeper.pid), time.monotonic()
    os.close(os.open(go, os.O_WRONLY))
    shipped.said("done")
    assert cpu_seconds(shipped.keeper.pid) - before < 0.5 * (time.monotonic() - began)


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


def test_a_supervisor_that_does_not_read_keeps_no_guardian_from_its_work(shipped: Kept) -> None:
    """What is told fills the lifeline of one that is stopped, and a kill that was ordered is done."""
    child = shipped.up()
    for _ in range(1500):
        shipped.keeper.ask()
        until_taken(shipped)
    handle = os.pidfd_open(child.pid)  # before it may be gone
    shipped.keeper.kill()
    assert select.select([handle], [], [], 20)[0]
    os.close(handle)
    assert shipped.over(child).exit == Exit(None, signal.SIGKILL)
    assert sum(isinstance(one, Beside) for one in shipped.told) == 1500


def until_taken(kept: Kept) -> None:
    """Wait until the guardian has read everything that it was told."""
    while ioctl(kept.keeper.fileno(), termios.TIOCOUTQ, b"\0" * 4) != b"\0" * 4:
        os.sched_yield()


def test_orders_that_come_in_one_piece_or_in_pieces_are_taken_one_by_one(kept: Kept) -> None:
    """Started, limited and killed before it could begin; then an order byte by byte."""
    log, output = os.pipe()
    channel, theirs = socket.socketpair()
    spec = ([sys.executable, "-c", SLEEP], [], {}, str(kept.folder), 0, "", "", False)
    piece = b"".join(
        (orders.pack(orders.START, spec), orders.pack(orders.LIMIT, 1, 1), orders.pack(orders.KILL))
    )
    socket.send_fds(kept.keeper._lifeline, [piece], [theirs.fileno(), output, output])
    kept.wait_for(lambda: any(isinstance(one, Over) for one in kept.told))
    assert [type(one) for one in kept.told][-1:] == [Over]
    assert kept.told[-1].code == -signal.SIGKILL
    for fd in (log, output):
        os.close(fd)
    channel.close()
    theirs.close()

    child = kept.up()
    for byte in orders.pack(orders.ASK):
        kept.keeper._lifeline.send(bytes([byte]))
        until_taken(kept)
    assert child.beside is None
    kept.wait_for(lambda: child.beside)


def test_whatever_signal_a_job_sends_it_a_guardian_goes_on(kept: Kept) -> None:
    """All but SIGKILL and those of a fault; one that was stopped hears the next order."""
    kept.up()
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP, *FAULTS}:
        os.kill(kept.keeper.pid, number)
    os.kill(kept.keeper.pid, signal.SIGSTOP)
    kept.keeper.ask()
    kept.wait_for(lambda: kept.children[-1].beside)


# --- and how it ends what it keeps

FAMILY = """
import os, signal, time
def stay(name):
    os.write(1, f"{name} {os.getpid()}\\n".encode())
    while True: time.sleep(3600)
def started(act):
    if (pid := os.fork()) == 0:
        act()
        os._exit(0)
    return pid
def deaf():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    stay("deaf")
def away():
    os.setsid()
    stay("away")
"""
TREE = f"""{FAMILY}
started(lambda: stay("plain"))
started(deaf)
started(away)
os.waitpid(started(lambda: started(lambda: stay("orphan"))), 0)
os.waitpid(started(lambda: started(away)), 0)
print("up", flush=True)
"""
STAY = "signal.pause()"


def test_what_a_child_has_started_ends_with_it_when_it_leaves(kept: Kept) -> None:
    """FIELD A5, B1: whatever sessions and parents they have."""
    child = kept.over(kept.up(TREE))
    assert child.exit == Exit(0, None)
    assert child.ended == 6
    assert alive(kept.marker) == [kept.keeper.pid]


@pytest.mark.parametrize("stopped", [False, True])
def test_a_kill_ends_the_whole_tree_also_when_the_guardian_was_stopped(kept: Kept, *, stopped: bool) -> None:
    """C126, U3."""
    child = kept.up(TREE + STAY)
    if stopped:
        os.kill(kept.keeper.pid, signal.SIGSTOP)
        kept.wait_for(lambda: state_of(kept.keeper.pid) == "T")
    kept.keeper.kill()
    assert kept.over(child).exit == Exit(None, signal.SIGKILL)
    assert child.ended == 6
    assert alive(kept.marker) == [kept.keeper.pid]
    assert child.left == ()


UNWAITED = f"""{FAMILY}
for between in [started(lambda: started(away)) for _ in range(3)]:
    os.waitid(os.P_PID, between, os.WEXITED | os.WNOWAIT)
print("up", flush=True)
"""
"""Three grandchildren in sessions of their own; nobody has waited for who stood between."""


@pytest.mark.parametrize("tier", ["cgroup", "guardian"])
@pytest.mark.parametrize("how", ["kill", "term", "leaves"])
def test_who_ended_is_who_was_alive_however_it_came_to_an_end(
    kept: Kept, request: pytest.FixtureRequest, how: str, tier: str
) -> None:
    """FIELD A5: zombies that a job has never waited for are no processes that were ended."""
    group = request.getfixturevalue("groups") if tier == "cgroup" else None
    child = kept.up(UNWAITED + ("" if how == "leaves" else STAY), group=group)
    assert child.tier == tier
    if how != "leaves":
        getattr(kept.keeper, how)()
    assert kept.over(child).ended == 4
    kept.keeper.let_go()  # and its group goes with it
    kept.wait_for(kept.keeper.reap)


def test_term_wakes_a_stopped_child_and_a_dump_leaves_it_running(kept: Kept) -> None:
    """OS.md 3: TERM waits for CONT, so CONT is sent too."""
    code = f"import os, signal\nsignal.signal({int(DUMP_SIGNAL)}, lambda *_: os.write(1, b'dumped'))\n"
    child = kept.up(code + SLEEP + "\nsignal.pause()")
    os.kill(child.pid, signal.SIGSTOP)
    kept.keeper.dump()
    kept.said("dumped")
    os.kill(child.pid, signal.SIGSTOP)
    kept.keeper.term()
    assert kept.over(child).exit == Exit(None, signal.SIGTERM)


def test_orders_for_a_child_that_has_ended_touch_nobody(kept: Kept) -> None:
    kept.over(kept.start("pass"))
    for order in (kept.keeper.term, kept.keeper.dump, kept.keeper.kill, kept.keeper.ask):
        order()
    kept.keeper.limit(1, 1)
    assert kept.over(kept.start("pass")).exit == Exit(0, None)
    assert [type(one) for one in kept.told] == [Started, Over, Started, Over]


def test_a_guardian_that_is_let_go_while_it_is_stopped_ends_what_it_keeps(kept: Kept) -> None:
    kept.up(TREE + STAY)
    os.kill(kept.keeper.pid, signal.SIGSTOP)
    kept.wait_for(lambda: state_of(kept.keeper.pid) == "T")
    kept.keeper.let_go()
    kept.wait_for(kept.keeper.reap)
    assert alive(kept.marker) == []


def test_a_lifeline_that_is_reset_ends_what_is_kept(tmp_path: Path) -> None:
    """OS.md 1: a peer that died with bytes unread gives ECONNRESET, not the end of the stream."""
    kept = Kept(tmp_path, secrets.token_hex(16))
    kept.up(TREE + STAY)
    kept.keeper.ask()
    assert select.select([kept.keeper], [], [], 20)[0]
    kept.keeper.close()
    until_gone(kept.marker)
    kept.keeper._process.wait(20)
    kept.children[0].close()


SUPERVISOR = """
import signal, sys
from pathlib import Path
from tests.ipc.kept import Kept
kept = Kept(Path(sys.argv[1]), sys.argv[2])
kept.up(sys.argv[3])
print(kept.keeper.pid, flush=True)
signal.pause()
"""


@pytest.mark.parametrize("stopped", [False, True])
def test_a_supervisor_that_is_killed_leaves_nothing_not_even_a_stopped_guardian(
    tmp_path: Path, *, stopped: bool
) -> None:
    """U41, FIELD B1: gone in 2 s; the kernel wakes a guardian that a job has stopped."""
    marker = secrets.token_hex(16)
    argv = [sys.executable, "-c", SUPERVISOR, str(tmp_path), marker, TREE + STAY]
    with subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE, text=True) as supervisor:
        try:
            guardian = int(supervisor.stdout.readline())
            if stopped:
                os.kill(guardian, signal.SIGSTOP)
                until(lambda: state_of(guardian) == "T")
        finally:
            supervisor.kill()
    until_gone(marker)


def until_gone(marker: str, seconds: float = 2.0) -> None:
    try:
        until(lambda: alive(marker) == [], seconds)
    finally:
        kill_marked(marker)


def until(fact: Callable[[], bool], seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not fact():
        assert time.monotonic() < end, f"no {fact} within {seconds} s"
        select.select([], [], [], 0.005)


# --- what cannot be ended

FREEZER = Path("/sys/fs/cgroup/freezer")


@pytest.fixture
def frozen() -> Iterator[Callable[[int], None]]:
    """Freeze a process, which not even SIGKILL ends before it is thawed: as one that hangs in the kernel."""
    if not AS_ROOT or not (FREEZER / "cgroup.procs").exists():
        pytest.skip("needs root and a freezer of version 1")
    group = FREEZER / f"laneway-test-{secrets.token_hex(8)}"
    group.mkdir()

    def freeze(pid: int) -> None:
        (group / "cgroup.procs").write_text(str(pid))
        (group / "freezer.state").write_text("FROZEN")
        until(lambda: (group / "freezer.state").read_text().strip() == "FROZEN")

    yield freeze
    (group / "freezer.state").write_text("THAWED")
    until(lambda: (group / "cgroup.procs").read_text() == "")
    group.rmdir()


def thaw() -> None:
    for group in FREEZER.glob("laneway-test-*"):
        (group / "freezer.state").write_text("THAWED")


def test_who_cannot_be_ended_is_named_until_it_can(kept: Kept, frozen: Callable[[int], None]) -> None:
    """FIELD A7: the worker is dead, and it is not over."""
    child = kept.up(TREE + STAY)
    away = int(kept.said("away").split("away ")[1].split()[0])
    frozen(away)
    kept.keeper.kill()
    kept.wait_for(lambda: child.left)
    assert child.left == (away,)
    assert not child.over
    thaw()
    assert kept.over(child).ended == 6
    assert child.left == ()


def test_a_worker_that_cannot_be_ended_is_named_itself(kept: Kept, frozen: Callable[[int], None]) -> None:
    child = kept.up()
    frozen(child.pid)
    kept.keeper.kill()
    kept.wait_for(lambda: child.left)
    assert child.left == (child.pid,)
    thaw()
    kept.over(child)


def test_a_guardian_that_nobody_waits_for_does_not_wait_for_ever(
    shipped: Kept, frozen: Callable[[int], None]
) -> None:
    """It leaves what SIGKILL does not end: the next start finds that by its marker."""
    child = shipped.up()
    frozen(child.pid)
    shipped.keeper.let_go()
    shipped.wait_for(shipped.keeper.reap)
    assert alive(shipped.marker) == [child.pid]
    thaw()
    until_gone(shipped.marker)


@pytest.mark.skipif(os.geteuid() == 0, reason="the kernel counts no processes of root")
def test_a_system_without_room_for_a_process_is_told_apart(kept: Kept) -> None:
    """FIELD: EAGAIN is no fault of the application's."""
    before = resource.prlimit(kept.keeper.pid, resource.RLIMIT_NPROC)
    resource.prlimit(kept.keeper.pid, resource.RLIMIT_NPROC, (0, before[1]))
    child = kept.over(kept.start("pass"))
    assert (child.errno, child.exit) == (errno.EAGAIN, None)
    resource.prlimit(kept.keeper.pid, resource.RLIMIT_NPROC, before)
    assert kept.over(kept.start("pass")).exit == Exit(0, None)
