"""`supervisor show`: a job's story, with the next command."""

import json
import shlex
from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

from policies.job import ENDED, Outcome, State
from supervisor.cli import hints
from supervisor.cli.failure import ROW, error_words, has_more, last_words
from supervisor.cli.output import one_line, page, plain, print_json, short
from supervisor.settings.place import find_home
from supervisor.told.kills import end
from supervisor.told.plan import Plan
from supervisor.told.remedies import REMEDIES
from supervisor.told.states import state_in_words
from supervisor.told.story import RETRIABLE, story
from supervisor.told.units import count, duration

SHOWN: Final = 12
"""Attempts on the screen, the last ones; all are in --json."""
FAILED: Final = frozenset({State.FAILED, State.FAILED_OPTIONAL})


def show_command(*, home: str | None, as_json: bool, job: int, full: bool) -> int:
    """Print the story; `full` adds the last attempt's whole traceback or stack and log tail."""
    facts = story(find_home(home), job)
    if as_json:
        print_json(facts)
    else:
        print("\n".join(screen(facts, full=full)))
    return 0


def screen(job: dict[str, Any], *, full: bool = False) -> Iterator[str]:
    """Yield the lines of the screen."""
    payload = short(json.dumps(job["payload"], ensure_ascii=False), 60)
    tag = f" [{plain(job['tag'])}]" if job["tag"] else ""
    yield f"#{job['id']} {plain(job['kind'])}{tag} {payload}   {headline(job)}"
    if place := ", ".join(in_the_queue(job)):
        yield f"queue    {place}"
    yield f"landed   {landed(job)}"
    if attempts := job["attempts"]:
        yield from page([attempt_row(one) for one in attempts[-SHOWN:]], indent="  ")
    if again := retried(job):
        yield f"retried  {again}"
    if job["plan"] is not None:
        yield f"plan     {'when retried: ' if job['state'] in ENDED else ''}{one_line(job['plan']['text'])}"
    if (last := last_finished(job)) is not None:
        yield from dated(job, last, last_words(job["id"], last, full=full))
    if job["result"] is not None:
        yield f"result   {short(json.dumps(job['result'], ensure_ascii=False), 300)}"
    yield from (f"waits    {wait_line(one)}" for one in job["waits"])
    for n, step in enumerate(advice(job, full=full)):
        yield f"{'' if n else 'next':<9}{step}"


def in_the_queue(job: dict[str, Any]) -> Iterator[str]:
    """Yield what sets its place apart: what is loaded for it, what counts as the same, what it waits for."""
    same = {"forever": "the same again: never", "waiting": "the same again: not while it waits"}
    found = [
        f"tier {job['tier']}" if job["tier"] else "",
        f"key {job['key']}" if job["key"] else "",
        same.get(job["unique"] or "", ""),
        f"alone by {job['exclusive_by']}" if job["exclusive_by"] else "",
        f"deferred {count(job['deferrals'], 'time')}" if job["deferrals"] else "",
    ]
    yield from (one_line(one) for one in found if one)


def last_finished(job: dict[str, Any]) -> dict[str, Any] | None:
    """Return the newest attempt that has a receipt."""
    return next((one for one in reversed(job["attempts"]) if one["outcome"] is not None), None)


def dated(job: dict[str, Any], last: dict[str, Any], words: Iterator[str]) -> Iterator[str]:
    """Yield what an attempt left, under its number and time where the job has gone on since."""
    lines = list(words)
    if lines and job["state"] not in ENDED:
        yield f"earlier  attempt {last['number']}, which ended at {at(last['finished_at'])}:"
    yield from lines


def headline(job: dict[str, Any]) -> str:
    """Say the state and why: loud when it failed."""
    failed = job["state"] in FAILED
    state = state_in_words(job["state"])
    return f"{state.upper()}{why(job)}{tries(job)}" if failed else f"{state}{why(job)}"


def why(job: dict[str, Any]) -> str:
    """Say the reason behind a state, which may begin with the state: "cancelled, survivors: pid 9"."""
    state, reason = job["state"], job["reason"]
    if reason in {None, state}:
        return ""
    return short(reason.removeprefix(state) if reason.startswith(f"{state}, ") else f": {reason}", ROW)


def tries(job: dict[str, Any]) -> str:
    """Say which attempt was the last one, and which of the failures that its kind may have (U5)."""
    if not job["attempts"] or job["max_attempts"] is None or not job["failures"]:
        return ""
    number, times = job["attempts"][-1]["number"], retries(job)
    own = len(since(job, times[-1])) if times else number
    most, all_failed = job["max_attempts"], own <= job["failures"]
    if times:
        return f", attempt {number} ({own if all_failed else failure(job)} of {most} since its retry)"
    return f", attempt {number} of {most}" if all_failed else f", attempt {number}, {failure(job)} of {most}"


def failure(job: dict[str, Any]) -> str:
    """Name the last failure by its number, which is not that of the attempt: some do not count."""
    return f"failure {job['failures']}"


def since(job: dict[str, Any], event: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the attempts that have begun since an event."""
    return [one for one in job["attempts"] if moment(one["claimed_at"]) >= moment(event["at"])]


def retries(job: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the events of its retries by hand."""
    return [event for event in job["events"] if event["name"] == "retried"]


def retried(job: dict[str, Any]) -> str:
    """Say when a job was queued again by hand, and from where; "" when it never was."""
    if not (times := retries(job)):
        return ""
    detail = times[-1]["detail"] or {}
    place = ", from the start" if detail.get("from_start") else ""
    kept = ", rows kept" if detail.get("keep_rows") else ""
    often = f" ({len(times)} times in all)" if times[1:] else ""
    return f"{at(times[-1]['at'])}{place}{kept}{often}"


def landed(job: dict[str, Any]) -> str:
    """Say what has landed, and how far that is."""
    rows, batches = job["landed"]["rows"], job["landed"]["batches"]
    done, total = job["progress"]["done"], job["progress"]["total"]
    far = f"; {done or 0:,} of {total:,}" if total else ""
    mark = job["landed"]["mark"]
    counted = " (those of discarded rows, too)" if was_discarded(job) else ""
    return f"{count(rows, 'row')}, {count(batches, 'batch')}{counted}{far}" + (
        f"; up to {short(mark, 60)!r}" if mark else ""
    )


def was_discarded(job: dict[str, Any]) -> bool:
    """Tell whether rows are known to be gone: a retry was to discard some, and an attempt was done since."""
    asked = [event for event in job["events"] if (event["detail"] or {}).get("discards")]
    return bool(asked) and any(one["outcome"] == Outcome.DONE for one in since(job, asked[0]))


def attempt_row(attempt: dict[str, Any]) -> tuple[str, ...]:
    """Return the cells of one attempt: number, when, how long, how it ended."""
    start, end = attempt["started_at"] or attempt["claimed_at"], attempt["finished_at"]
    took = duration((moment(end) - moment(start)).total_seconds()) if end else ""
    return str(attempt["number"]), at(start), took, how_it_ended(attempt)


def moment(text: str) -> datetime:
    """Read a time of the story."""
    return datetime.fromisoformat(text)


def at(text: str) -> str:
    """Return a time of the story as the hour where the reader sits."""
    return f"{moment(text).astimezone():%H:%M:%S}"


def how_it_ended(attempt: dict[str, Any]) -> str:
    """Say an attempt's end in a few words."""
    if attempt["outcome"] is None:
        return "under way"
    words = "" if attempt["outcome"] == Outcome.CANCELLED else error_words(attempt["error"])
    return end(attempt["outcome"], attempt["kill"], short(words, ROW))


def wait_line(wait: dict[str, Any]) -> str:
    """Say one reason, and until when or until what."""
    until = f" until {short(until_in_words(wait['until']), 60)}" if wait["until"] else ""
    return f"{short(wait['text'], 100)}{until}"


def until_in_words(until: str) -> str:
    """Return a time as the hour where the reader sits, anything else as it is: "mains", "06:00"."""
    try:
        return at(until)
    except ValueError:
        return until


def advice(job: dict[str, Any], *, full: bool) -> Iterator[str]:
    """Yield what helps now: commands, and what to change before a retry."""
    reasons = {wait["reason"] for wait in job["waits"]}
    if "held" in reasons:
        yield hints.command(f"unhold {job['id']}")
    if "kind_held" in reasons:
        yield hints.command(shlex.join(["unhold", "--kind", job["kind"]]))
    if "no_supervisor" in reasons:
        yield hints.run([job["kind"]])
    if job["state"] not in RETRIABLE:
        return
    last = last_finished(job)
    if job["state"] in FAILED and last is not None and not full and has_more(last):
        yield hints.command(f"show {job['id']} --full")
    code = None if last is None else last["code"]
    if (remedy := REMEDIES.get(code or "")) is not None:
        yield remedy
    yield hints.retry(job["id"], from_start=job["plan"] is not None and Plan(**job["plan"]).fails_again(code))
