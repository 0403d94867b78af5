"""Quiet hours: spans of the local day, [start, end), in which heavy work waits (SPEC A46, U12)."""

from policies.gates.vocabulary import Blocked, Gate, Rule, World


def quiet(rule: Rule, world: World) -> Blocked | None:
    """Block a kind that asks for it within the hours; a span may pass midnight, an empty one is none."""
    if Gate.QUIET not in rule.gates:
        return None
    for start, end in world.limits.quiet:
        if is_within(world.minute, start, end):
            return Blocked(Gate.QUIET, "quiet hours", clock(end))
    return None


def is_within(minute: int, start: int, end: int) -> bool:
    """Tell whether a minute of the day is in [start, end)."""
    if start <= end:
        return start <= minute < end
    return minute >= start or minute < end


def clock(minute: int) -> str:
    """Write a minute of the day as 22:00."""
    return f"{minute // 60:02}:{minute % 60:02}"
