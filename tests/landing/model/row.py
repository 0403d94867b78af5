"""One row of the plain model: what it waits for, what it has landed, and where its attempts take it."""

import json
from dataclasses import dataclass, field

from policies.job import ENDED, IN_FLIGHT, MICROS, State
from policies.options import Options

KINDS = {
    "embed": Options(),
    "scan": Options(priority=100),
    "fragile": Options(retry_safe=False),
    "once": Options(max_attempts=1),
    "anew": Options(resume="restart", max_attempts=2),
    "merge": Options(unique="waiting"),
    "ever": Options(unique="forever", priority=10),
    "single": Options(exclusive_by="who"),
    "heavy": Options(tier="big", priority=95),
}
WINDOWS = {"big": 8192, "small": 0}
CAN_DISCARD = frozenset({"embed", "anew"})
MODES = {"replay": ("replay", True), "restart": ("restart", True), "bare": ("restart", False)}
"""What a lane of CAN_DISCARD can be edited to: how it resumes, and whether it still has a discard."""

LEASE = 60 * MICROS
RETRIABLE = frozenset({State.FAILED, State.FAILED_OPTIONAL, State.CANCELLED})


@dataclass(frozen=True)
class Lane:
    """What a kind is declared to be: each attempt starts over, and earlier rows can be removed."""

    restarts: bool
    discards: bool


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

    `since` is when it began to wait, `fresh` how many rows have landed since it was last told to start
    over, `watch` what a row waits for that may not run, `watch_key` what belongs to that.
    """

    kind: str
    priority: int
    tag: str | None
    since: int
    payload: str = "{}"
    key: str | None = None
    tier: str = ""
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
    watch: str | None = None
    watch_key: str | None = None
    deferrals: int = 0
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

    @property
    def window(self) -> int:
        return WINDOWS.get(self.tier, 0)

    @property
    def exclusive(self) -> str | None:
        """What it may not run beside."""
        who = json.loads(self.payload).get("who") if self.options.exclusive_by else None
        return f'{self.kind} "{who}"' if who else None

    @property
    def counted(self) -> int:
        """From when its backoff is counted."""
        return int(self.watch_key) if self.watch_key else self.attempts[-1].at

    def claim(self, run: int, fence: str, now: int, lane: Lane) -> None:
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
        self.state, self.reason, self.wake = state, reason, wake
        self.watch = reason if reason in {"backoff", "deferred"} else None
        self.watch_key = None
        self.deferrals += reason == "deferred"
        self.fence = self.lease = None
        self.cancel_asked = False
        self.ended = now if state in ENDED else None
        self.attempts[-1].outcome, self.attempts[-1].at = outcome, now

    def move(self, state: str, reason: str | None, ended: int | None) -> None:
        """Move a row that is not in flight; whatever it waited for is no matter any more."""
        self.state, self.reason, self.ended = state, reason, ended
        self.wake = self.watch = self.watch_key = None

    def await_(self, watch: str, watch_key: str | None, wake: int | None = None) -> None:
        """Have it wait for something of its own."""
        self.state, self.reason, self.watch, self.watch_key = State.PENDING, watch, watch, watch_key
        self.wake = wake


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
