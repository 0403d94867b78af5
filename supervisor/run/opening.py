"""From the lock to the first claim: what dead runs left behind is ended, then settled (CONTRACTS K9).

lock -> schema -> processes of dead runs ended -> applications' tables, kinds -> rows in flight settled
"""

import hashlib
import os
import threading
from collections.abc import Iterator, Set
from pathlib import Path
from typing import Final

from ipc.guardian import cgroup
from ipc.leftovers import Leftovers, end_leftovers
from landing.enqueue import RegisterTiers
from landing.migrate import MigrateApp, RefuseReferences
from landing.runs import Opened, OpenRun, dead_markers
from landing.snapshot import snapshot, store_identity
from policies.job import State
from policies.retry import judge
from supervisor import events, sensors
from supervisor.application import Application
from supervisor.attempt.conversation import World
from supervisor.children.command import group_prefix
from supervisor.run.desk import Desk
from supervisor.run.guardians import wait_for_guardians
from supervisor.settings.values import Settings
from supervisor.told.units import count

NONCE: Final = 16
"""Hex digits of a marker that are random; the others tie them to the store."""


def new_marker(home: Path) -> str:
    """Return what the children of a run carry in their environment: 32 hex digits that lead nowhere."""
    return tied(sensors.fence()[:NONCE], store_identity(home))


def tied(nonce: str, identity: tuple[int, int] | None) -> str:
    """Return the marker of a nonce in the store file of that (device, inode).

    A copy of a store has the rows of the original's runs, whose children may well be alive: their
    markers are none of the copy's.
    """
    return nonce + hashlib.blake2b(f"{nonce} {identity}".encode(), digest_size=8).hexdigest()


def end_dead_runs(home: Path, report: events.Report) -> Leftovers:
    """End the processes that earlier runs of this very store left behind, and say which there were.

    Only the lock holder may, since the lock is the proof that their supervisors are dead. One that
    does not end holds up nobody: its fence is dead and its channel has no other end, so it can land
    nothing, and a store that waited for it would wait for the machine's next boot.
    """
    with snapshot(home) as db:
        markers = dead_markers(db)
    identity = store_identity(home)
    own = {one for one in markers if one == tied(one[:NONCE], identity)}
    if not wait_for_guardians(home, own, sensors.monotonic, threading.Event().wait):
        text = "a guardian of a dead run does not leave; what can be found of that run is ended without it"
        report(events.Warned("guardians", text))
    groups = groups_of(own, cgroup.base()) if own else []
    found = end_leftovers(own, sensors.monotonic, lambda: [cgroup.kill(group) for group in groups])
    for group in groups:
        cgroup.remove(group)
    if found:
        report(events.Warned("leftovers", "; ".join(told(found))))
    return found


def groups_of(markers: Set[str], base: str | None) -> list[str]:
    """Return the control groups of runs below `base`; the kernel can end each at one stroke."""
    if base is None:
        return []
    prefixes = tuple(f"{group_prefix(marker)}-" for marker in markers)
    found = cgroup.leftovers(base, group_prefix(""))
    return [group for group in found if Path(group).name.startswith(prefixes)]


def remove_groups(marker: str, base: str | None) -> None:
    """Remove the control groups of a run that has ended: a guardian that was killed could not."""
    for group in groups_of({marker}, base):
        cgroup.remove(group)


def told(found: Leftovers) -> Iterator[str]:
    """Yield what a person should know of them."""
    if found.ended:
        yield f"ended what a dead run had left running: {numbered(found.ended)}"
    if found.survivors:
        yield f"SIGKILL does not end what a dead run had left running: {numbered(found.survivors)}"


def numbered(pids: tuple[int, ...]) -> str:
    """Return process ids as text."""
    return ", ".join(f"pid {pid}" for pid in pids)


def open_run(
    desk: Desk,
    application: Application,
    settings: Settings,
    marker: str,
    leftovers: Leftovers,
    report: events.Report,
) -> Opened:
    """Bring the schema of each application up to date, declare the kinds, settle what a dead run left."""
    for loaded in application.apps:
        desk.ask(MigrateApp(loaded.app.name, [one.sql for one in loaded.app.migrations]))
    desk.ask(RefuseReferences())
    for register in application.declarations():
        desk.ask(register)
    desk.ask(RegisterTiers({name: tier.window for name, tier in settings.scheduling.tiers.items()}))
    found = {"ended": leftovers.ended, "survivors": leftovers.survivors}
    opened = desk.ask(
        OpenRun(
            pid=os.getpid(),
            boot=sensors.boot_id(),
            version=sensors.version(),
            marker=marker,
            judge=judge,
            leftovers=found if leftovers else None,
            kinds=tuple(application.kinds),
            slots=settings.max_workers,
        )
    )
    if opened.clamped:
        text = f"the clock was set back while no supervisor ran; {count(opened.clamped, 'wait')} began anew"
        report(events.Warned("clock_set", text))
    return opened


def started(application: Application, world: World, opened: Opened) -> events.RunStarted:
    """Return what a run says first."""
    return events.RunStarted(
        run=opened.run,
        pid=world.pid,
        workers=world.slots,
        app=application.name,
        recovered=opened.orphans,
        died=opened.dead,
        failed=opened.now(State.FAILED),
        cancelled=opened.now(State.CANCELLED),
    )
