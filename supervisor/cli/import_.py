"""`supervisor import`: the jobs of a queue file of an earlier version, and what became of each."""

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Final

from landing.importing import Imported
from landing.oldqueue import TIMES
from supervisor.application import load_application
from supervisor.cli import hints
from supervisor.cli.output import hint, one_line, print_json
from supervisor.client import Client
from supervisor.errors import Refused
from supervisor.settings.values import Flags, Settings, load_settings
from supervisor.told.units import count

NAMED: Final = 10
"""Rows that a person is told of; --json lists more."""
WORDS: Final = {
    "requeued": "queued again that were running",
    "orphaned": "failed that were running and may not run twice",
    "unreadable": "failed because a cell of theirs cannot be read",
    "existing": "left out because the same is here already",
}
"""What became of rows, where its name alone does not say it."""


def import_command(*, home: str | None, app: str | None, as_json: bool, file: str) -> int:
    """Copy what has not been copied before, and say what it came to."""
    if not (path := Path(file)).is_file():
        raise Refused(
            [f"{file} is {'no file' if path.exists() else 'not there'}; name a queue file to import"]
        )
    settings = load_settings(Flags(home=home, app=app))
    found = client_for(settings).import_queue(path)
    if as_json:
        print_json({"counts": dict(found.counts), "degraded": [asdict(one) for one in found.degraded]})
        return 0
    print("\n".join(summary(file, found)))
    for line in (*complaints(found), *strangers(found)):
        hint(line)
    return 0


def client_for(settings: Settings) -> Client:
    """Return a client that declares the application which is named: it knows which kinds may run twice."""
    return Client(settings.home, load_application(settings) if settings.app is not None else None)


def summary(file: str, found: Imported) -> Iterator[str]:
    """Yield what became of the rows."""
    if not found.counts:
        yield f"nothing new in {one_line(file)}"
        return
    yield f"{count(sum(found.counts.values()), 'row')} of {one_line(file)}"
    yield from (f"  {number:,} {WORDS.get(what, what)}" for what, number in found.counts.items())


def strangers(found: Imported) -> Iterator[str]:
    """Yield which kinds nobody knows here, and what becomes of their jobs."""
    if found.strangers:
        names = ", ".join(found.strangers[:NAMED]) + (" and others" if found.strangers[NAMED:] else "")
        yield f"no application has declared {names} here; a run without it fails them (handler_missing)"


def complaints(found: Imported) -> Iterator[str]:
    """Yield which rows could not be read."""
    for one in found.degraded[:NAMED]:
        look = hints.command(f"show {one.job}")
        yield f"row {one.row}: its {one.column} cannot be read, so that it failed as #{one.job} ({look})"
    if any(one.column in TIMES for one in found.degraded):
        yield 'a time is text as "2026-01-31 23:59:59" (UTC), or seconds since 1970'
    if (rest := found.counts.get("unreadable", 0) - NAMED) > 0:
        yield f"and {count(rest, 'row')} more like that: {hints.command('jobs --state failed')}"
