"""What happens in a run, as sentences: the only place that turns events into words."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from supervisor.cli import hints
from supervisor.cli.output import one_line, plain, short
from supervisor.events import (
    AttemptEnded,
    BatchLanded,
    Event,
    JobStarted,
    Pruned,
    RunStarted,
    StaleBatch,
    Stopping,
    Waits,
    Warned,
)
from supervisor.told.kills import end, is_abandoned, is_kill, number, pids, where, with_survivors
from supervisor.told.units import count, duration, limit

ERROR: Final = 200
"""Characters of an error in a line; `show` has all of it."""
ADVICE: Final = 300
"""Characters of one that names a command, which must be read to its end."""


def sentence(event: Event, now: int) -> str:
    """Return one line for a person.

    Args:
        event: what happened.
        now: microseconds UTC, for "retry in 20 s".
    """
    match event:
        case RunStarted():
            return started(event)
        case JobStarted():
            again = f", attempt {event.attempt}" if event.attempt > 1 else ""
            return f"#{event.job} {plain(event.kind)} started{again}"
        case BatchLanded():
            return f"#{event.job} {plain(event.kind)}: {progress(event)}"
        case AttemptEnded():
            return f"#{event.job} {plain(event.kind)} {ended(event, now)}"
        case StaleBatch():
            return f"#{event.job} batch {event.seq} came too late and changed nothing"
        case Pruned():
            freed = f", gave {event.freed / 1e6:.1f} MB back" if event.freed else ""
            return f"pruned {count(event.jobs, 'job')} with {count(event.attempts, 'attempt')}{freed}"
        case Warned():
            return f"warning: {short(event.text, 300)}"
        case Waits():
            return waits(event)
        case Stopping():
            return stopping(event)


def started(event: RunStarted) -> str:
    """Say that a run has begun, and what the last one left."""
    workers = count(event.workers, "worker")
    up = f"laneway up: run {event.run}, pid {event.pid}, {workers}, {plain(event.app)}"
    return "; ".join([up, *recovered(event)])


def recovered(event: RunStarted) -> Iterator[str]:
    """Yield which run died, and what became of the jobs that it left in flight."""
    if not event.died and not event.recovered:
        return
    runs = " and ".join(f"run {run}" for run in event.died)
    ended = {*event.failed, *event.cancelled}
    fates = {
        "queued again": [job for job in event.recovered if job not in ended],
        "failed": event.failed,
        "cancelled": event.cancelled,
    }
    found = [f"{' '.join(f'#{job}' for job in jobs)} {fate}" for fate, jobs in fates.items() if jobs]
    yield f"{runs or 'an earlier run'} died: {', '.join(found) or 'nothing was in flight'}"


def waits(event: Waits) -> str:
    """Say what a kind waits for."""
    until = f"; until {plain(event.until)}" if event.until else ""
    return f"{plain(event.kind)} waits: {short(event.text, 200)}{until}"


def stopping(event: Stopping) -> str:
    """Say whom a stop waits for, and for how long."""
    if event.now:
        return "stopping now"
    if not event.jobs:
        return "stopping: nothing is under way"
    jobs = " ".join(f"#{job}" for job in event.jobs)
    return f"stopping: waits for {jobs}, at most {limit(round(event.patience, 1))}; again to stop now"


def progress(event: BatchLanded) -> str:
    """Say how far a job is."""
    rows = f"{count(event.rows, 'row')} landed"
    return f"{event.done or 0:,} of {event.total:,}, {rows}" if event.total else rows


def ended(event: AttemptEnded, now: int) -> str:
    """Say how an attempt ended, where it was stuck if it was killed, and what happens to its job."""
    if event.outcome == "done":
        return with_survivors(f"done: {count(event.rows, 'row')}", event.kill)
    error = short(event.error, ADVICE if "laneway retry" in event.error else ERROR)
    what = end(event.outcome, event.kill, error)
    if is_kill(event.outcome, event.kill):
        what += killed(event.kill or {})
    return "; ".join([what, *fate(event, now)])


def killed(kill: Mapping[str, Any]) -> str:
    """Say what a kill found, and how long it took."""
    left, took = pids(kill), duration(number(kill, "took_ms") / 1000)
    how = "given up after" if is_abandoned(kill) else "not all gone after" if left else "gone in"
    found = [where(kill, 2), "0 survivors" if "ended" in kill and not left else "", f"{how} {took}"]
    return "".join(f", {one_line(one)}" for one in found if one)


def fate(event: AttemptEnded, now: int) -> list[str]:
    """Say what becomes of the job."""
    match event.state:
        case "pending" if event.wake_at is not None:
            return [f"retry in {duration(max(0, event.wake_at - now) / 1e6)}"]
        case "queued":
            return ["queued again"]
        case "failed":
            return [f"FAILED: {hints.command(f'show {event.job}')}"]
        case "failed_optional":
            return [f"failed (optional): {hints.command(f'show {event.job}')}"]
        case _:
            return []
