"""A handler as a lane without rows: what it returns is its job's result (SPEC C122, U21, U24)."""

from collections.abc import Callable
from typing import Any, Final

from ipc.endings import Skip
from supervisor.api import Handler, Lane
from worker.attempt import Answer

SKIPPED: Final = "skipped"


def lane_of(handler: Handler) -> Lane[Any, Any]:
    """Return the lane that runs a handler."""
    lane: Lane[Any, Any] = Lane(handler.kind, returning(handler.fn), handler.declared, None, handler.payload)
    lane.land = refuse
    return lane


def returning(fn: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Make of a handler a compute half whose rows, if it returns any, are its result."""

    def compute(job: Any, ctx: Any) -> Any:
        answer = fn(job, ctx)
        if declines(answer):
            raise Skip("the handler had nothing to do")
        return None if answer is None else Answer(answer)

    return compute


def declines(answer: Any) -> bool:
    """Tell whether a handler says that it had nothing to do: an exact dict whose status is "skipped"."""
    if type(answer) is not dict:  # a subclass may answer as it likes (SPEC B36)
        return False
    status = answer.get("status")
    return type(status) is str and status == SKIPPED


def refuse(_db: Any, job: Any, _rows: Any) -> None:
    """Stand in for the lander that a handler has not; nothing it does makes a batch with rows.

    Raises:
        TypeError: always, should there be rows all the same.
    """
    raise TypeError(f"handler {job.kind!r} yields no rows")
