"""Room within a kind: no more of its jobs at once than it allows."""

from policies.gates.vocabulary import Blocked, Gate, Rule, World


def max_running(rule: Rule, world: World) -> Blocked | None:
    """Block a kind of which as many jobs are in flight as may be."""
    if not rule.max_running or sum(job.kind == rule.kind for job in world.in_flight) < rule.max_running:
        return None
    return Blocked(Gate.MAX_RUNNING, f"max_running {rule.max_running} reached", "one of them ends")
