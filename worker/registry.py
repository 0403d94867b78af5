"""Which kinds this child can run. A kind from the wire only ever selects here (SPEC C158)."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from ipc.appspec import load_app
from ipc.errors import AppError


class Lane(Protocol):
    """What the child needs of a lane."""

    @property
    def compute(self) -> Callable[[Any, Any], Any]:
        """The compute half: `compute(job, ctx)` returns its rows, or a result."""

    @property
    def payload(self) -> type | None:
        """The type that payloads are converted to, None for plain JSON values."""

    @property
    def rows(self) -> type | None:
        """The Struct type that the half yields, None for tuples or dicts."""


def load_lanes(specs: Sequence[str]) -> dict[str, Lane]:
    """Import the applications and return their lanes by kind.

    Raises:
        AppError: one cannot be imported, is no application, or repeats a kind of another.
    """
    lanes: dict[str, Lane] = {}
    for spec in specs:
        found = getattr(load_app(spec), "lanes", None)
        if not isinstance(found, Mapping):
            raise AppError(spec, "it is no App: it has no lanes")
        if repeated := sorted(lanes.keys() & found.keys()):
            raise AppError(spec, f"kind {repeated[0]!r} is declared by another application, too")
        lanes.update(found)
    return lanes
