"""`supervisor show`: a job's story, with the next command."""

import json
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
    """Say which attempt was the last one, and of how many: what does not count allows another (U5)."""
    if not job["attempts"] or job["max_attempts"] is None or not job["failures"]:
        return ""
    number, times = job["attempts"][-1]["number"], retries(job)
    since = [one for one in job["attempts"] if times and moment(one["claimed_at"]) >= moment(times[-1]["at"])]
    own = len(since) if times else number
    most = own - min(own, job["failures"]) + job["max_attempts"]
    return f", attempt {number}" + (f" ({own} of {most} since its retry)" if times else f" of {most}")


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
    mark, again = job["landed"]["mark"], job["landed"]["discards"] and len(job["attempts"]) > 1
    counted = " (those of discarded rows, too)" if again and batches else ""
    return f"{count(rows, 'row')}, {count(batches, 'batch')}{counted}{far}" + (
        f"; up to {short(mark, 60)!r}" if mark else ""
    )


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
    """Say one reason, and until when."""
    until = f" until {at(wait['until'])}" if wait["until"] else ""
    return f"{short(wait['text'], 100)}{until}"


def advice(job: dict[str, Any], *, full: bool) -> Iterator[str]:
    """Yield what helps now: commands, and what to change before a retry."""
    if any(wait["reason"] == "no_supervisor" for wait in job["waits"]):
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
