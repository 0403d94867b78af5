"""Threads that go on after their attempt, and jobs that kept the loop from turning (CONTRACTS K11)."""

from collections.abc import Mapping

from ipc.child import Keeping
from landing.claim import Claimed
from supervisor import events
from supervisor.attempt.state import Attempt
from supervisor.children.worker import Worker, thread_left


class Behind:
    """Says what threads do that they should not (supervisor.inproc.threads.Listener). Loop thread only.

    Args:
        report: told.
        attempts: those in flight, as dispatch keeps them.
    """

    def __init__(self, report: events.Report, attempts: Mapping[Worker, Attempt]) -> None:
        self._report = report
        self._attempts = attempts
        self._jobs: dict[Keeping, Claimed] = {}

    def note(self, attempt: Attempt) -> None:
        """Say that a thread does not leave, if the attempt that is over had one."""
        if thread_left(attempt.worker) is not None:
            self._jobs[attempt.worker.child.keeper] = attempt.claimed
            text = f"{called(attempt.claimed)}: its thread does not leave and was left behind"
            self._report(events.Warned("thread_stuck", f"{text}; another took its place"))

    def back(self, keeper: Keeping) -> None:
        """A thread that had been left behind has ended: nothing that it did counted."""
        if (claimed := self._jobs.pop(keeper, None)) is not None:
            text = f"{called(claimed)}: the thread that was left behind has ended"
            self._report(events.Warned("thread_back", text))

    def stalled(self, keeper: Keeping, seconds: float) -> None:
        """A thread kept the loop from turning for so long: its job is named, in its events too."""
        for worker, attempt in self._attempts.items():
            if worker.child.keeper is keeper:
                attempt.notes.append(("loop_stalled", {"seconds": round(seconds, 3)}))
                text = f"{called(attempt.claimed)} kept the supervisor from turning for {seconds:.1f} s"
                self._report(events.Warned("loop_stalled", text))


def called(claimed: Claimed) -> str:
    """Name a job for a line of warning."""
    return f"job #{claimed.job} ({claimed.kind})"
