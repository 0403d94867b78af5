"""The same questions on macOS, where the system's own programs answer: ioreg, pmset, vm_stat, sysctl.

A program that is missing or hangs raises, and what it prints is read by pure functions; whatever cannot
be read is unknown.
"""

import re
from collections.abc import Callable, Sequence
from typing import Final

from policies.readings import MemoryReading, Power, PowerReading, PresenceReading
from supervisor.probes.terminals import is_mac_person, terminal_idle

Run = Callable[[Sequence[str], float], str]
"""Runs a program for at most so many seconds and returns what it printed; raises OSError otherwise."""

SECONDS: Final = 5.0
IOREG: Final = ("/usr/sbin/ioreg", "-c", "IOHIDSystem", "-d", "4", "-S")
PMSET: Final = ("/usr/bin/pmset", "-g", "batt")
VM_STAT: Final = ("/usr/bin/vm_stat",)
SYSCTL: Final = ("/usr/sbin/sysctl", "-n", "hw.memsize")

IDLE: Final = re.compile(r'"HIDIdleTime" = (\d+)\b')
SOURCE: Final = re.compile(r"^Now drawing from '([^'\n]+)'", re.MULTILINE)
CHARGE: Final = re.compile(r"\t(\d{1,3})%; ([^;\n]+)")
PAGE_BYTES: Final = re.compile(r"\(page size of (\d+) bytes\)")
TAKEABLE: Final = ("free", "inactive", "speculative")


def presence(run: Run, threshold_s: float, devices: str = "/dev") -> PresenceReading:
    """Return since when nobody has touched keyboard or mouse, or typed at a terminal, as over ssh."""
    last = terminal_idle(devices, "ttys[0-9]*", is_mac_person)
    if last is not None and last[0] < threshold_s:
        return PresenceReading(last[0], f"terminal {last[1]}")
    found = idle_in(run(IOREG, SECONDS))
    if found is None:
        return PresenceReading(source="ioreg tells no HIDIdleTime")
    if last is not None and last[0] < found:
        return PresenceReading(last[0], f"terminal {last[1]}")
    return PresenceReading(found, "ioreg HIDIdleTime")


def power(run: Run) -> PowerReading:
    """Return what the machine runs on."""
    return power_in(run(PMSET, SECONDS))


def memory(run: Run) -> MemoryReading:
    """Return what may still be taken; nobody counts there how many wait for it."""
    return memory_in(run(VM_STAT, SECONDS), run(SYSCTL, SECONDS))


def idle_in(text: str) -> float | None:
    """Return the least idle time that ioreg tells, in seconds; it counts nanoseconds."""
    return min((int(found) / 1e9 for found in IDLE.findall(text)), default=None)


def power_in(text: str) -> PowerReading:
    """Return what pmset tells. A battery that discharges outweighs a plug: its adapter is too weak."""
    if (source := SOURCE.search(text)) is None:
        return PowerReading(source="pmset tells no power source")
    charges = [(int(share), state.strip()) for share, state in CHARGE.findall(text)]
    percent = sum(share for share, _ in charges) / len(charges) if charges else None
    if percent is not None and percent > 100:
        percent = None
    said = f"pmset: {source[1]}"
    match source[1]:
        case "Battery Power" | "UPS Power":
            return PowerReading(Power.BATTERY, percent, said)
        case "AC Power" if any(state == "discharging" for _, state in charges):
            return PowerReading(Power.BATTERY, percent, f"{said}, and discharging")
        case "AC Power":
            return PowerReading(Power.MAINS, percent, said)
        case _:
            return PowerReading(Power.UNKNOWN, percent, said)


def memory_in(vm_stat: str, memsize: str) -> MemoryReading:
    """Return what vm_stat and hw.memsize tell: pages that are free, read ahead, or not used lately."""
    pages = [re.search(rf"^Pages {name}: +(\d+)\.$", vm_stat, re.MULTILINE) for name in TAKEABLE]
    size = PAGE_BYTES.search(vm_stat)
    total = int(memsize) if memsize.strip().isdecimal() else None
    if size is None or not all(pages):
        return MemoryReading(total=total, source="vm_stat is not understood")
    available = sum(int(found[1]) for found in pages if found) * int(size[1])
    return MemoryReading(available, total, None, "vm_stat")
