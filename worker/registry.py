"""Which kinds this child can run. A kind from the wire only ever selects here (SPEC C158)."""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from ipc.appspec import load_app
from ipc.errors import AppError
from ipc.sources import folders_of, note, pack


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


class Loaded(NamedTuple):
    """The lanes of the applications by kind, and the files that they come from as `Ready` tells them."""

    lanes: Mapping[str, Lane]
    sources: bytes = b""


def load_lanes(specs: Sequence[str]) -> Loaded:
    """Import the applications and return what they declare.

    Raises:
        AppError: one cannot be imported, is no application, or repeats a kind of another.
    """
    lanes: dict[str, Lane] = {}
    folders = folders_of(specs, working_folder())
    for spec in specs:
        found = getattr(load_app(spec), "lanes", None)
        if not isinstance(found, Mapping):
            raise AppError(spec, "it is no App: it has no lanes")
        if repeated := sorted(lanes.keys() & found.keys()):
            raise AppError(spec, f"kind {repeated[0]!r} is declared by another application, too")
        lanes.update(found)
    return Loaded(lanes, pack(note(folders)))  # at once: the longer it takes, the more may have changed


def working_folder() -> str:
    """Return where this process was started to work, before an application goes elsewhere."""
    try:
        return os.getcwd()
    except OSError as error:
        raise AppError("the working folder", str(error.strerror)) from None
