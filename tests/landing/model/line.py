"""Who is next in the plain model: what is due, who holds whom back, who is the same as whom."""

import json
from collections.abc import Collection

from policies.job import State
from policies.priority import effective_priority
from tests.landing.model.plain import Plain
from tests.landing.model.row import KINDS


def wake(plain: Plain, now: int) -> None:
    """Queue what is due, and of those that wait for the same the first, where nobody has it or is in line."""
    for job in plain.jobs.values():
        if job.wake is not None and job.wake <= now:
            job.move(State.QUEUED, None, None)
    rivals: dict[tuple[str, str, int], list[tuple[int, int, int]]] = {}
    for id, job in plain.jobs.items():
        if job.watch == "exclusive" and job.exclusive is not None:
            rivals.setdefault((job.exclusive, job.tier, job.priority), []).append(
                (job.priority, job.since, id)
            )
    for (exclusive, tier, priority), waiting in rivals.items():
        others = [job for job in plain.jobs.values() if job.exclusive == exclusive]
        line = [job.state == State.QUEUED and (job.tier, job.priority) == (tier, priority) for job in others]
        if not any(line) and not any(job.in_flight for job in others):
            plain.jobs[min(waiting)[2]].move(State.QUEUED, None, None)


def take_next(
    plain: Plain, ready: Collection[str], shut: Collection[str], loaded: tuple[str, int] | None, now: int
) -> tuple[int | None, list[int]]:
    """Say whose turn it is, and of each kind that is not ready who would be next.

    Those wait who meet what is taken before that.
    """
    chosen, wanted = None, dict[str, int]()
    taken = {job.exclusive for job in plain.jobs.values() if job.in_flight and job.exclusive}
    for id in in_order(plain, loaded, now):
        job = plain.jobs[id]
        if job.kind in shut or job.kind in plain.holds:
            continue
        if job.exclusive in taken and chosen is not None:
            continue
        if job.exclusive in taken:
            for rival in plain.jobs.values():
                if rival.exclusive == job.exclusive and rival.state == State.QUEUED:
                    rival.await_("exclusive", job.exclusive)
            return take_next(plain, ready, shut, loaded, now)
        if job.kind not in ready:
            wanted.setdefault(job.kind, id)
        elif chosen is None:
            chosen = id
            taken |= {job.exclusive} if job.exclusive else set()
    return chosen, list(wanted.values())


def in_order(plain: Plain, loaded: tuple[str, int] | None, now: int) -> list[int]:
    """Return the first of each group of queued jobs, in claim order."""
    heads: dict[tuple[str, int, str], tuple[int, int]] = {}
    for id, job in plain.jobs.items():
        if job.state == State.QUEUED:
            group = (job.kind, job.priority, job.tier)
            heads[group] = min(heads.get(group, (job.since, id)), (job.since, id))
    order = []
    for since, id in heads.values():
        job = plain.jobs[id]
        urgency = effective_priority(job.priority, since, now)
        order.append((urgency, (job.tier, job.window) != loaded, since, id))
    return [id for *_, id in sorted(order)]


def next_wake(plain: Plain, *states: str) -> int | None:
    """Say when the next of those in these states wakes, of all where none is named."""
    waiting = (job for job in plain.jobs.values() if not states or job.state in states)
    return min((job.wake for job in waiting if job.wake is not None), default=None)


def same_as(plain: Plain, kind: str, payload: str, key: str | None, tier: str) -> int | None:
    """Return the job that a request meets: by its content for ever, by its text or key while it waits."""
    unique = KINDS[kind].unique
    for id, job in sorted(plain.jobs.items()):
        if (job.kind, job.key, job.tier) != (kind, key, tier):
            continue
        if unique == "forever" and json.loads(job.payload) == json.loads(payload):
            return id
        begun = job.state not in {State.PENDING, State.QUEUED} or job.seq or job.mark is not None
        by_text = key is None and unique == "waiting" and job.payload == payload
        if unique != "forever" and not begun and (key is not None or by_text):
            return id
    return None
