"""What the programs of macOS print, and what it means; and that those who do not print it are unknown."""

import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from policies.readings import MemoryReading, Power
from supervisor.probes import macos, watch

IOREG = """+-o Root  <class IORegistryEntry, id 0x100000100, retain 29>
  +-o MacBookPro18,3  <class IOPlatformExpertDevice, id 0x100000226, registered, matched, active, busy 0>
    +-o IOResources  <class IOResources, id 0x100000115, registered, matched, active, busy 0 (0 ms)>
      +-o IOHIDSystem  <class IOHIDSystem, id 0x1000004d2, registered, matched, active, busy 0 (0 ms)>
          {
            "IOClass" = "IOHIDSystem"
            "HIDParameters" = {"Clicking"=0,"HIDClickTime"=500000000,"HIDPointerAcceleration"=45056}
            "HIDScrollAccelerationType" = "HIDTrackpadScrollAcceleration"
            "HIDIdleTime" = 412345678901
            "EvictedCount" = 0
          }
"""
ON_AC = """Now drawing from 'AC Power'
 -InternalBattery-0 (id=4653155)\t100%; charged; 0:00 remaining present: true
"""
ON_BATTERY = """Now drawing from 'Battery Power'
 -InternalBattery-0 (id=4653155)\t85%; discharging; 4:12 remaining present: true
"""
LIMITED = """Now drawing from 'AC Power'
 -InternalBattery-0 (id=4653155)\t80%; AC attached; not charging present: true
"""
WEAK = """Now drawing from 'AC Power'
 -InternalBattery-0 (id=4653155)\t42%; discharging; (no estimate) present: true
"""
DESKTOP = "Now drawing from 'AC Power'\n"
ON_UPS = """Now drawing from 'UPS Power'
 -Back-UPS ES 700 (id=1234567)\t97%; discharging; 0:41 remaining present: true
"""
VM_STAT = """Mach Virtual Memory Statistics: (page size of 16384 bytes)
Pages free:                               45231.
Pages active:                            402113.
Pages inactive:                          398872.
Pages speculative:                         2310.
Pages throttled:                              0.
Pages wired down:                        131072.
Pages purgeable:                           8121.
"Translation faults":                 912345678.
Pages copy-on-write:                   12345678.
File-backed pages:                       251234.
Anonymous pages:                         552061.
Pages stored in compressor:              612345.
Swapins:                                      0.
"""


def test_idle_time_is_told_in_nanoseconds() -> None:
    """C60."""
    assert macos.idle_in(IOREG) == pytest.approx(412.345678901)


@pytest.mark.parametrize("text", ["", IOREG.replace("412345678901", "soon"), IOREG.replace("IdleTime", "")])
def test_without_an_idle_time_nothing_is_known(text: str) -> None:
    """C61, U28."""
    assert macos.idle_in(text) is None


@pytest.mark.parametrize(
    ("text", "state", "percent"),
    [
        pytest.param(ON_AC, Power.MAINS, 100.0, id="at a desk"),
        pytest.param(ON_BATTERY, Power.BATTERY, 85.0, id="in the train"),
        pytest.param(LIMITED, Power.MAINS, 80.0, id="a charge limit is reached"),
        pytest.param(WEAK, Power.BATTERY, 42.0, id="an adapter that is too weak"),
        pytest.param(DESKTOP, Power.MAINS, None, id="no battery"),
        pytest.param(ON_UPS, Power.BATTERY, 97.0, id="a UPS in a power cut"),
        pytest.param("", Power.UNKNOWN, None, id="nothing"),
        pytest.param("Now drawing from 'Solar'\n", Power.UNKNOWN, None, id="a new word"),
        pytest.param(ON_BATTERY.replace("85%", "985%"), Power.BATTERY, None, id="over the whole"),
    ],
)
def test_the_power_source_is_named_on_the_first_line(text: str, state: Power, percent: float | None) -> None:
    """C134, U28."""
    found = macos.power_in(text)
    assert (found.state, found.percent) == (state, percent)
    assert found.source.startswith("pmset")


def test_free_and_unused_pages_can_be_taken() -> None:
    available = (45231 + 398872 + 2310) * 16384
    assert macos.memory_in(VM_STAT, "34359738368\n") == MemoryReading(available, 32 << 30, None, "vm_stat")


@pytest.mark.parametrize(
    "text", ["", VM_STAT.replace("inactive", "idle"), VM_STAT.replace("page size", "size")]
)
def test_pages_that_are_not_told_are_unknown(text: str) -> None:
    """U28."""
    assert macos.memory_in(text, "much") == MemoryReading(source="vm_stat is not understood")


# --- with programs that run


def run(argv: Sequence[str], seconds: float) -> str:
    """Run a program, as the probes are given a way to."""
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=seconds, check=True)
    except subprocess.SubprocessError as error:
        raise OSError(f"{argv[0]}: {type(error).__name__}") from error
    return done.stdout


def printing(texts: dict[str, str]) -> macos.Run:
    """Return a way to run programs of the test's, each printing a text, in place of the system's."""

    def runs(argv: Sequence[str], seconds: float) -> str:
        return run([sys.executable, "-c", f"print({texts[Path(argv[0]).name]!r}, end='')"], 60.0)

    return runs


TEXTS = {"ioreg": IOREG, "pmset": ON_BATTERY, "vm_stat": VM_STAT, "sysctl": "34359738368\n"}


def test_each_probe_reads_what_its_program_prints(tmp_path: Path) -> None:
    """C60, C134."""
    runs = printing(TEXTS)
    assert macos.presence(runs, 300.0, str(tmp_path)).source == "ioreg HIDIdleTime"
    assert macos.power(runs).percent == 85.0
    assert macos.memory(runs).total == 32 << 30


def test_who_types_over_ssh_is_there_and_ioreg_is_not_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C60."""
    monkeypatch.setattr(macos, "is_mac_person", lambda _uid: True)
    (tmp_path / "ttys001").touch()
    assert macos.presence(printing({}), 300.0, str(tmp_path)).source == "terminal /dev/ttys001"
    assert macos.presence(printing(TEXTS), 0.0, str(tmp_path)).source == "terminal /dev/ttys001"


def test_an_idle_time_that_is_missing_is_unknown(tmp_path: Path) -> None:
    """C61, U28."""
    found = macos.presence(printing({"ioreg": "{}"}), 300.0, str(tmp_path))
    assert (found.idle_s, found.source) == (None, "ioreg tells no HIDIdleTime")


@pytest.mark.parametrize(
    ("argv", "seconds", "source"),
    [
        (["/no/such/program"], 60.0, "/no/such/program: No such file or directory"),
        ([sys.executable, "-c", "import signal; signal.pause()"], 0.5, "TimeoutExpired"),
        ([sys.executable, "-c", "raise SystemExit(1)"], 60.0, "CalledProcessError"),
    ],
)
def test_a_program_that_is_missing_hangs_or_fails_is_unknown(
    argv: list[str], seconds: float, source: str
) -> None:
    """C61, C62, U28."""

    def runs(_argv: Sequence[str], _seconds: float) -> str:
        return run(argv, seconds)

    probe: Callable[[], watch.Reading] = lambda: macos.power(runs)  # noqa: E731 - as `native` has it
    found = watch.look({"power": probe}, limit=60.0).power
    assert found.state is Power.UNKNOWN
    assert source in found.source
