"""What the record of a kill says to people: where it was stuck, what it took, who is left.

A receipt also records the ladder when a child was stopped for a failure of its own (its lander
raised, it broke the wire's rules); that is told as the failure, never as a kill.
"""

from collections.abc import Mapping
from typing import Any, Final

from policies.job import Outcome
from supervisor.told.stuck import call_path, stuck_at
from supervisor.told.units import limit

KILLED: Final = frozenset({"timed_out", "memory", "cancelled", "interrupted"})


def is_kill(outcome: str, kill: Mapping[str, Any] | None) -> bool:
    """Tell whether an attempt ended because it was killed, not by a failure of its own."""
    return bool(kill) and outcome in KILLED


def is_stop(kill: Mapping[str, Any]) -> bool:
    """Tell whether it was killed because its run stopped; its grace is then the time that it had to yield."""
    return kill.get("reason") == Outcome.INTERRUPTED


def where(kill: Mapping[str, Any], most: int = 4) -> str:
    """Say where it hung, or why nobody knows; "" when it had no frame and went when it was asked to."""
    if frames := stuck_at(kill.get("stack") or ""):
        return f"stuck in {call_path(frames, most)}"
    grace = kill.get("grace_s") or 0
    if kill.get("rung") == "kill" and grace and not is_stop(kill):
        return f"ignored SIGTERM, ended by SIGKILL after its grace of {limit(grace)}"
    return ""


def survivors(kill: Mapping[str, Any] | None) -> str:
    """Name the processes that could not be ended, "" when there are none."""
    return ", ".join(f"pid {pid}" for pid in (kill or {}).get("survivors") or ())
