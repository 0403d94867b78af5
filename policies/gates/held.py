"""Held: somebody said that a kind is to wait until somebody says otherwise."""

from policies.gates.vocabulary import Blocked, Gate, Rule, World


def held(rule: Rule, world: World) -> Blocked | None:
    """Block a kind that is held, with the reason that was given for it."""
    if (why := world.held.get(rule.kind)) is None:
        return None
    return Blocked(Gate.HELD, f"held: {why}" if why else "held", "unhold")
