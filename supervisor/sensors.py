"""The one place that reads clocks, rolls dice and asks the machine who it is."""

import secrets
import time
from functools import cache
from pathlib import Path


def now_micros() -> int:
    """Return the wall clock, integer microseconds UTC: for rows and screens only."""
    return time.time_ns() // 1000


def monotonic() -> float:
    """Return seconds on the clock that waits and grace times use."""
    return time.monotonic()


def fence() -> str:
    """Return 128 random bits, in hex (SPEC A20)."""
    return secrets.token_hex(16)


@cache
def boot_id() -> str:
    """Return this boot's id, or "" where the system has none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
