"""The turns of a run, from its first to the way out.

turn: clocks, ladders, the look around, the next claim, the wait
      -> idle | asked to stop, or to start anew: drain, wait for yields, give up in the end | store broken
      -> run closed
"""

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from ipc.child import Command
from ipc.guardian import cgroup
from ipc.keeper import Keeper
from ipc.leftovers import MARKER
from ipc.sources import Own, folders_of, note
from landing.runs import CloseRun, Opened, StopAsked
from supervisor import events, sensors
from supervisor.application import Application, Profile
from supervisor.attempt.behind import called
from supervisor.attempt.conversation import World
from supervisor.attempt.dispatch import Dispatch
from supervisor.children.command import Surroundings, command_for
from supervisor.children.keepers import Keepers
from supervisor.children.pool import Pool
from supervisor.children.starts import CHANGED
from supervisor.inproc.threads import Threads
from supervisor.loop import READ
from supervisor.run.guardians import GUARDIANS
from supervisor.run.lookout import Lookout
from supervisor.run.opening import started
from supervisor.run.parts import Parts
from supervisor.run.scheduler import Scheduler
from supervisor.run.seek import ignore
from supervisor.run.upkeep import Upkeep
from supervisor.settings.place import environment
from supervisor.settings.values import Settings

LANDING_SECONDS: Final = 30.0
"""After the last grace of a stop, landings and receipts get so long: as long as a writer waits (SPEC U38)."""
GIVE_UP_SECONDS: Final = 1.0
"""After a second request to stop they get so long; the next start settles what is left."""


@dataclass(frozen=True, slots=True)
class Served:
    """Why a run ended: idle, stopped, interrupted, broken, app_start_failed or app_changed.

    `detail` is one line for a person; for a stop, the name of the signal that asked for it.
    `stuck` says that the lander did not come back: it may hold the store, so whoever has been
    serving should end its process at once (CONTRACTS K11).
    """

    ended: str
    detail: str = ""
    stuck: bool = False


class Daemon:
    """Drives the parts: one turn after another until the run is over."""

    def __init__(
        self, application: Application, settings: Settings, parts: Parts, opened: Opened, marker: str
    ) -> None:
        self._parts = parts
        self._settings = settings
        self._run = opened.run
        world = World(
            run=opened.run,
            pid=os.getpid(),
            slots=settings.max_workers,
            monotonic=sensors.monotonic,
            now=sensors.now_micros,
            fence=sensors.fence,
            report=parts.report,
            reach=parts.desk.reach,
        )
        self._around = surroundings(settings, marker)
        children = settings.max_workers + 1
        self._pool = Pool(parts.loop, children, self._command, self._keepers, sensors.monotonic)
        self._pool.starts.own = own_sources(application, settings)
        self._dispatch = Dispatch(world, self._pool, parts.desk.lander, parts.desk.reader)
        self._scheduler = Scheduler(
            world, application.kinds, settings.scheduling, self._pool, self._dispatch, parts
        )
        self._seeker = self._scheduler.seeker
        self._upkeep = Upkeep(world, application.kinds, parts.desk.lander)
        self._pool.listener = self._dispatch
        self._threads = self._pool.threads = Threads(
            application.kinds, parts.loop, self._pool.heard_of, self._dispatch.behind, sensors.monotonic
        )
        parts.loop.late = self._threads.look
        self._lookout = Lookout(parts, world, self._pool, self._scheduler)
        self._stops = 0
        self._signal = ""
        self._draining = False
        self._give_up_at = float("inf")
        if parts.bell.deaf is not None:
            parts.report(events.Warned("doorbell", f"{parts.bell.deaf}; new jobs are seen within a second"))
        parts.loop.watch(parts.bell.fileno(), READ, self._rang)
        parts.report(started(application, world, opened))

    @property
    def groups(self) -> str | None:
        """Return the control group below which those of its children are made, None where that cannot be."""
        return self._around.groups

    def run(self, *, until_idle: bool, reload: bool = False) -> Served:
        """Turn until it is over; then all children are reaped and the run closed, unless the store broke.

        With `reload`, it is over as app_changed once the application is another than was loaded, and
        waits for that where children of it do not start.
        """
        self._lookout.reload = reload
        try:
            ended = self._turn_until_ended(until_idle=until_idle)
        except BaseException:
            self._parts.loop.descriptors.check()  # by what is not ours nobody can be ended
            self._seeker.stop()
            self._end_children(idle_only=False)
            raise
        self._seeker.stop()
        self._end_children(idle_only=ended.ended not in {"broken", "interrupted"})
        if ended.ended == "idle" and self._parts.awaited.left is None:  # who awaits jobs will look at them
            self._upkeep.finish(self._parts.loop.turn)
        self._close_run(ended)
        return ended

    def _close_run(self, ended: Served) -> None:
        """Close the run as clean, unless receipts are missing; the next start settles what is left."""
        desk = self._parts.desk
        if desk.broken is not None:
            return
        if ended.ended == "interrupted" or len(self._dispatch):
            desk.hurry()
        if len(self._dispatch) or not desk.try_ask(CloseRun(self._run, self._guardians.survived)):
            text = "the store does not answer; the next start settles what is left"
            self._parts.report(events.Warned("not_closed", text))

    def _turn_until_ended(self, *, until_idle: bool) -> Served:
        lost = 0.0
        while True:
            self._turned(sensors.monotonic(), lost)
            if (ended := self._ended(until_idle=until_idle)) is not None:
                return ended
            self._threads.note(due := min(self._due()))
            lost = self._parts.loop.turn(due)

    @property
    def suspects(self) -> str:
        """Name the jobs that run in this process, for whoever tells what became of it."""
        names = [called(one.claimed) for one in self._dispatch if one.loaded.profile.thread]
        return f", where {' and '.join(names)} ran" if names else ""

    @property
    def stuck(self) -> bool:
        """Tell whether a thread that was left behind has not ended."""
        return self._threads.stuck

    def _end_children(self, *, idle_only: bool) -> None:
        self._pool.stop_all(idle_only=idle_only)
        while self._pool.alive():
            self._parts.loop.turn(self._pool.turn(sensors.monotonic()) or float("inf"))
        self._pool.close(self._parts.loop.turn)
        self._dispatch.close()
        self._scheduler.close()

    def _turned(self, now: float, lost: float) -> None:
        """Do what each turn owes: clocks, ladders, the look around, the next claim."""
        self._dispatch.tick(now, lost)
        self._pool.turn(now)
        self._lookout.turn(now)
        if self._parts.desk.outgrown is not None or self._lookout.outdated:
            self._drain()
        if not self._draining:
            self._upkeep.turn(now)
        self._scheduler.turn(now, lost)

    def _rang(self, _events: int) -> None:
        if self._parts.bell.drain():
            self._scheduler.look_again()

    def _due(self) -> Iterator[float]:
        yield self._lookout.due
        yield from self._scheduler.next_due()
        yield from self._dispatch.next_due()
        now = sensors.monotonic()
        own = (
            self._pool.turn(now),
            self._pool.starts.next_try(),
            None if self._draining else self._upkeep.next_due(),
        )
        for due in own:
            if due is not None:
                yield due
        yield self._give_up_at

    def _ended(self, *, until_idle: bool) -> Served | None:
        """Say why the run is over, or None."""
        if (broken := self._parts.desk.broken) is not None:
            self._parts.loop.descriptors.check()
            return Served("broken", broken.text)
        if self._draining:
            return self._drained()
        if self._parts.awaited.left == set():
            self._seeker.stop()
            return Served("idle") if not len(self._dispatch) and self._seeker.settled else None
        if not until_idle or not self._seeker.idle:
            return None
        if (held := next(iter(self._pool.starts.held.values()), None)) is None:
            return Served("idle")
        return None if self._lookout.reload else Served(held.code, str(held))

    def _drained(self) -> Served | None:
        """Say why the run is over once every attempt has its receipt, or has been given up; or None."""
        settled = not len(self._dispatch) and self._seeker.settled
        if not settled and sensors.monotonic() < self._give_up_at:
            return None
        if (outgrown := self._parts.desk.outgrown) is not None:
            return Served("broken", outgrown)
        if not self._stops:
            return Served(CHANGED, self._lookout.outdated)
        return Served("interrupted" if self._stops > 1 else "stopped", self._signal)

    def _command(self, profile: Profile) -> Command:
        self._parts.loop.descriptors.check()  # a child's new descriptors take the numbers that are free
        return command_for(profile, self._around)

    def _keepers(self, heard: Callable[[Keeper], None]) -> Keepers:
        limit, marker = self._settings.max_workers + 1, self._around.marker
        lock = self._settings.home / GUARDIANS

        def make() -> Keeper:
            return Keeper({MARKER: marker}, lock)

        self._guardians = Keepers(self._parts.loop, limit, make, marker, heard)
        return self._guardians

    # --- signals

    @contextmanager
    def signals(self) -> Iterator[None]:
        """Take SIGTERM, SIGINT and SIGHUP as requests to stop; only the main thread can."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        with self._parts.loop.signals((signal.SIGTERM, signal.SIGINT, signal.SIGHUP), self.stop):
            yield

    def stop(self, number: int) -> None:
        """The first time: finish the batches, yield, stop. Again: stop now."""
        self._signal = signal.Signals(number).name
        self._lookout.reload = False
        self._stops += 1
        self._drain()
        patience = max(0.0, self._give_up_at - LANDING_SECONDS - sensors.monotonic())
        self._parts.report(events.Stopping(self._stops > 1, self._dispatch.jobs, patience))
        if self._stops == 1:
            self._parts.desk.lander.submit(StopAsked(self._run, self._signal), ignore)
        else:
            self._give_up_at = min(self._give_up_at, sensors.monotonic() + GIVE_UP_SECONDS)
            self._dispatch.stop_now()

    def _drain(self) -> None:
        """Claim nothing more, have every child yield, and end those that have nothing to do."""
        if not self._draining:
            self._draining = True
            self._seeker.stop()
            self._give_up_at = self._dispatch.drain() + LANDING_SECONDS
            self._pool.stop_all(idle_only=True)


def surroundings(settings: Settings, marker: str) -> Surroundings:
    """Return what is the same for all children of a run."""
    return Surroundings(
        python=sys.executable,
        environ=environment(),
        folder=settings.folder,
        home=settings.home,
        marker=marker,
        groups=cgroup.base(),
    )


def own_sources(application: Application, settings: Settings) -> Own:
    """Return what this process has loaded, for children to be compared with."""
    specs = [loaded.spec for loaded in application.apps]
    return Own(note(folders_of(specs, str(settings.folder))))
