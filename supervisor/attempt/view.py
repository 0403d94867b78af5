"""The job as a lander sees it, and where a new attempt begins."""

from dataclasses import dataclass
from typing import Any

import msgspec

from landing.batches import Discard
from landing.claim import Claimed
from policies.job import Resume
from supervisor.api import Lane


@dataclass(frozen=True, slots=True)
class JobView:
    """See `supervisor.halves.Job`."""

    id: int
    kind: str
    payload: Any
    key: str | None
    attempt: int


def view_of(claimed: Claimed, lane: Lane[Any, Any]) -> JobView:
    """Return the claimed job with its payload in the lane's type.

    A payload that does not fit the type stays plain: the child refuses it before it yields
    anything. What is no JSON at all, in a store that somebody edited, becomes None.
    """
    payload = decoded(claimed.payload, lane.payload or Any)
    return JobView(claimed.job, claimed.kind, payload, claimed.key, claimed.number)


def decoded(text: Any, wanted: Any) -> Any:
    """Decode JSON text as `wanted`, else as plain values, else as None; the type may run the user's code."""
    for kind in (wanted, Any):
        try:
            return msgspec.json.decode(text, type=kind)
        except Exception:  # noqa: BLE001, S112 - see above
            continue
    return None


def point_for(resume: str, attempt_point: tuple[str | None, int, bytes]) -> tuple[str | None, int, bytes]:
    """Return the resume point a new attempt gets: a `restart` lane starts over (CONTRACTS K4)."""
    return (None, 0, b"") if resume == Resume.RESTART else attempt_point


def discard_for(claimed: Claimed, resume: str, lane: Lane[Any, Any], view: JobView) -> Discard | None:
    """Return what removes the rows of earlier attempts when this one lands its first, None if they stay.

    A `restart` lane without a discard has a lander that may land a row again (CONTRACTS K4).
    """
    restarts = resume == Resume.RESTART
    if not (claimed.discards or (restarts and claimed.landed_rows)):
        return None
    if lane.forget is not None:
        return Discard(lane.forget, view)
    return None if restarts else Discard(missing, view)


def missing(_db: Any, job: JobView) -> None:
    """Stand in for a discard that the lane had when somebody asked for the job to start over.

    Raises:
        LookupError: always.
    """
    raise LookupError(f"lane {job.kind!r} has no discard any more, and what the job has landed must go first")
