"""What the store ought to be, in plain Python: no SQL, no transactions, no code of the store's.

A machine (`tests.landing.model.machine`) takes the same random steps here and on a real store.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from policies.job import ENDED, IN_FLIGHT, MICROS, WAITING, State
from policies.options import Options
from policies.priority import effective_priority

KINDS = {
    "embed": Options(),
    "scan": Options(priority=100),
    "fragile": Options(retry_safe=False),
    "once": Options(max_attempts=1),
    "anew": Options(resume="restart", max_attempts=2),
}
CAN_DISCARD = frozenset({"embed", "anew"})
MODES = {"replay": ("replay", True), "restart": ("restart", True), "bare": ("restart", False)}
"""What a lane of CAN_DISCARD can be edited to: how it resumes, and whether it still has a discard."""

LEASE = 60 * MICROS
RETRIABLE = frozenset({State.FAILED, State.FAILED_OPTIONAL, State.CANCELLED})


@dataclass
class Attempt:
    """One claim; `outcome` and `at` come with its receipt.

    `starts_over`: it has landed no row yet, and those of earlier attempts go with its first.
    """

    run: int
    landed_before: int
    starts_over: bool
    outcome: str | None = None
    at: int = 0


@dataclass
class Job:
    """One row, what it has landed, and its history.

    `since` is when it began to wait, `counted` from when its backoff is counted, `fresh` how many rows
    have landed since it was last told to start over.
    """

    kind: str
    priority: int
    tag: str | None
    since: int
    state: str = State.QUEUED
    reason: str | None = None
    failures: int = 0
    fence: str | None = None
    lease: int | None = None
    cancel_asked: bool = False
    seq: int = 0
    count: int = 0
    fresh: int = 0
    mark: str | None = None
    done: int | None = None
    discards: bool = False
    wake: int | None = None
    backs_off: bool = False
    counted: int = 0
    awake: int = 0
    ended: int | None = None
    result: str | None = None
    rows: list[tuple[int, str]] = field(default_factory=list)
    attempts: list[Attempt] = field(default_factory=list)
    events: list[str] = field(default_factory=list)

    @property
    def in_flight(self) -> bool:
        return self.state in IN_FLIGHT

    @property
    def options(self) -> Options:
        return KINDS[self.kind]

    def claim(self, run: int, fence: str, now: int, lane: "Lane") -> None:
        self.state, self.reason, self.fence, self.lease = State.LEASED, None, fence, now + LEASE
        due = self.discards or (lane.restarts and self.count > 0)
        self.attempts.append(Attempt(run, self.seq, lane.discards and due))

    def accepts(self, fence: str, seq: int) -> bool:
        return self.state == State.RUNNING and self.fence == fence and self.seq + 1 == seq

    def discard(self) -> None:
        self.rows, self.count, self.fresh, self.discards = [], 0, 0, False
        self.attempts[-1].starts_over = False

    def land(self, rows: list[tuple[int, str]], mark: str | None, done: int | None, now: int) -> None:
        """Take a batch in; without rows it is at most a new beginning, for rows that come later."""
        if self.attempts[-1].starts_over:
            if rows:
                self.discard()
            else:
                self.discards, self.fresh = True, 0
        elif rows:
            self.discards = False
        self.seq, self.count, self.rows = self.seq + 1, self.count + len(rows), self.rows + rows
        self.fresh += len(rows)
        self.mark, self.lease = mark, now + LEASE
        self.done = self.done if done is None else done

    def leave(self, state: str, reason: str, outcome: str, now: int, wake: int | None = None) -> None:
        """End the attempt: its one receipt, and where the row goes."""
        self.state, self.reason, self.wake, self.backs_off = state, reason, wake, reason == "backoff"
        self.fence = self.lease = None
        self.cancel_asked = False
        self.ended = now if state in ENDED else None
        self.attempts[-1].outcome, self.attempts[-1].at = outcome, now
        self.counted = now

    def move(self, state: str, reason: str | None, ended: int | None) -> None:
        """Move a row that is not in flight; whatever it waited for is no matter any more."""
        self.state, self.reason, self.ended, self.wake, self.backs_off = state, reason, ended, None, False


def end_of(job: Job, end: str, now: int) -> tuple[str, str, int | None, bool]:
    """Say where an attempt that ends so takes its job: state, reason, wake, whether it counts."""
    started = job.state == State.RUNNING
    match end:
        case "done" | "skipped":
            return State.DONE, end, None, False
        case "cancelled":
            return State.CANCELLED, end, None, False
        case "yielded":
            return State.QUEUED, end, None, False
        case "deferred":
            return State.DEFERRED, end, now + 300 * MICROS, False
        case "interrupted" if started and not job.options.retry_safe:
            return State.FAILED, "not_retry_safe", None, False
        case "interrupted":
            return State.QUEUED, end, None, False
        case "failed":
            return State.FAILED, end, None, True
        case "optional":
            return State.FAILED_OPTIONAL, "failed_optional", None, True
        case "died" | "timed_out" | "memory" if started and not job.options.retry_safe:
            return State.FAILED, "not_retry_safe", None, True
    if job.failures + 1 >= job.options.max_attempts:
        return State.FAILED, "attempts_exhausted", None, True
    wait = 40.0 if end == "retry in 40 s" else min(3600.0, 5.0 * 2**job.failures)
    return State.PENDING, "backoff", now + int(wait * MICROS), True


def orphan_end(job: Job) -> tuple[str, str, bool]:
    """Say where the death of its supervisor takes a job: state, reason, whether it counts."""
    last = job.attempts[-1]
    started = job.state == State.RUNNING
    counts = started and job.seq == last.landed_before
    if job.cancel_asked:
        return State.CANCELLED, "cancelled", False
    cap = counts and job.failures + 1 >= job.options.max_attempts
    if cap or (started and not job.options.retry_safe):
        return State.FAILED, f"orphaned by unclean exit of run #{last.run}", counts
    return State.QUEUED, "orphaned", counts


@dataclass
class Run:
    """One life of a supervisor; `clean` is 1 when it stopped as it should, 2 when it was found dead."""

    clean: int = 0
    stopped: int | None = None
    stale: int = 0


@dataclass(frozen=True)
class Lane:
    """What a kind is declared to be: each attempt starts over, and earlier rows can be removed."""

    restarts: bool
    discards: bool


class Plain:
    """All jobs and runs, the events of no job as (at, run, name), and rows whose jobs have been pruned."""

    def __init__(self, began: int) -> None:
        self.jobs: dict[int, Job] = {}
        self.runs: dict[int, Run] = {1: Run()}
        self.journal: list[tuple[int, int | None, str]] = [(began, None, "migrated")]
        self.outlived: list[tuple[int, int, str]] = []
        self.lanes = {
            kind: Lane(options.resume == "restart", kind in CAN_DISCARD) for kind, options in KINDS.items()
        }

    def wake(self, now: int) -> None:
        for job in self.jobs.values():
            if job.wake is not None and job.wake <= now:
                job.move(State.QUEUED, None, None)

    def next_in_line(self, ready: frozenset[str], now: int) -> int | None:
        queued = [
            (effective_priority(job.priority, job.since, now), job.since, id)
            for id, job in self.jobs.items()
            if job.state == State.QUEUED and job.kind in ready
        ]
        return min(queued)[2] if queued else None

    def next_wake(self) -> int | None:
        return min((job.wake for job in self.jobs.values() if job.wake is not None), default=None)

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
        late = [
            job
            for job in self.jobs.values()
            if job.backs_off and job.wake is not None and min(job.wake, job.counted) > now
        ]
        for job in late:
            job.wake, job.counted = now + max(0, (job.wake or 0) - job.counted), now
        return len(late)

    def shift_waits(self, run: int, by: int, since: int, now: int) -> int:
        """Move the backoffs that began before the clock was set; return how many."""
        moved = 0
        for job in self.jobs.values():
            fresh = any(one.outcome is not None and since <= one.at <= now for one in job.attempts)
            if job.backs_off and job.wake is not None and not fresh:
                job.wake, job.counted = max(0, job.wake + by), now
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
