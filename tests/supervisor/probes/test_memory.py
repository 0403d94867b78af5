"""How much memory may still be taken, by made-up files of a kernel, and by this machine's own."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from supervisor.probes.memory import memory

Write = Callable[[str, str], str]

MEMINFO = "MemTotal:       8000000 kB\nMemFree:  100 kB\nMemAvailable:   4000000 kB\nSwapTotal: 0 kB\n"
AVAILABLE = 4_000_000 << 10
TOTAL = 8_000_000 << 10
PSI = "some avg10=12.50 avg60=3.00 avg300=0.10 total=123\nfull avg10=1.00 avg60=0.00 avg300=0.00 total=1\n"
GIB = 1 << 30


class Machine:
    """Files of a kernel. Groups are folders below the test's own, mounted there."""

    def __init__(self, folder: Path, write: Write) -> None:
        self.root = folder / "cgroup"
        self.write = write
        write("meminfo", MEMINFO)
        write("pressure", PSI)
        self.mount("cgroup2", "rw")
        self.enter("0::/")

    def mount(self, kind: str, options: str) -> None:
        self.write("mountinfo", f"30 23 0:26 / {self.root} rw,nosuid shared:4 - {kind} {kind} {options}\n")

    def enter(self, line: str) -> None:
        self.write("own_group", f"{line}\n")

    def group(self, path: str, **files: str) -> None:
        self.write(f"cgroup/{path}/cgroup.procs", "")
        for name, text in files.items():
            self.write(f"cgroup/{path}/{name.replace('__', '.')}", f"{text}\n")

    def look(self):
        files = ("meminfo", "pressure", "mountinfo", "own_group")
        return memory(*(str(self.root.parent / name) for name in files))


@pytest.fixture
def machine(tmp_path: Path, write: Write) -> Machine:
    return Machine(tmp_path, write)


def usage(current: int, inactive: int = 0) -> dict[str, str]:
    return {"memory__current": str(current), "memory__stat": f"anon 5\ninactive_file {inactive}\nslab 7"}


def test_without_a_limit_the_machine_counts(machine: Machine) -> None:
    found = machine.look()
    assert (found.available, found.total, found.pressure) == (AVAILABLE, TOTAL, 12.5)
    assert found.source == "MemAvailable"


def test_the_tightest_of_all_groups_above_counts(machine: Machine) -> None:
    """Each may have a limit, and cache that can go is room."""
    machine.enter("0::/user.slice/app.scope")
    machine.group("", **usage(GIB))
    machine.group("user.slice", memory__max=str(2 * GIB), memory__high="max", **usage(GIB, GIB // 4))
    machine.group("user.slice/app.scope", memory__max="max", memory__high=str(3 * GIB), **usage(GIB))
    found = machine.look()
    assert (found.available, found.total) == (GIB + GIB // 4, 2 * GIB)
    assert found.source == f"{machine.root}/user.slice/memory.max"


def test_a_group_that_leaves_more_than_the_machine_has_changes_nothing(machine: Machine) -> None:
    machine.group("", memory__max=str(64 * GIB), **usage(GIB))
    found = machine.look()
    assert (found.available, found.total, found.source) == (AVAILABLE, TOTAL, "MemAvailable")


def test_a_group_over_its_limit_leaves_nothing(machine: Machine) -> None:
    machine.group("", memory__max="max", memory__high=str(GIB), **usage(2 * GIB))
    found = machine.look()
    assert (found.available, found.source) == (0, f"{machine.root}/memory.high")


@pytest.mark.parametrize(
    "files",
    [
        {"memory__max": "garbage", **usage(GIB)},
        {"memory__max": str(GIB)},
        {"memory__max": str(GIB), "memory__current": "5", "memory__stat": "anon 5"},
        {"memory__max": str(GIB), "memory__current": "5", "memory__stat": "inactive_file"},
    ],
)
def test_a_group_that_cannot_be_read_sets_no_limit(machine: Machine, files: dict[str, str]) -> None:
    machine.group("", **files)
    assert machine.look().source == "MemAvailable"


def test_groups_of_the_first_version_count_as_well(machine: Machine) -> None:
    machine.mount("cgroup", "rw,memory")
    machine.enter("4:memory:/docker/abc")
    unlimited = {"memory__limit_in_bytes": "9223372036854771712"}
    first = {"memory__usage_in_bytes": str(GIB), "memory__stat": f"cache 1\ntotal_inactive_file {GIB // 2}"}
    machine.group("docker", **unlimited, **first)
    machine.group("docker/abc", memory__limit_in_bytes=str(2 * GIB), **first)
    found = machine.look()
    assert (found.available, found.total) == (GIB + GIB // 2, 2 * GIB)
    assert found.source == f"{machine.root}/docker/abc/memory.limit_in_bytes"


@pytest.mark.parametrize("name", ["mountinfo", "own_group"])
def test_without_word_of_groups_the_machine_counts(machine: Machine, name: str) -> None:
    (machine.root.parent / name).unlink()
    assert machine.look().available == AVAILABLE


@pytest.mark.parametrize(
    "meminfo", [None, "", "MemTotal: 5 kB\n", "MemTotal: 5 kB\nMemAvailable: much kB\n", "MemAvailable:"]
)
def test_what_the_kernel_does_not_say_is_unknown(machine: Machine, meminfo: str | None) -> None:
    """U28."""
    path = machine.root.parent / "meminfo"
    path.unlink() if meminfo is None else path.write_text(meminfo)
    found = machine.look()
    assert (found.available, found.total, found.pressure) == (None, None, 12.5)
    assert found.source == f"{path} does not say what is available"


@pytest.mark.parametrize(
    "psi", [None, "", "full avg10=1.00\n", "some avg60=1.00\n", "some avg10=much\n", "some x\n"]
)
def test_pressure_that_nobody_counts_is_unknown_and_not_zero(machine: Machine, psi: str | None) -> None:
    """U28: kernels may ship without it."""
    path = machine.root.parent / "pressure"
    path.unlink() if psi is None else path.write_text(psi)
    found = machine.look()
    assert (found.pressure, found.available) == (None, AVAILABLE)


@pytest.mark.skipif(sys.platform != "linux", reason="the files of a Linux kernel")
def test_this_machine_says_what_may_still_be_taken() -> None:
    found = memory()
    assert found.available is not None
    assert found.total is not None
    assert 0 < found.available < found.total
    assert found.source == "MemAvailable" or Path(found.source).exists()
