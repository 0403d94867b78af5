"""`supervisor down`: ends the supervisor of a home, and says what was verified (SPEC C194).

who holds the lock? -> SIGTERM by handle -> gone, and the lock free? -> what the store says of its run
"""

import threading
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any, Final

from landing import views
from landing.errors import StoreError
from landing.snapshot import snapshot
from policies.job import IN_FLIGHT, WAITING
from supervisor import sensors
from supervisor.cli import hints
from supervisor.cli.codes import FAILED
from supervisor.cli.output import complain, print_json
from supervisor.holder import Holder, HolderUnreachable, find_holder, is_stopped
from supervisor.lock import is_live
from supervisor.settings.place import find_home
from supervisor.told.units import limit

LANDING_SECONDS: Final = 45.0
"""For the landing under way, and what else ends with a run; what the children may take comes on top."""
GRACE_SECONDS: Final = 5.0
START_SECONDS: Final = 2.0
LOOK_SECONDS: Final = 0.05
AGAIN_SECONDS: Final = 0.3
"""A supervisor that is asked twice stops at once; two signals in one moment would be one request."""

pause = threading.Event().wait


@dataclass(frozen=True, slots=True)
class Before:
    """What the store said before anything was asked of the supervisor; nothing where it cannot be read.

    `run` and `pid` are those of a run that is still open, `patience` is in seconds.
    """

    run: int | None
    pid: int | None
    jobs: tuple[int, ...]
    patience: float


def down_command(*, home: str | None, as_json: bool, now: bool, timeout: float | None) -> int:
    """End the supervisor; 1 says that it is still alive, or cannot be reached from here."""
    place = find_home(home)
    if (met := meet(place)) is None:
        left = left_behind(place)
        return answer({"state": "none", **left}, nobody(left), as_json=as_json)
    before, holder = met
    with closing(holder):
        patience = before.patience if timeout is None else timeout
        facts = {"pid": holder.pid, "run": before.run, "verified": holder.verified}
        if not end(holder, patience, every=AGAIN_SECONDS if now else inf):
            return still_alive(facts, patience, now=now, as_json=as_json)
    if is_live(place):
        return another(facts, as_json=as_json)
    facts |= after(place, before)
    return answer({"state": "stopped", **facts}, stopped(facts), as_json=as_json)


def meet(home: Path) -> tuple[Before, Holder] | None:
    """Return what the store says and who holds the lock, None when nobody does (any more).

    The two agree once a run is open. Until then it may be a command that holds the
    lock to upgrade the store, and lets go in a moment; a start that lasts is stopped, too.

    Raises:
        HolderUnreachable: no process that may be signalled from here holds it.
    """
    until = sensors.monotonic() + START_SECONDS
    while is_live(home):
        before, over = look(home), sensors.monotonic() >= until
        try:
            holder = find_holder(home, before.pid, pause)
        except HolderUnreachable:
            if over:
                raise
        else:
            if over or holder.pid == before.pid:
                return before, holder
            holder.close()
        pause(LOOK_SECONDS)
    return None


def look(home: Path) -> Before:
    """Ask the store which run is open, and what it has in flight; it need not be readable."""
    try:
        with snapshot(home) as db:
            run, jobs, kinds = views.last_run(db), views.in_flight(db), views.kinds(db)
    except StoreError:
        return Before(None, None, (), LANDING_SECONDS + 2 * GRACE_SECONDS)
    graces = [kinds.get(row["kind"], {}).get("options", {}).get("grace", GRACE_SECONDS) for row in jobs]
    patience = LANDING_SECONDS + 2 * max(graces, default=GRACE_SECONDS)  # until it yields, then until it dies
    if run is None or run["clean"]:
        return Before(None, None, (), patience)
    return Before(run["id"], run["pid"], tuple(row["id"] for row in jobs), patience)


def left_behind(home: Path) -> dict[str, int]:
    """Return the run that died here, and how many jobs it left in flight; nothing where none did."""
    try:
        with snapshot(home) as db:
            run, counts = views.last_run(db), views.counts(db)
    except StoreError:
        return {}
    if run is None or run["clean"]:
        return {}
    return {"died": run["id"], "in_flight": sum(counts.get(state, 0) for state in IN_FLIGHT)}


def nobody(facts: Mapping[str, int]) -> str:
    """Say that there is nobody to stop, and what the last one left if it died."""
    if not facts:
        return "no supervisor runs here"
    jobs = facts["in_flight"]
    given = f"{jobs} of its jobs {'is' if jobs == 1 else 'are'} given back by the next run"
    return f"no supervisor runs here; run {facts['died']} died, {given if jobs else 'nothing was in flight'}"


def end(holder: Holder, patience: float, *, every: float) -> bool:
    """Ask the process to stop, and again every so many seconds; tell whether it is gone in time."""
    until = sensors.monotonic() + patience
    while True:
        holder.ask()
        left = max(0.0, until - sensors.monotonic())
        if holder.wait_gone(min(left, every)):
            return True
        if left <= every:
            return False


def after(home: Path, before: Before) -> dict[str, Any]:
    """Return what the store says of the run that has ended: `clean`, and what became of its jobs."""
    try:
        with snapshot(home) as db:
            run = views.last_run(db)
            states = {job: views.job(db, job)["state"] for job in before.jobs}
    except StoreError:
        return {"clean": None, "given_back": [], "left": []}
    ours = run is not None and run["id"] == before.run
    return {
        "clean": run["clean"] in {1, 3} if run is not None and ours else None,
        "given_back": [job for job, state in states.items() if state in WAITING],
        "left": [job for job, state in states.items() if state in IN_FLIGHT],
    }


def stopped(facts: Mapping[str, Any]) -> str:
    """Say what ended, and what the store says of its jobs."""
    said = f"supervisor ({who(facts)}) stopped"
    if not facts["verified"]:
        said += " (its pid is the run's word: this system does not tell who holds a lock)"
    if facts["given_back"]:
        said += f"; jobs given back: {names(facts['given_back'])}"
    if facts["clean"] is False:
        rest = f" and settles {names(facts['left'])}" if facts["left"] else ""
        said += f"; it did not close its run, the next start does{rest}"
    return said


def still_alive(facts: Mapping[str, Any], patience: float, *, now: bool, as_json: bool) -> int:
    """Say that the process outlives the request, and what may be done."""
    pid, held = facts["pid"], is_stopped(facts["pid"])
    state = " (stopped)" if held else ""
    remedies = [f"kill -CONT {pid} wakes it"] if held else []
    remedies += [] if now else [f"{hints.command('down --now')} does not wait for batches"]
    remedies += [f"kill -9 {pid} ends it for certain, and nothing that has landed is lost"]
    asked = f"{limit(patience)} after it was asked to stop"
    complain(f"STILL ALIVE{state}: {who(facts)}, {asked}; {', '.join(remedies)}")
    if as_json:
        print_json({"state": "alive", "stopped": held, **facts})
    return FAILED


def another(facts: Mapping[str, Any], *, as_json: bool) -> int:
    """Say that somebody starts supervisors anew here."""
    complain(
        f"supervisor ({who(facts)}) stopped, but another one runs here already: something restarts it"
        f" (a service?), stop that; {hints.command('status')} tells which"
    )
    if as_json:
        print_json({"state": "restarted", **facts})
    return FAILED


def who(facts: Mapping[str, Any]) -> str:
    """Name a supervisor."""
    return f"pid {facts['pid']}" + (f", run {facts['run']}" if facts["run"] is not None else "")


def names(jobs: list[int]) -> str:
    """Name jobs."""
    return " ".join(f"#{job}" for job in jobs)


def answer(facts: dict[str, Any], line: str, *, as_json: bool) -> int:
    """Print what was verified."""
    if as_json:
        print_json(facts)
    else:
        print(line)
    return 0
