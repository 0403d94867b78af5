"""Power: heavy work waits for mains, and below a floor nothing at all starts (SPEC C130, C132-C134, U28)."""

from policies.gates.vocabulary import Blocked, Gate, Limits, Rule, World
from policies.readings import Power, PowerReading


def power(rule: Rule, world: World) -> Blocked | None:
    """Block a kind that asks for it on battery, or where nobody can tell."""
    reading = world.readings.power
    if Gate.POWER not in rule.gates or not world.limits.power or reading.state is Power.MAINS:
        return None
    if reading.state is Power.UNKNOWN:
        return Blocked(Gate.POWER, f"power unknown ({reading.source})", "mains")
    charge = "" if reading.percent is None else f" ({reading.percent:g} %)"
    return Blocked(Gate.POWER, f"on battery{charge}", "mains")


def power_floor(reading: PowerReading, limits: Limits) -> Blocked | None:
    """Say why nothing at all may start: a battery known to be below the floor; exactly at it is not.

    A charge that nobody could read arms nothing: it would be an outage of its own. A known charge of an
    unknown source counts as a battery.
    """
    charge = reading.percent
    if not limits.power or not limits.power_floor or charge is None or reading.state is Power.MAINS:
        return None
    if charge >= limits.power_floor:
        return None
    floor = f"{limits.power_floor:g} %"
    return Blocked(Gate.POWER_FLOOR, f"battery at {charge:g} %, below {floor}", "mains")
