"""`supervisor show`: a job's story, with the next command."""

import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from supervisor.cli.output import page, plain, print_json, short
from supervisor.settings.place import find_home
from supervisor.told.story import story
from supervisor.told.stuck import call_path, raised_at, stuck_at
from supervisor.told.units import count, duration, limit

SHOWN = 12
"""Attempts on the screen, the last ones; all are in --json."""


def show_command(*, home: str | None, as_json: bool, job: int) -> int:
    """Print the story."""
    facts = story(find_home(home), job)
    if as_json:
        print_json(facts)
    else:
        print("\n".join(screen(facts)))
    return 0


def screen(job: dict[str, Any]) -> Iterator[str]:
    """Yield the lines of the screen."""
    payload = short(json.dumps(job["payload"], ensure_ascii=False), 60)
    yield f"#{job['id']} {plain(job['kind'])} {payload}   {headline(job)}"
    yield f"landed   {landed(job)}"
    if attempts := job["attempts"]:
        yield from page([attempt_row(one) for one in attempts[-SHOWN:]], indent="  ")
        yield from last_words(job["id"], attempts[-1])
    if job["result"] is not None:
        yield f"result   {short(json.dumps(job['result'], ensure_ascii=False), 300)}"
    yield from (f"waits    {wait_line(one)}" for one in job["waits"])
    if next_step := advice(job):
        yield f"next     {next_step}"


def headline(job: dict[str, Any]) -> str:
    """Say the state and why: loud when it failed."""
    state = str(job["state"]).upper() if job["state"] == "failed" else job["state"]
    reason = "" if job["reason"] in {None, job["state"]} else f": {short(job['reason'], 160)}"
    tries = f", attempt {len(job['attempts'])} of {job['max_attempts']}" if job["state"] == "failed" else ""
    return f"{state}{reason}{tries}"


def landed(job: dict[str, Any]) -> str:
    """Say what has landed, and how far that is."""
    rows, batches = job["landed"]["rows"], job["landed"]["batches"]
    done, total = job["progress"]["done"], job["progress"]["total"]
    far = f"; {done or 0:,} of {total:,}" if total else ""
    mark = job["landed"]["mark"]
    return f"{count(rows, 'row')}, {count(batches, 'batch')}{far}" + (
        f"; up to {short(mark, 60)!r}" if mark else ""
    )


def attempt_row(attempt: dict[str, Any]) -> tuple[str, ...]:
    """Return the cells of one attempt: number, when, how long, how it ended."""
    start, end = attempt["started_at"] or attempt["claimed_at"], attempt["finished_at"]
    took = duration((moment(end) - moment(start)).total_seconds()) if end else ""
    return str(attempt["number"]), f"{moment(start).astimezone():%H:%M:%S}", took, how_it_ended(attempt)


def moment(text: str) -> datetime:
    """Read a time of the story."""
    return datetime.fromisoformat(text)


def how_it_ended(attempt: dict[str, Any]) -> str:
    """Say an attempt's end in a few words."""
    if attempt["outcome"] is None:
        return "under way"
    error = attempt["error"] or {}
    words = ": ".join(filter(None, (error.get("type"), error.get("message"))))
    name = "killed" if attempt["kill"] and attempt["outcome"] == "timed_out" else attempt["outcome"]
    return f"{name}: {short(words, 160)}" if words else str(name)


def last_words(job: int, attempt: dict[str, Any]) -> Iterator[str]:
    """Yield what the last attempt left: its kill, where it was stuck, its traceback's end, its log's end."""
    if kill := attempt["kill"]:
        yield f"kill     {kill_line(kill)}"
        if frames := stuck_at(kill.get("stack") or ""):
            yield f"stuck in {plain(call_path(frames))}"
    elif frames := raised_at((attempt["error"] or {}).get("traceback") or ""):
        yield f"raised at {plain(call_path(frames))}"
    if lines := attempt["log"].strip().splitlines():
        yield f'log      "{short(lines[-1], 100)}" (last of {len(lines)} lines: supervisor logs {job})'


def kill_line(kill: dict[str, Any]) -> str:
    """Say how a kill went: the limit, the grace, how late the end was, who survived."""
    limits = limit(kill["deadline_s"]) if kill.get("deadline_s") is not None else str(kill.get("reason"))
    survivors = kill.get("survivors") or []
    left = "0 survivors" if not survivors else f"SURVIVED by {', '.join(f'pid {pid}' for pid in survivors)}"
    gone = duration(kill["took_ms"] / 1000)
    return f"{limits}, gone {gone} later (grace {limit(kill['grace_s'])}); {left}"


def wait_line(wait: dict[str, Any]) -> str:
    """Say one reason, and until when."""
    until = f", until {moment(wait['until']).astimezone():%H:%M:%S}" if wait["until"] else ""
    return f"{short(wait['reason'], 100)}{until}"


def advice(job: dict[str, Any]) -> str:
    """Name the command that helps now, or ""."""
    reasons = {wait["reason"] for wait in job["waits"]}
    if "no_supervisor" in reasons:
        return "supervisor run"
    return f"supervisor logs {job['id']}" if job["state"] == "failed" else ""
