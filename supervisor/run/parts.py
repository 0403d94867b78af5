"""What a run is made of before its first turn, and whom it tells."""

from collections.abc import Mapping
from dataclasses import dataclass

from ipc.doorbell import Doorbell
from policies.job import ENDED
from supervisor import events
from supervisor.lock import SupervisorLock
from supervisor.loop import Loop
from supervisor.probes.watch import Probe
from supervisor.run.desk import Desk


@dataclass(slots=True)
class Awaited:
    """The jobs that a run is for (`left` of them; None: for all there are), told what everybody is told."""

    tell: events.Report
    left: set[int] | None

    def report(self, event: events.Event) -> None:
        """Note which jobs end, and pass the event on."""
        if self.left is not None and isinstance(event, events.AttemptEnded) and event.state in ENDED:
            self.left.discard(event.job)
        self.tell(event)


@dataclass(frozen=True, slots=True)
class Parts:
    """What a run is made of before its first turn."""

    loop: Loop
    bell: Doorbell
    desk: Desk
    lock: SupervisorLock
    awaited: Awaited
    probes: Mapping[str, Probe]

    def report(self, event: events.Event) -> None:
        """Tell whoever watches the run."""
        self.awaited.report(event)
