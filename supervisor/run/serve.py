"""One life of a supervisor: lock, store, threads, the turns, and the way out.

lock -> schema -> leftovers ended -> desk (lander, reader) -> run opened, orphans settled -> daemon
"""

import os
import threading
from collections.abc import Mapping
from contextlib import ExitStack, closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from ipc import tool
from ipc.doorbell import Doorbell
from ipc.subreaper import adopting_orphans
from landing.faults import Reach, unarmed
from landing.migrate import create, init_lock, upgrade
from supervisor import events, sensors
from supervisor.application import Application
from supervisor.descriptors import OPEN, Severed, identity
from supervisor.lock import LockHeld, SupervisorLock
from supervisor.loop import Loop
from supervisor.probes.watch import Probe, native
from supervisor.run.daemon import Daemon, Served
from supervisor.run.desk import Desk, open_desk
from supervisor.run.opening import end_dead_runs, new_marker, open_run, remove_groups
from supervisor.run.parts import Awaited, Parts
from supervisor.settings.place import environment
from supervisor.settings.values import Settings

ABANDONED: Final[list[ExitStack]] = []
"""What runs held that cannot be closed by its numbers any more: collected as garbage, it would be."""


def serve(  # noqa: PLR0913 - all but two have their defaults
    application: Application,
    settings: Settings,
    *,
    until_idle: bool,
    report: events.Report,
    jobs: frozenset[int] | None = None,
    reload: bool = False,
    reach: Reach = unarmed,
    probes: Mapping[str, Probe] | None = None,
) -> Served:
    """Run jobs until told to stop, or until nothing is left to do.

    Args:
        application: the kinds that can run.
        settings: the home, the number of workers, the children's folder.
        until_idle: end when no job is queued, in flight or waiting for its backoff.
        report: told what happens, on this thread.
        jobs: end as idle as soon as these have ended, whatever else waits.
        reload: end as app_changed when the application is another than was loaded.
        reach: called at each fault point, for tests (`supervisor.faults`).
        probes: what looks at owner, power and memory, by the names of their readings; default: ours.

    Raises:
        LockHeld: another supervisor holds the store.
        StoreError: the store cannot be used, or an application's migration does not run.
    """
    home, awaited = settings.home, Awaited(report, None if jobs is None else set(jobs))
    probes = own_probes(settings) if probes is None else probes
    create(home, sensors.now_micros())
    with ExitStack() as stack:
        lock = take_lock(home)
        stack.callback(lock.release)
        upgrade(home, sensors.now_micros())
        leftovers = end_dead_runs(home, awaited.report)
        stack.enter_context(adopting_orphans())
        loop = stack.enter_context(closing(Loop(sensors.monotonic)))
        bell = stack.enter_context(closing(Doorbell(home)))
        desk = stack.enter_context(open_desk(home, loop, awaited.report, reach))
        marker = new_marker(home)
        opened = open_run(desk, application, settings, marker, leftovers, awaited.report)
        note_descriptors(loop, desk, lock)
        daemon = Daemon(application, settings, Parts(loop, bell, desk, lock, awaited, probes), opened, marker)
        stack.callback(remove_groups, marker, daemon.groups)
        try:
            with daemon.signals():
                served = daemon.run(until_idle=until_idle, reload=reload)
            loop.descriptors.check()
        except Severed as lost:
            ABANDONED.append(stack.pop_all())
            text = f"{lost}{daemon.suspects}; the next start settles what is left"
            return Served("broken", text, stuck=True)
    return replace(served, stuck=desk.stuck or daemon.stuck)


def note_descriptors(loop: Loop, desk: Desk, lock: SupervisorLock) -> None:
    """Have all that this run holds watched over, and what it shows things by."""
    desk.note_descriptors()
    loop.descriptors.note(lock.fileno(), "the lock of this run")
    for fd, name in ((1, "stdout"), (2, "stderr")):
        if identity(fd) is not None:
            loop.descriptors.note(fd, name, OPEN)


def own_probes(settings: Settings) -> Mapping[str, Probe]:
    """Return what looks at this machine's owner, power and memory."""
    return native(environment(), os.getuid(), settings.scheduling.limits.presence, tool.run)


def take_lock(home: Path) -> SupervisorLock:
    """Take the supervisor's lock; wait for a writer that holds it to upgrade an older store (CONTRACTS K7).

    Raises:
        LockHeld: another supervisor holds the store.
        StoreBusy: an upgrade has been under way for 30 s.
    """
    pause = threading.Event().wait
    with suppress(LockHeld):
        return SupervisorLock(home, sensors.monotonic, pause)
    with init_lock(home):  # whoever upgrades holds it, too
        pass
    return SupervisorLock(home, sensors.monotonic, pause)
