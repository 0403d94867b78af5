"""`supervisor status`: one screen for "what is, why does it wait, what do I do?". It loads only the store."""

from collections.abc import Iterator
from pathlib import Path
from shlex import quote
from typing import Any, NamedTuple

from supervisor.cli import hints
from supervisor.cli.output import one_line, page, plain, print_json, short
from supervisor.settings.place import find_home
from supervisor.told.gates import gates_line, models_line
from supervisor.told.plan import RESUME_MISMATCH
from supervisor.told.status import status
from supervisor.told.units import count, duration, human_size


class Request(NamedTuple):
    """What `status` was asked for."""

    home: str | None = None
    as_json: bool = False
    strict: bool = False


def plain_request(argv: list[str]) -> Request | None:
    """Read `[--home DIR] [--json] [--strict]`; None for anything else: click reads or refuses it."""
    home, rest = None, iter(argv)
    flags = set()
    for word in rest:
        if word == "--home":
            home = next(rest, "")
        elif word.startswith("--home="):
            home = word.removeprefix("--home=")
        elif word in {"--json", "--strict"}:
            flags.add(word)
        else:
            return None
    return None if home == "" else Request(home, "--json" in flags, "--strict" in flags)


def status_command(request: Request) -> int:
    """Print the status; with --strict, 1 says that jobs failed or health is bad."""
    facts = status(find_home(request.home))
    facts["next"] = next_step(facts)
    if request.as_json:
        print_json(facts)
    else:
        print("\n".join(screen(facts, strict=request.strict)))
    bad = not facts["healthy"] or bool(facts["jobs"].get("failed"))
    return 1 if request.strict and bad else 0


def screen(facts: dict[str, Any], *, strict: bool = False) -> Iterator[str]:
    """Yield the lines of the screen; `strict` counts failed jobs among what is wrong."""
    yield f"laneway {who(facts['supervisor'])}   {plain(near(facts['home']))}   {health(facts)}"
    yield from (f"!  {plain(reason)}" for reason in facts["reasons"])
    if strict and (failed := facts["jobs"].get("failed")):
        yield f"!  {count(failed, 'job')} failed (--strict)"
    if facts["next"]:
        yield f"   next: {facts['next']}"
    yield from machine(facts)
    if facts["running"]:
        yield running_head(len(facts["running"]), facts["slots"], up=is_up(facts["supervisor"]))
        yield from page([running_row(job) for job in facts["running"]], indent="  ")
    waiting = sum(facts["jobs"].get(state, 0) for state in ("pending", "queued", "deferred"))
    if waiting:
        yield f"WAITING {waiting:,}"
        yield from page([waiting_row(group) for group in facts["waiting"]], indent="  ")
    if late := facts["supervisor"]["stale"]:
        yield f"{count(late, 'batch')} of run {facts['supervisor']['run']} came too late and changed nothing"
    yield last_line(facts)


def health(facts: dict[str, Any]) -> str:
    """Say in a word how it is; a run that stops is about to be gone, however well it is."""
    if not facts["healthy"]:
        return "UNHEALTHY"
    return "STOPPING" if facts["supervisor"]["state"] == "stopping" else "HEALTHY"


def next_step(facts: dict[str, Any]) -> str:
    """Name the command that helps now, or ""."""
    return hints.run(facts["lanes"]) if facts["reasons"] and not is_up(facts["supervisor"]) else ""


def is_up(supervisor: dict[str, Any]) -> bool:
    """Tell whether a supervisor holds the store, healthy or not."""
    return supervisor["state"] not in {"died", "down"}


def who(supervisor: dict[str, Any]) -> str:
    """Say how the supervisor is."""
    state, run, pid = supervisor["state"], supervisor["run"], supervisor["pid"]
    if state in {"up", "stopping", "stalled"}:
        asked = supervisor["stopping_s"]
        since = "" if asked is None else f"{', stopping' * (state == 'stalled')} since {duration(asked)}"
        return f"{state}{since}, pid {pid}, run {run}, {duration(supervisor['up_s'])}"
    if run is None or state == "starting":
        return str(state)
    seen = "" if supervisor["age_s"] is None else f", last seen {duration(supervisor['age_s'])} ago"
    return f"{state}, run {run} was the last{seen}"


def near(path: str) -> str:
    """Shorten a path below the reader's own folder."""
    try:
        own = Path.home()
        return f"~/{Path(path).relative_to(own)}" if Path(path) != own else "~"
    except (ValueError, RuntimeError):
        return path


def machine(facts: dict[str, Any]) -> Iterator[str]:
    """Yield how the gates stand that something goes by, and what is in memory where tiers have models."""
    if line := gates_line(facts["gates"]):
        yield f"gates   {one_line(line)}"
    if (pause := facts["paused"]) is not None:
        ago = "" if pause["ago_s"] is None else f", {duration(pause['ago_s'])} ago"
        yield f"woke    after {duration(pause['seconds'])} asleep or stopped{ago}; no job's clock counts it"
    if facts["models"] is not None:
        yield f"models  {one_line(models_line(facts['models']))}"


def running_head(jobs: int, slots: int | None, *, up: bool) -> str:
    """Say how many run, and of how many, or that nobody runs them now, whatever their rows say."""
    if not up:
        return f"WAS RUNNING {jobs} when the supervisor died"
    return f"RUNNING {jobs}" if slots is None else f"RUNNING {jobs} of {slots}"


def running_row(job: dict[str, Any]) -> tuple[str, ...]:
    """Return the cells of one job in flight."""
    runs = "starting" if job["for_s"] is None else duration(job["for_s"])
    notes = [f"attempt {job['attempt']}"]
    notes += ["cancelling"] if job["state"] == "cancelling" else []
    notes += [f"yielding: {job['yielding']}"] if job["yielding"] else []
    place = (f"#{job['id']}", job["kind"], progress(job))
    return *place, rate(job), batch(job), memory(job), runs, ", ".join(notes)


def rate(job: dict[str, Any]) -> str:
    """Say how fast it lands, and over how long that was taken: "412 rows/s in 9 s"."""
    if job["rate"] is None:
        return ""
    return f"{job['rate']:,.{0 if job['rate'] >= 10 else 1}f} rows/s in {duration(job['rate_s'])}"


def batch(job: dict[str, Any]) -> str:
    """Say how long the next batch has been awaited, and how long that may take: "batch 3.2 of 120 s".

    Toward a start_deadline, which another limit follows: "start 12 of 300 s".
    """
    age, most = job["batch_s"], job["batch_limit_s"]
    what = "start" if job["batch_limit"] == "start_deadline" else "batch"
    if age is None:
        return f"{what} limit {most:g} s" if most else "no batch limit"
    seconds = f"{age:.1f}" if age < 9.95 else f"{age:.0f}"
    if most:
        return f"{what} {seconds} of {most:g} s"
    return f"batch {duration(age) if age >= 9.95 else f'{seconds} s'}, no limit"


def memory(job: dict[str, Any]) -> str:
    """Say what its processes hold, and of how much they may: "2.3 GB of 6 GB"; "" where nobody can tell."""
    if job["memory_mb"] is None:
        return ""
    most = f" of {human_size(job['memory_limit_mb'] * 1e6)}" if job["memory_limit_mb"] else ""
    return human_size(job["memory_mb"] * 1e6) + most


def progress(job: dict[str, Any]) -> str:
    """Say how far a job is: of its total where it knows one, else in rows."""
    if job["total"]:
        return f"{job['done'] or 0:,} of {job['total']:,}, {count(job['rows'], 'row')}"
    return f"{count(job['rows'], 'row')}"


def waiting_row(group: dict[str, Any]) -> tuple[str, ...]:
    """Return the cells of jobs that wait for the same reason."""
    number = f"{group['jobs']:,}{'+' if group['jobs'] >= 1000 else ''} x"
    more = len(group["reasons"]) - 1
    why = short(group["text"], 60) + (f" (and {more} more)" if more else "")
    if "oldest_s" in group:
        when = f"oldest {duration(group['oldest_s'])}"
    else:
        when = "" if group["wakes_s"] is None else f"next in {duration(group['wakes_s'])}"
    return number, group["kind"], why, when, until(group)


def until(group: dict[str, Any]) -> str:
    """Say what frees them, or ""."""
    if group["reason"] == "kind_held":
        return hints.command(f"unhold --kind {quote(group['kind'])}")
    return f"until {short(group['until'], 40)}" if group["until"] else ""


def coming(facts: dict[str, Any]) -> str:
    """Say which job wakes next, or ""."""
    if (wake := facts["next_wake"]) is None:
        return ""
    return f"; next: #{wake['id']} {one_line(wake['kind'])} in {duration(wake['in_s'])}"


def last_line(facts: dict[str, Any]) -> str:
    """Say what ended in the last hour, which jobs failed last, how to look at one, how large the store is."""
    ended = facts["last_hour"]
    hour = ", ".join(f"{number:,} {outcome}" for outcome, number in sorted(ended.items()))
    attempts = count(sum(ended.values()), "attempt")
    line = f"last hour: {f'{attempts} ended, {hour}' if ended else 'nothing ended'}"
    if failed := facts["last_failed"]:
        names = " ".join(f"#{job['id']}" for job in failed)
        advice = "; ".join(remedies(failed, facts["jobs"]["failed"]))
        line += f"; {count(facts['jobs']['failed'], 'job')} failed in all ({names}: {advice})"
    free = f" ({facts['free_mb']:g} MB free)" if facts["free_mb"] >= 1 else ""
    line += coming(facts)
    return f"{line}; store {facts['store_mb']:g} MB{free}, WAL {facts['wal_mb']:g} MB"


def remedies(failed: list[dict[str, Any]], jobs: int) -> Iterator[str]:
    """Yield how to look at the last of the jobs that failed, and how to retry them.

    Args:
        failed: the newest ones; those that only a fresh start helps are named.
        jobs: how many there are in all.
    """
    yield hints.command(f"show {failed[0]['id']}")
    changed = [str(job["id"]) for job in failed if job["code"] == RESUME_MISMATCH]
    if len(changed) < jobs:
        yield hints.command("retry --failed")
    if changed:
        yield hints.command(f"retry {' '.join(changed)} --from-start")
