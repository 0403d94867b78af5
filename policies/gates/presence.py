"""Presence: heavy work waits while the owner is at the machine (SPEC C60-C63, U28)."""

from policies.gates.vocabulary import Blocked, Gate, Limits, Rule, World
from policies.readings import PresenceReading


def presence(rule: Rule, world: World) -> Blocked | None:
    """Block a kind that asks for it while somebody is there, or may be."""
    reading = world.readings.presence
    unread = reading == PresenceReading() and world.limits.presence > 0
    if Gate.PRESENCE not in rule.gates or not (unread or is_present(reading, world.limits)):
        return None
    if reading.idle_s is None:
        return Blocked(Gate.PRESENCE, f"you may be here ({reading.source})", "the probe answers")
    if reading.inhibited:
        return Blocked(Gate.PRESENCE, f"you are here ({reading.source} keeps the screen on)", "it ends")
    return Blocked(Gate.PRESENCE, "you are here", f"{world.limits.presence:g} s without a touch")


def is_present(reading: PresenceReading, limits: Limits) -> bool:
    """Tell whether somebody is at the machine: idle for less than the limit; exactly the limit is away."""
    if not limits.presence:
        return False
    if reading.idle_s is None:
        return limits.unknown_is_present
    return reading.inhibited or reading.idle_s < limits.presence
