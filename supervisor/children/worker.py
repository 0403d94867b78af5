"""What the pool knows of one child, and whom it tells."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from ipc.child import Child
from ipc.errors import ProtocolError
from ipc.ladder import Climb
from ipc.messages import Up
from supervisor.application import Profile


class Stage(StrEnum):
    """Where a child is in its life."""

    STARTING = "starting"
    READY = "ready"
    BUSY = "busy"
    LEAVING = "leaving"
    GONE = "gone"


@dataclass(slots=True, eq=False)
class Worker:
    """A child and what the pool knows of it."""

    child: Child
    profile: Profile
    stage: Stage = Stage.STARTING
    climb: Climb | None = None
    abandoned: bool = False
    hung_up: bool = False
    complaint: str = ""
    started_at: float = 0.0
    ready_at: float = 0.0
    gone_at: float = 0.0

    @property
    def gone(self) -> bool:
        """Tell whether nothing more can come from it: reaped, or given up as unkillable."""
        return self.stage is Stage.GONE


class Listener(Protocol):
    """Who is told what busy children say and do."""

    def message(self, worker: Worker, message: Up) -> None:
        """A busy child said something."""

    def broke(self, worker: Worker, error: ProtocolError) -> None:
        """A busy child broke a rule of the wire."""

    def hung_up(self, worker: Worker) -> None:
        """A busy child closed its channel."""

    def gone(self, worker: Worker) -> None:
        """A child has been reaped, or given up."""

    def ready(self) -> None:
        """Some child became ready."""
