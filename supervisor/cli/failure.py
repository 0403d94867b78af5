"""The last attempt of a job on the screen of `show`: its whole message, its place, its log's end."""

from collections.abc import Iterator
from typing import Any, Final

from policies.job import Outcome
from supervisor.cli import hints
from supervisor.cli.output import one_line, plain, short
from supervisor.told import world
from supervisor.told.kills import (
    DIED,
    WHY_ALIVE,
    by_force,
    cause,
    is_abandoned,
    is_deadline,
    is_kill,
    is_stop,
    number,
    pids,
    survivors,
    tally,
    text,
    where,
)
from supervisor.told.stuck import call_path, excerpt, raised_at
from supervisor.told.units import count, duration, limit

INDENT: Final = " " * 9
ROW: Final = 100
"""Characters of an error in an attempt's row and in the headline."""
MESSAGE_LINES: Final = 20
MESSAGE_LINE: Final = 1000
WORLD: Final = 300
"""Characters of the line about an attempt's world."""
BLAMELESS: Final = frozenset({Outcome.DONE, Outcome.SKIPPED, Outcome.YIELDED, Outcome.INTERRUPTED})


def last_words(job: int, attempt: dict[str, Any], *, full: bool) -> Iterator[str]:
    """Yield what an attempt left; one under way has left nothing yet.

    Args:
        job: its job's id, for the commands that are named.
        attempt: one of the story's attempts.
        full: with the whole traceback, stack and log tail.
    """
    yield from surroundings(attempt)
    yield from message(attempt["error"])
    if is_kill(attempt["outcome"], attempt["kill"]):
        yield from killed(attempt, full=full)
    else:
        yield from failed(attempt, full=full)
    if left := survivors(attempt["kill"]):
        yield f"alive    {left} ({WHY_ALIVE})"
    yield from log(job, attempt["log"] or "", full=full)


def surroundings(attempt: dict[str, Any]) -> Iterator[str]:
    """Yield what was on, where it is worth a line: something went wrong, or something was asked for."""
    found = attempt["world"] or {}
    if attempt["outcome"] in BLAMELESS and world.is_plain(found):
        return
    if words := world.in_words(found):
        yield f"world    {short(words, WORLD)}"


def message(error: dict[str, Any] | None) -> Iterator[str]:
    """Yield an error's whole message, as far as the receipt has it, where the attempt's row has cut it."""
    words = error_words(error)
    lines = words.splitlines() if short(words, ROW) != words else []
    for n, line in enumerate(lines[:MESSAGE_LINES]):
        yield (INDENT if n else "error    ") + short(line, MESSAGE_LINE)
    if len(lines) > MESSAGE_LINES:
        yield f"{INDENT}… {count(len(lines) - MESSAGE_LINES, 'more line')} (--json has them)"


def error_words(error: dict[str, Any] | None) -> str:
    """Return an error's type and message."""
    parts = [(error or {}).get(name) for name in ("type", "message")]
    return ": ".join(str(part) for part in parts if part).strip()


def killed(attempt: dict[str, Any], *, full: bool) -> Iterator[str]:
    """Yield how a kill went and where the child hung."""
    kill, around = attempt["kill"], attempt["world"]
    how = stop(kill) if is_stop(kill) else ladder(kill, cause(kill, world.limits(around)))
    counted = tally(kill) if world.is_whole_tree(around) else ""
    yield one_line("; ".join(filter(None, (f"kill     {how}", counted))))
    if place := where(kill):
        yield one_line(place if place.startswith("stuck in") else f"stuck    unknown: {place}")
    if full:
        yield from block("stack", text(kill, "stack"))


def ladder(kill: dict[str, Any], why: str) -> str:
    """Say what a child was killed for, whether it took all its grace, and how much later it was gone."""
    grace, forced = number(kill, "grace_s"), by_force(kill)
    if forced and grace:
        why += f"{' +' if is_deadline(kill) else ','} {limit(grace)} grace"
    how = f", {gone(kill, 'late_ms')}"
    if not pids(kill) and not is_abandoned(kill):
        within = f", within its grace of {limit(grace)}" if grace else ""
        how += ", by SIGKILL" if forced and "abandoned" not in kill else within
    return f"{why}{how}"


def stop(kill: dict[str, Any]) -> str:
    """Say that a child was killed because its run stopped, and how long it might have yielded before."""
    grace = number(kill, "grace_s")
    patience = f" and it had not yielded within {limit(grace)}" if grace else ""
    return f"its run stopped{patience}, {gone(kill, 'took_ms')}"


def gone(kill: dict[str, Any], time: str) -> str:
    """Say when everything was gone, or that it was not."""
    took = duration(number(kill, time) / 1000)
    if is_abandoned(kill):
        return f"given up {took} later"
    return f"not all gone {took} later" if pids(kill) else f"gone {took} later"


def failed(attempt: dict[str, Any], *, full: bool) -> Iterator[str]:
    """Yield where an exception was raised, with the user's own lines."""
    trace = text(attempt["error"] or {}, "traceback")
    lines = excerpt(trace)
    if frames := raised_at(trace):
        place = call_path(frames)
        is_all = not full and len(lines) == 1 and lines[0].startswith(f"{place}   ")
        crashed = attempt["outcome"] in DIED
        yield one_line(
            f"{'died in  ' if crashed else 'raised at '}{short(lines.pop(), 200) if is_all else place}"
        )
    if full:
        yield from block("trace", trace)
    else:
        yield from (f"{INDENT}{short(line, 200)}" for line in lines)


def block(name: str, text: str) -> Iterator[str]:
    """Yield a text of many lines under its name."""
    if text.strip():
        yield name
        yield from (f"  {plain(line)}" for line in text.rstrip().splitlines())


def log(job: int, text: str, *, full: bool) -> Iterator[str]:
    """Yield the log's last line and how to read the rest, or all of it."""
    lines = text.strip().splitlines()
    if full:
        yield from block("log", text)
    elif lines:
        more = f" (last of {count(len(lines), 'line')}: {hints.command(f'logs {job}')})" if lines[1:] else ""
        yield f'log      "{short(lines[-1], 200)}"{more}'


def has_more(attempt: dict[str, Any]) -> bool:
    """Tell whether `--full` shows more of an attempt than the screen."""
    kill, trace = attempt["kill"] or {}, text(attempt["error"] or {}, "traceback")
    return bool(trace or (is_kill(attempt["outcome"], kill) and text(kill, "stack")))
