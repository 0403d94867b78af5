"""Model in flight: while a job uses a model, no other tier's model is loaded beside it (SPEC C129)."""

from policies.gates.vocabulary import Blocked, Gate, Rule, World


def model(rule: Rule, world: World) -> Blocked | None:
    """Block a kind whose tier needs another model than one in use; pinned models are in nobody's way.

    It follows from what is in flight: a worker that crashed cannot leave it shut.
    """
    if rule.model is None or rule.pinned:
        return None
    for job in world.in_flight:
        used = world.models.get(job.tier)
        if used is not None and job.tier not in world.pinned and job.tier != rule.tier:
            return Blocked(Gate.MODEL, f"model {used} is in use by #{job.job}", f"#{job.job} ends")
    return None
