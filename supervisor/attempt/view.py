"""The job as a lander sees it."""

from dataclasses import dataclass
from typing import Any

import msgspec

from landing.jobs import Claimed
from policies.job import Resume
from supervisor.api import Lane


@dataclass(frozen=True, slots=True)
class JobView:
    """See `supervisor.api.Job`."""

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
