"""What the store ought to be, in plain Python: no SQL, no transactions, no code of the store's.

A machine (`tests.landing.model.jobs`) takes the same random steps here and on a real store.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from policies.job import WAITING, State
from tests.landing.model.row import CAN_DISCARD, KINDS, Job, Lane, orphan_end


@dataclass
class Run:
    """One life of a supervisor; `clean` is 1 when it stopped as it should, 2 when it was found dead."""

    clean: int = 0
    stopped: int | None = None
    stale: int = 0


class Plain:
    """All jobs and runs, the events of no job as (at, run, name), and rows whose jobs have been pruned."""

    def __init__(self, began: int) -> None:
        self.jobs: dict[int, Job] = {}
        self.runs: dict[int, Run] = {1: Run()}
        self.journal: list[tuple[int, int | None, str]] = [(began, None, "migrated")]
        self.outlived: list[tuple[int, int, str]] = []
        self.holds: dict[str, str] = {}
        self.lanes = {
            kind: Lane(options.resume == "restart", kind in CAN_DISCARD) for kind, options in KINDS.items()
        }

    def flying(self) -> dict[int, Job]:
        return {id: job for id, job in self.jobs.items() if job.in_flight}

    def waiting(self) -> dict[int, Job]:
        return {id: job for id, job in self.jobs.items() if job.state in WAITING}

    def claims(self, id: int) -> int:
        return len(self.jobs[id].attempts)

    def count_stale(self, run: int) -> None:
        if run in self.runs:  # else it has been pruned
            self.runs[run].stale += 1

    def open_run(self, run: int, now: int) -> tuple[tuple[int, ...], dict[int, str]]:
        """Begin a run; return those that died before it, and what became of each job in flight."""
        dead = tuple(id for id, one in self.runs.items() if one.clean == 0)
        for id in dead:
            self.runs[id].clean, self.runs[id].stopped = 2, now
        settled = {}
        for id, job in self.flying().items():
            state, reason, counts = orphan_end(job)
            job.failures += counts
            job.leave(state, reason, "cancelled" if job.cancel_asked else "interrupted", now)
            settled[id] = state
        self.runs[run] = Run()
        if self.clamp_waits(now):
            self.journal.append((now, run, "clock_set"))
        if dead or settled:
            self.journal.append((now, run, "recovered"))
        return dead, settled

    def clamp_waits(self, now: int) -> int:
        """Let backoffs that are counted from a time to come begin now; return how many."""
        for job in self.jobs.values():
            if job.state == State.DEFERRED and job.wake is not None:
                job.wake = min(job.wake, now)
        late = [
            job
            for job in self.jobs.values()
            if job.watch == "backoff" and job.wake is not None and min(job.wake, job.counted) > now
        ]
        for job in late:
            job.wake, job.watch_key = now + max(0, (job.wake or 0) - job.counted), str(now)
        kept = [job for job in self.jobs.values() if job.watch == "held" and int(job.watch_key or 0) > now]
        kept = [job for job in kept if job.attempts[-1].at > now]
        for job in kept:
            job.watch_key = str(now + max(0, int(job.watch_key or 0) - job.attempts[-1].at))
        return len(late) + len(kept)

    def shift_waits(self, run: int, by: int, since: int, now: int) -> int:
        """Move the waits that began before the clock was set; return how many."""
        moved = 0
        for job in self.jobs.values():
            fresh = any(one.outcome is not None and since <= one.at <= now for one in job.attempts)
            fresh |= job.wake is not None and job.watch_key is not None and since <= int(job.watch_key) <= now
            if fresh:
                continue
            if job.wake is not None:
                job.wake, job.watch_key = max(0, job.wake + by), str(now)
                moved += 1
            elif job.watch == "held" and job.watch_key:
                job.watch_key = str(max(0, int(job.watch_key) + by))
                moved += 1
        self.journal.append((now, run, "clock_set"))
        return moved

    def prunable(self, before: int, states: frozenset[State], kind: str | None, tag: str | None) -> set[int]:
        return {
            id
            for id, job in self.jobs.items()
            if job.state in states and job.ended is not None and job.ended < before
            if kind in {None, job.kind} and tag in {None, job.tag}
        }

    def prunable_runs(self, before: int) -> set[int]:
        named = {one.run for job in self.jobs.values() for one in job.attempts}
        last = max(self.runs)
        return {
            id
            for id, run in self.runs.items()
            if run.stopped is not None and run.stopped < before and id != last and id not in named
        }

    def prune(self, id: int) -> None:
        self.outlived += rows_of(id, self.jobs.pop(id))

    def rows(self) -> Iterator[tuple[int, int, str]]:
        yield from self.outlived
        for id, job in self.jobs.items():
            yield from rows_of(id, job)


def rows_of(id: int, job: Job) -> Iterator[tuple[int, int, str]]:
    """Yield what a job has landed as the application's table has it."""
    return ((id, seq, text) for seq, text in job.rows)
