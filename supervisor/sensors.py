"""The one place that reads clocks, rolls dice and asks the machine who it is."""

import os
import time
from functools import cache
from pathlib import Path
from typing import Final

SLEEPLESS: Final[int] = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""Linux has one of its own for it; elsewhere the monotonic clock of the system is it."""


def now_micros() -> int:
    """Return the wall clock, integer microseconds UTC: for rows and screens only."""
    return time.time_ns() // 1000


def monotonic() -> float:
    """Return seconds on the clock that waits and grace times use."""
    return time.monotonic()


def steady() -> float:
    """Return seconds on a clock that nobody can set and that runs while the machine sleeps."""
    return time.clock_gettime(SLEEPLESS)


def fence() -> str:
    """Return 128 random bits, in hex (SPEC A20)."""
    return os.urandom(16).hex()  # what `secrets` does, without its imports


@cache
def boot_id() -> str:
    """Return this boot's id, or "" where the system has none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


@cache
def version() -> str:
    """Return the version that is installed; a checkout that nobody installed has none."""
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415 - status need not wait for it

    try:
        return version("laneway")
    except PackageNotFoundError:
        return "not installed"


def local_minute() -> int:
    """Return how many minutes of the local day have passed (SPEC U12)."""
    now = time.localtime()
    return now.tm_hour * 60 + now.tm_min
