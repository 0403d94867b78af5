"""How many jobs a run has brought to their end: jobs, not attempts, each as it ended last."""

from typing import Final

from policies.job import State
from supervisor.events import AttemptEnded

MOST: Final = 10_000
"""Failed jobs that are known by their ids; what is retried after so many others counts anew."""


class Tally:
    """Counts jobs. `failed` leaves out those whose failure is `optional`."""

    def __init__(self) -> None:
        self.done = self.failed = self.optional = 0
        self._failed: dict[int, str] = {}

    def add(self, event: AttemptEnded) -> None:
        """Count the end of an attempt, if its job has ended with it; a job that failed before did not."""
        self._count(self._failed.pop(event.job, ""), -1)
        self._count(event.state, 1)
        if event.state in {State.FAILED, State.FAILED_OPTIONAL}:
            self._failed[event.job] = event.state
            if len(self._failed) > MOST:
                del self._failed[next(iter(self._failed))]

    def _count(self, state: str, by: int) -> None:
        self.done += by * (state == State.DONE)
        self.failed += by * (state == State.FAILED)
        self.optional += by * (state == State.FAILED_OPTIONAL)

    def __str__(self) -> str:
        optional = f", {self.optional:,} failed (optional)" if self.optional else ""
        return f"{self.done:,} done, {self.failed:,} failed{optional}"
