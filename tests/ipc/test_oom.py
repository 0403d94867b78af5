"""Whether the out-of-memory killer ended a process: by real kills, and by made-up counters and logs."""

import os
import select
import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from ipc import oom
from ipc.oom import Evidence, Look, Victim, Witness, evidence, killed_since, named_since, victims_in
from tests.ipc.memory_group import memory_group

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.skipif(not Path("/proc/vmstat").exists(), reason="no /proc on this system")
LIMIT = 64 << 20
GROW = """
with open("/proc/self/oom_score_adj", "w") as badness:
    badness.write("1000")
held = []
while True:
    held.append(bytearray(4 << 20))
"""


def run(code: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", code], env={"PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE, text=True
    )


def ended(code: str) -> tuple[int, int]:
    """Run a program to its end; return its process id and how it ended."""
    with run(code) as process:
        process.communicate(timeout=40)
        return process.pid, process.returncode


def look_until_named(witness: Witness, pid: int) -> Look:
    """The kernel sends the signal before it writes its log."""
    until = time.monotonic() + 20
    while (look := witness.look()).victims is not None and pid not in {one.pid for one in look.victims}:
        assert time.monotonic() < until, f"the log does not name {pid}"
        select.select([], [], [], 0.005)
    return look


# --- the kernel's own work


def test_a_process_that_the_kernel_ended_out_of_memory_is_told_from_one_that_was_killed_by_hand() -> None:
    """FIELD J3, H9."""
    with memory_group(LIMIT) as group, closing(Witness()) as witness:
        before = witness.look()
        grown, code = ended(group.join_code() + GROW)
        assert code == -signal.SIGKILL
        now = look_until_named(witness, grown)
        by_hand, code = ended("import os; os.kill(os.getpid(), 9)")
        assert code == -signal.SIGKILL
        later = witness.look()
    if now.victims is None:
        assert evidence(before, now, grown) in (Evidence.GROUP, Evidence.MACHINE)
    else:
        assert evidence(before, now, grown) is Evidence.NAMED
        assert evidence(before, later, by_hand) is Evidence.NONE
        held = [one.resident for one in named_since(before, now) if one.pid == grown]
        assert LIMIT / 2 < held[0] < LIMIT * 1.25
    assert (killed_since(before, now) or 0) >= 1


def test_who_watches_in_the_same_memory_group_needs_no_log() -> None:
    """FIELD J3: an ordinary user sees no more than the group's own count."""
    watch = (
        "import os\n"
        "from ipc.oom import Witness, evidence\n"
        "witness = Witness(log='/dev/null/none')\n"
        "before = witness.look()\n"
        "child = os.fork()\n"
        f"if child == 0:\n    exec({GROW!r})\n"
        "_, status = os.waitpid(child, 0)\n"
        "print(os.waitstatus_to_exitcode(status), evidence(before, witness.look(), child))\n"
    )
    with memory_group(LIMIT) as group, run(group.join_code() + watch) as process:
        assert process.communicate(timeout=40)[0] == "-9 group\n"


def test_a_kill_by_hand_where_nothing_was_short_of_memory_is_no_evidence() -> None:
    """FIELD H9."""
    with closing(Witness()) as witness:
        before = witness.look()
        pid, code = ended("import os; os.kill(os.getpid(), 9)")
        found = evidence(before, witness.look(), pid)
    assert code == -signal.SIGKILL
    assert found in ((Evidence.NONE,) if before.machine is not None else (Evidence.NONE, Evidence.UNKNOWN))


def test_a_witness_gives_its_descriptors_back_and_knows_nothing_then() -> None:
    before = len(os.listdir("/proc/self/fd"))
    with closing(Witness()) as witness:
        assert before < len(os.listdir("/proc/self/fd")) <= before + 3
        assert witness.look() != Look()
    assert len(os.listdir("/proc/self/fd")) == before
    look = witness.look()
    assert (look.group, look.machine, look.victims) == (None, None, None)


# --- the decision

OTHER, OURS = Victim(7, 70, 1 << 20), Victim(8, 80, 1 << 20)


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        (Look(), Look(), Evidence.UNKNOWN),
        (Look(machine=3), Look(), Evidence.UNKNOWN),
        (Look(), Look(machine=3), Evidence.UNKNOWN),
        (Look(machine=3), Look(machine=2), Evidence.UNKNOWN),
        (Look(group=0), Look(group=0), Evidence.UNKNOWN),
        (Look(group=0, covers_below=True), Look(group=0, covers_below=True), Evidence.NONE),
        (Look(machine=3), Look(machine=3), Evidence.NONE),
        (Look(machine=3), Look(machine=4), Evidence.MACHINE),
        (Look(0, False, 3), Look(0, False, 4), Evidence.MACHINE),
        (Look(0, True, 3), Look(0, True, 4), Evidence.NONE),
        (Look(0, True, 3), Look(1, True, 4), Evidence.GROUP),
        (Look(0, False, 3), Look(1, False, 4), Evidence.GROUP),
        (Look(5, True, 3), Look(0, True, 4), Evidence.MACHINE),
        (Look(machine=3, victims=()), Look(machine=4, victims=()), Evidence.MACHINE),
        (Look(machine=3, victims=()), Look(machine=4, victims=(OTHER,)), Evidence.NONE),
        (Look(machine=3, victims=()), Look(machine=5, victims=(OTHER,)), Evidence.MACHINE),
        (Look(machine=3, victims=(OTHER,)), Look(machine=4, victims=(OTHER,)), Evidence.MACHINE),
        (Look(machine=3, victims=()), Look(machine=4, victims=(OTHER, OURS)), Evidence.NAMED),
        (Look(victims=()), Look(victims=(OURS,)), Evidence.NAMED),
        (Look(machine=3, victims=(OURS,)), Look(machine=3, victims=(OURS,)), Evidence.NONE),
    ],
    ids=[
        "nothing is said",
        "the count has gone",
        "the count has come",
        "the count has fallen",
        "a group that does not count below it says nothing by its zero",
        "a group that counts below it does",
        "the machine's count stands still",
        "the machine's count has risen",
        "ours may be in a group below",
        "it was in another group",
        "ours, and below it",
        "ours",
        "ours is another group by now",
        "the log has not caught up",
        "the log names another",
        "the log names one of two",
        "the log named the other before",
        "the log names it",
        "the log names it, nothing is counted",
        "the log named one with this number before",
    ],
)
def test_what_is_known_of_a_death_follows_from_two_looks(before: Look, now: Look, expected: Evidence) -> None:
    """FIELD J3: a count that is missing is unknown, never zero."""
    assert evidence(before, now, OURS.pid) is expected


def test_the_count_of_kills_is_the_groups_own_if_it_has_one() -> None:
    assert killed_since(Look(1, True, 10), Look(3, True, 15)) == 2
    assert killed_since(Look(1, True, 10), Look(1, True, 15)) == 0
    assert killed_since(Look(1, False, 10), Look(1, False, 15)) == 5
    assert killed_since(Look(1, False), Look(1, False)) is None


# --- what is read

RECORD = (
    "3,812,9061532,-;Memory cgroup out of memory: Killed process {pid} ({name}) total-vm:81234kB, "
    "anon-rss:62000kB, file-rss:500kB, shmem-rss:12kB, UID:0 pgtables:180kB oom_score_adj:0\n"
    " SUBSYSTEM=memory\n"
)


def test_the_log_names_a_process_and_what_it_held() -> None:
    """FIELD J5."""
    text = RECORD.format(pid=4711, name="python3")
    assert victims_in(text.encode()) == [Victim(812, 4711, 62512 << 10)]


@pytest.mark.parametrize(
    "name", ["x) total-vm:1", "Killed process ", "a, anon-rss:9k", "\\x0a3,1,2,-;: K", "\xff("]
)
def test_a_process_cannot_name_another_by_its_own_name(name: str) -> None:
    text = RECORD.format(pid=4711, name=name)
    assert victims_in(text.encode("latin-1")) == [Victim(812, 4711, 62512 << 10)]


def test_only_the_kernels_own_records_count() -> None:
    """A program's have another facility, whatever it writes."""
    written = RECORD.format(pid=4711, name="python3").replace("3,812", "12,812", 1)
    assert victims_in(written.encode()) == []
    assert victims_in(b"6,1,2,-;oom_reaper: reaped process 4711 (python3), now anon-rss:0kB\n") == []


@pytest.fixture
def proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A made-up /proc of the first process namespace in which nothing is counted."""
    folder = tmp_path / "proc"
    (folder / "self/ns").mkdir(parents=True)
    (folder / "self/ns/pid").touch()
    monkeypatch.setattr(oom, "FIRST_PROCESS_NAMESPACE", (folder / "self/ns/pid").stat().st_ino)
    (folder / "vmstat").write_text("nr_free_pages 10\noom_killer 5\n")
    return folder


def test_counters_that_are_not_there_are_unknown(proc: Path) -> None:
    with closing(Witness(str(proc), "/dev/null/none")) as witness:
        assert witness.look() == Look()
        (proc / "vmstat").write_text("oom_kill 5\npgfault 7\n")
        assert witness.look() == Look(machine=5)
        (proc / "vmstat").write_text("oom_kill many\n")
        assert witness.look() == Look()
        (proc / "vmstat").write_text("x 1\n" * 5000 + "oom_kill 12345")
        assert witness.look() == Look()
        (proc / "vmstat").write_text("x 1\n" * 5000 + "oom_kill 12345\n" + "y 1\n" * 5000)
        assert witness.look() == Look(machine=12345)
    (proc / "vmstat").unlink()
    with closing(Witness(str(proc), "/dev/null/none")) as witness:
        assert witness.look() == Look()


def test_what_begins_within_a_second_is_given_the_same_look(proc: Path) -> None:
    (proc / "vmstat").write_text("oom_kill 5\n")
    with closing(Witness(str(proc), "/dev/null/none")) as witness:
        assert witness.recent(100.0) == Look(machine=5)
        (proc / "vmstat").write_text("oom_kill 6\n")
        assert witness.recent(100.9) == Look(machine=5)
        assert witness.look() == Look(machine=6)
        assert witness.recent(101.1) == Look(machine=6)


def test_the_nearest_group_that_has_a_count_counts_for_those_below(proc: Path, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    own = tree / "user/laneway"
    own.mkdir(parents=True)
    for folder in (tree, tree / "user", own):
        (folder / "cgroup.procs").touch()
    (proc / "self/cgroup").write_text("0::/user/laneway\n")
    (proc / "self/mountinfo").write_text(f"31 23 0:28 / {tree} rw - cgroup2 cgroup2 rw\n")
    with closing(Witness(str(proc), "/dev/null/none")) as witness:
        assert witness.look() == Look()
    (tree / "user/memory.events").write_text("low 0\noom 2\noom_kill 1\noom_group_kill 0\n")
    with closing(Witness(str(proc), "/dev/null/none")) as witness:
        assert witness.look() == Look(group=1, covers_below=True)


def test_a_group_of_version_1_counts_for_itself_alone(proc: Path, tmp_path: Path) -> None:
    group = tmp_path / "memory/a b"
    group.mkdir(parents=True)
    (group / "memory.oom_control").write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 4\n")
    (proc / "self/cgroup").write_text("5:cpu,cpuacct:/\n4:memory:/a b\n0::/\n")
    (proc / "self/mountinfo").write_text(f"35 31 0:31 / {tmp_path}/memory rw - cgroup cgroup rw,memory\n")
    with closing(Witness(str(proc), "/dev/null/none")) as witness:
        assert witness.look() == Look(group=4, covers_below=False)


def test_the_log_is_read_from_the_moment_when_the_witness_came(proc: Path, tmp_path: Path) -> None:
    log = tmp_path / "kmsg"
    log.write_text(RECORD.format(pid=1, name="before"))
    with closing(Witness(str(proc), str(log))) as witness:
        first = witness.look()
        assert first.victims == ()
        with log.open("a") as end:
            end.write(RECORD.format(pid=2, name="python3"))
        assert evidence(first, witness.look(), 2) is Evidence.NAMED
        assert evidence(witness.look(), witness.look(), 2) is Evidence.UNKNOWN


def test_where_the_log_counts_processes_by_other_numbers_it_is_not_read(proc: Path, tmp_path: Path) -> None:
    """In a container the kernel's numbers would name somebody else."""
    (tmp_path / "kmsg").touch()
    (proc / "self/ns/other").touch()
    (proc / "self/ns/other").rename(proc / "self/ns/pid")
    with closing(Witness(str(proc), str(tmp_path / "kmsg"))) as witness:
        assert witness.look().victims is None
    (proc / "self/ns/pid").unlink()
    with closing(Witness(str(proc), str(tmp_path / "kmsg"))) as witness:
        assert witness.look().victims is None
