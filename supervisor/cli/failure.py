"""The last attempt of a job on the screen of `show`: its whole message, its place, its log's end."""

from collections.abc import Iterator
from typing import Any, Final

from supervisor.cli import hints
from supervisor.cli.output import one_line, plain, short
from supervisor.told.kills import is_kill, is_stop, survivors, where
from supervisor.told.stuck import call_path, excerpt, raised_at
from supervisor.told.units import count, duration, limit

INDENT: Final = " " * 9
ROW: Final = 100
"""Characters of an error in an attempt's row and in the headline."""
MESSAGE_LINES: Final = 20
MESSAGE_LINE: Final = 1000


def last_words(job: int, attempt: dict[str, Any], *, full: bool) -> Iterator[str]:
    """Yield what an attempt left; one under way has left nothing yet.

    Args:
        job: its job's id, for the commands that are named.
        attempt: one of the story's attempts.
        full: with the whole traceback, stack and log tail.
    """
    yield from message(attempt["error"])
    if is_kill(attempt["outcome"], attempt["kill"]):
        yield from killed(attempt["kill"], full=full)
    else:
        yield from failed(attempt, full=full)
    if left := survivors(attempt["kill"]):
        yield f"alive    survivors: {left}"
    yield from log(job, attempt["log"] or "", full=full)


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
    return ": ".join(filter(None, ((error or {}).get("type"), (error or {}).get("message")))).strip()


def killed(kill: dict[str, Any], *, full: bool) -> Iterator[str]:
    """Yield how a kill went and where the child hung."""
    yield f"kill     {stop(kill) if is_stop(kill) else ladder(kill)}"
    if place := where(kill):
        yield one_line(place if place.startswith("stuck in") else f"stuck    unknown: {place}")
    if full:
        yield from block("stack", kill.get("stack") or "")


def ladder(kill: dict[str, Any]) -> str:
    """Say what a child was killed for, and how that went."""
    name = str(kill.get("reason"))
    why = name if kill.get("deadline_s") is None else f"{name} {limit(kill['deadline_s'])}"
    by = ", ended by SIGKILL" if kill.get("rung") == "kill" else ""
    return f"{why}, gone {duration(kill['took_ms'] / 1000)} later (grace {limit(kill['grace_s'])}{by})"


def stop(kill: dict[str, Any]) -> str:
    """Say that a child was killed because its run stopped, and how long it might have yielded before."""
    grace = kill.get("grace_s")
    patience = f" and it had not yielded within {limit(grace)}" if grace else ""
    return f"its run stopped{patience}, gone {duration(kill['took_ms'] / 1000)} later"


def failed(attempt: dict[str, Any], *, full: bool) -> Iterator[str]:
    """Yield where an exception was raised, with the user's own lines."""
    trace = (attempt["error"] or {}).get("traceback") or ""
    if frames := raised_at(trace):
        crashed = attempt["outcome"] == "died"
        yield one_line(f"{'died in  ' if crashed else 'raised at '}{call_path(frames)}")
    if full:
        yield from block("trace", trace)
    else:
        yield from (f"{INDENT}{short(line, 200)}" for line in excerpt(trace))


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
    kill, trace = attempt["kill"] or {}, (attempt["error"] or {}).get("traceback")
    return bool(trace or (is_kill(attempt["outcome"], kill) and kill.get("stack")))
