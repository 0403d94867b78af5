"""Which readings are news: those by which a gate might decide otherwise. Pure."""

from math import isfinite
from typing import Final

from policies.readings import MemoryReading, PowerReading, PresenceReading

Reading = PresenceReading | PowerReading | MemoryReading

MEMORY_NOISE: Final = 64 << 20
"""Bytes by which memory may differ and be no news."""
PRESSURE_NOISE: Final = 1.0


def is_news(old: Reading, new: Reading, threshold_s: float) -> bool:
    """Tell whether a reading differs from an earlier one in a way that matters. Pure.

    Where it is from does not, nor does less than a percent of charge, and an idle time that only grows does
    when it passes the threshold.
    """
    match old, new:
        case PresenceReading(), PresenceReading():
            if old.inhibited != new.inhibited or old.idle_s is None or new.idle_s is None:
                return (old.idle_s, old.inhibited) != (new.idle_s, new.inhibited)
            return new.idle_s < old.idle_s or old.idle_s < threshold_s <= new.idle_s
        case PowerReading(), PowerReading():
            return (old.state, whole(old.percent)) != (new.state, whole(new.percent))
        case MemoryReading(), MemoryReading():
            return (
                old.total != new.total
                or differs(old.available, new.available, MEMORY_NOISE)
                or differs(old.pressure, new.pressure, PRESSURE_NOISE)
            )
        case _:
            return True


def whole(percent: float | None) -> int | None:
    """Return a charge in whole percents: some batteries tell a little less at each look."""
    return None if percent is None or not isfinite(percent) else int(percent)


def differs(old: float | None, new: float | None, noise: float) -> bool:
    """Tell whether a figure has changed by more than noise, or is known now or no more."""
    if old is None or new is None:
        return old is not new
    return abs(new - old) > noise
