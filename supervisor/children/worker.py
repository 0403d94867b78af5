"""What the pool knows of one child, and whom it tells."""

from dataclasses import dataclass, field
from enum import StrEnum
from errno import EMFILE
from typing import Protocol

from ipc.child import Child
from ipc.errors import ProtocolError
from ipc.ladder import Climb
from ipc.messages import Up
from policies.options import Options
from supervisor.application import Profile
from supervisor.children.sight import Sight
from supervisor.inproc.thread import ThreadKeeper


class Stage(StrEnum):
    """Where a child is in its life."""

    STARTING = "starting"
    READY = "ready"
    BUSY = "busy"
    RESTING = "resting"
    LEAVING = "leaving"
    GONE = "gone"


@dataclass(slots=True, eq=False)
class Worker:
    """A child and what the pool knows of it; times are monotonic seconds.

    Attributes:
        child: the process.
        profile: the world that it was started for.
        sight: what it sees behind a shield, None for all that there is.
        stage: where it is in its life.
        climb: the kill under way, None for none.
        abandoned: it, or something that it started, cannot be ended.
        lost: its guardian is no more, so nobody knows how it ended.
        hung_up: it closed its channel while it worked.
        said_ready: it has loaded the application.
        complaint: why it could not be started, "" for nothing said.
        jobs: how many it has finished.
        options: the limits of the kind of its last job.
        may_stay: it is to be given another.
        rss_first: GiB that it held after the first.
    """

    child: Child
    profile: Profile
    sight: Sight | None = None
    stage: Stage = Stage.STARTING
    climb: Climb | None = None
    abandoned: bool = False
    lost: bool = False
    hung_up: bool = False
    said_ready: bool = False
    complaint: str = ""
    jobs: int = 0
    options: Options = field(default_factory=Options)
    may_stay: bool = False
    rss_first: float = 0.0
    started_at: float = 0.0
    ready_at: float = 0.0
    rests_since: float = 0.0
    gone_at: float = 0.0

    @property
    def is_ready(self) -> bool:
        """Tell whether it can be given a job; one that is being stopped cannot."""
        return self.stage is Stage.READY and self.climb is None

    @property
    def is_warm(self) -> bool:
        """Tell whether it may hold the model of its tier: a job that uses one loads it."""
        return bool(self.profile.model) and (self.jobs > 0 or self.stage is Stage.BUSY)

    def is_blind(self, since: float) -> bool:
        """Tell whether something is closed to it only because it is older than that; `since` is monotonic."""
        return self.started_at < since and self.sight is not None and self.sight.has_aged()

    @property
    def gone(self) -> bool:
        """Tell whether nothing more can come from it: reaped, or given up as unkillable."""
        return self.stage is Stage.GONE


def thread_left(worker: Worker) -> int | None:
    """Return the id of a thread that did not leave, and is not waited for any more; None for all others."""
    keeper = worker.child.keeper
    return keeper.thread_id if isinstance(keeper, ThreadKeeper) and keeper.left_behind else None


def release_keeper(worker: Worker) -> None:
    """Leave the keeper of a child that is over to others, unless it, or its template, can open nothing more.

    A job may have seen to that; another one can.
    """
    worker.child.keeper.free = worker.child.errno != EMFILE
    if not worker.child.keeper.free:
        worker.child.keeper.put_down()


def end_of(worker: Worker) -> str:
    """Say why a child did no work: what is known, or its end; what we have killed did not end by itself."""
    if worker.complaint:
        return worker.complaint
    if worker.climb is not None and worker.climb.last is not None:
        return "the child closed its channel, and did not leave"
    return f"the child ended too soon: {worker.child.exit}"


class Listener(Protocol):
    """Who is told what busy children say and do."""

    def message(self, worker: Worker, message: Up) -> None:
        """A busy child said something."""

    def broke(self, worker: Worker, error: ProtocolError) -> None:
        """A busy child broke a rule of the wire."""

    def hung_up(self, worker: Worker) -> None:
        """A busy child closed its channel."""

    def crossed(self, worker: Worker) -> None:
        """A busy child, with all that it started, holds more than it may."""

    def rested(self, worker: Worker) -> None:
        """A child that has finished its job may be given another once that is settled."""

    def gone(self, worker: Worker) -> None:
        """A child has been reaped, or given up."""

    def ready(self) -> None:
        """Some child became ready."""
