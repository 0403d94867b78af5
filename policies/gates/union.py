"""All gates together: the one place where they are joined (SPEC C131, U27)."""

from typing import Final

from policies.gates.held import held
from policies.gates.memory import memory
from policies.gates.model import model
from policies.gates.power import power, power_floor
from policies.gates.presence import presence
from policies.gates.quiet import quiet
from policies.gates.running import max_running
from policies.gates.vocabulary import Blocked, Gate, Rule, World
from policies.readings import NO_PROBE

UNION: Final = (held, presence, power, memory, quiet, model, max_running)

CAN_YIELD: Final = frozenset({Gate.HELD, Gate.PRESENCE, Gate.POWER, Gate.QUIET})
"""The gates that may have a running job give its slot back; the others close because of what runs."""


def blockers(rule: Rule, world: World) -> tuple[Blocked, ...]:
    """Return every reason for which no job of the kind may start now."""
    return tuple(filter(None, (gate(rule, world) for gate in UNION)))


def total_hold(world: World) -> Blocked | None:
    """Say why nothing at all may start: asked before anything is claimed (SPEC C132)."""
    return power_floor(world.readings.power, world.limits)


def should_yield(rule: Rule, world: World) -> Blocked | None:
    """Say why a job in flight of the kind should give its slot back now, None where it should not.

    A reading that nobody has taken yet closes a gate to those who wait, not to those who run.
    """
    if not rule.yields:
        return None
    closed = (one for one in blockers(rule, world) if one.gate in CAN_YIELD)
    return next((one for one in closed if NO_PROBE not in one.text), None)
