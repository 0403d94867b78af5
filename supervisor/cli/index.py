"""`supervisor index`: enqueue `vault_sync` and see it through, whoever runs it.

enqueue -> does a supervisor run? -> yes: watch the store    -> summary
                                     no:  serve this one job
"""

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from policies.job import ENDED, WAITING, State
from supervisor import sensors
from supervisor.application import builtin_application
from supervisor.cli import hints
from supervisor.cli.codes import FAILED, INTERRUPTED
from supervisor.cli.output import complain, hint, page, print_json, short
from supervisor.cli.report import Display, Quiet, Reporter
from supervisor.cli.run import code_of, end_with, leave_on_signals
from supervisor.client import Client
from supervisor.errors import Refused
from supervisor.events import BatchLanded, Report, Warned
from supervisor.lock import LockHeld, is_live
from supervisor.run.serve import serve
from supervisor.settings.values import Flags, Settings, load_settings
from supervisor.told.story import story

KIND: Final = "vault_sync"
COUNTS: Final = {
    "files": "files",
    "indexed": "indexed",
    "unchanged": "unchanged",
    "dropped": "tombstoned",
    "chunks": "chunks",
}
"""What people read, and its name in the job's result."""
PATIENCE: Final = 1.0
"""Seconds that a job may wait for its turn before somebody at a terminal is told why."""


def index_command(*, home: str | None, as_json: bool, path: str, exclude: tuple[str, ...]) -> int:
    """Index a folder and print what it came to; 1 says that the job failed."""
    settings = load_settings(Flags(home=home))
    payload: dict[str, Any] = {"root": str(folder_at(path))}
    if exclude:
        payload["exclude"] = list(exclude)
    client, began = Client(settings.home), sensors.monotonic()
    job = (client.queued(KIND, payload) or client.enqueue(KIND, payload)).id
    try:
        with Reporter(display()) as report:
            code = see_through(client, settings, job, report)
    except KeyboardInterrupt:
        code = INTERRUPTED
    row = client.job(job)
    if row["state"] not in ENDED:
        hint(kept(row, live=is_live(settings.home)))
        return code or INTERRUPTED
    if as_json:
        print_json(summary(row, sensors.monotonic() - began))
    elif row["state"] == State.DONE:
        print("\n".join(page(list(table(summary(row, sensors.monotonic() - began))))))
    if row["state"] != State.DONE:
        complain(f"job #{job} {row['state']}: {row['reason']}; {hints.command(f'show {job}')}")
    return 0 if row["state"] == State.DONE else FAILED


def kept(row: dict[str, Any], *, live: bool) -> str:
    """Say what becomes of a job that we no longer watch."""
    if not live:
        return f"job #{row['id']} keeps its place; {hints.run([KIND])} goes on with it"
    stays = "stays queued" if row["state"] in WAITING else "goes on"
    end = hints.command(f"cancel {row['id']}")
    return f"job #{row['id']} {stays}; the supervisor here sees it through, {end} ends it"


def folder_at(path: str) -> Path:
    """Return the folder's real, absolute path, by which it is known ever after.

    Raises:
        Refused: it is no folder.
    """
    folder = Path(path).resolve()
    if not folder.is_dir():
        raise Refused([f"{path} is {'a file' if folder.exists() else 'not there'}; name a folder to index"])
    return folder


def display() -> Display:
    """Show a bar where somebody looks; stdout stays free for the summary."""
    if sys.stderr.isatty():
        from supervisor.cli.live import Bars

        return Bars(sys.stderr, sentences=False)
    return Quiet()


def see_through(client: Client, settings: Settings, job: int, report: Report) -> int:
    """Return once the job has ended, or with the exit code of what stopped us."""
    while client.job(job)["state"] not in ENDED:
        if is_live(settings.home):
            watch(client, job, report)
            continue
        alone = replace(settings, max_workers=1)
        try:
            served = serve(
                builtin_application(alone), alone, until_idle=True, report=report, jobs=frozenset({job})
            )
        except LockHeld:  # somebody else was quicker: it is theirs to run
            continue
        leave_on_signals(code_of(served, failed=False))
        return end_with(served, failed=False)
    return 0


def watch(client: Client, job: int, report: Report) -> None:
    """Show how far the job is until it has ended, or the supervisor that runs it is gone."""
    seen, told, began = None, False, sensors.monotonic()
    for (row,) in client.watch([job]):
        if row["state"] in ENDED or not is_live(client.home):
            return
        if not told and row["state"] in WAITING and sensors.monotonic() - began > PATIENCE:
            told = True
            report(Warned("waiting", waiting_line(client.home, job)))
        if row["landed_seq"] != seen:
            seen = row["landed_seq"]
            report(BatchLanded(job, KIND, row["landed_rows"], row["landed_seq"], row["done"], row["total"]))


def waiting_line(home: Path, job: int) -> str:
    """Say that a job waits, and for what."""
    reasons = " and ".join(wait["text"] for wait in story(home, job)["waits"])
    return f"job #{job} waits for its turn: {reasons or 'it is next'}"


def summary(row: dict[str, Any], seconds: float) -> dict[str, Any]:
    """Return what a finished job came to."""
    return {
        "id": row["id"],
        "outcome": row["state"],
        "reason": None if row["state"] == State.DONE else row["reason"],
        "result": json.loads(row["result"]) if row["result"] else None,
        "landed": {"batches": row["landed_seq"], "rows": row["landed_rows"]},
        "seconds": round(seconds, 2),
    }


def table(facts: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the rows of the summary."""
    result = facts["result"] or {}
    rows = [(word, f"{result.get(name, 0):,}") for word, name in COUNTS.items()]
    skipped = result.get("skipped", {})
    reasons = ", ".join(f"{count:,} {reason}" for reason, count in sorted(skipped.items()))
    rows.insert(
        4, ("skipped", f"{sum(skipped.values()):,}" + (f" ({short(reasons, 200)})" if reasons else ""))
    )
    rows += [(name, f"{facts['landed'][name]:,}") for name in ("batches", "rows")]
    return [*rows, ("seconds", f"{facts['seconds']:.1f}")]
