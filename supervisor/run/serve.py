"""One life of a supervisor: lock, store, threads, the loop, and the way out.

lock -> schema -> desk (lander, reader) -> run opened, orphans settled -> loop ... -> drain -> run closed
"""

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from typing import Final

from ipc.child import Command
from ipc.doorbell import Doorbell
from landing.jobs import Register, Renew
from landing.migrate import MigrateApp, create, upgrade
from landing.runs import CloseRun, Opened, OpenRun
from policies.retry import judge
from supervisor import events, sensors
from supervisor.application import Application, Profile
from supervisor.attempt.conversation import World
from supervisor.attempt.dispatch import Dispatch
from supervisor.children.command import command_for
from supervisor.children.pool import SLOW_START, Pool
from supervisor.lock import SupervisorLock
from supervisor.loop import READ, Loop
from supervisor.run.desk import Desk, open_desk
from supervisor.run.parts import Awaited, Parts
from supervisor.run.seek import Seeker, ignore
from supervisor.settings.place import environment
from supervisor.settings.values import Settings

RENEW_SECONDS: Final = 30.0
LOOK_SECONDS: Final = 1.0
GIVE_UP_SECONDS: Final = 1.0
"""After a second request to stop, receipts get so long; the next start settles what is left."""
MARKER: Final = "LANEWAY_MARKER"


@dataclass(frozen=True, slots=True)
class Served:
    """Why a run ended: idle, stopped, interrupted, broken or app_start_failed.

    `detail` is one line for a person; for a stop, the name of the signal that asked for it.
    """

    ended: str
    detail: str = ""


def serve(
    application: Application,
    settings: Settings,
    *,
    until_idle: bool,
    report: events.Report,
    jobs: frozenset[int] | None = None,
) -> Served:
    """Run jobs until told to stop, or until nothing is left to do.

    Args:
        application: the kinds that can run.
        settings: the home, the number of workers, the children's folder.
        until_idle: end when no job is queued, in flight or waiting for its backoff.
        report: told what happens, on this thread.
        jobs: end as idle as soon as these have ended, whatever else waits.

    Raises:
        LockHeld: another supervisor holds the store.
        StoreError: the store cannot be used, or an application's migration does not run.
    """
    home, awaited = settings.home, Awaited(report, None if jobs is None else set(jobs))
    create(home, sensors.now_micros())
    with ExitStack() as stack:
        lock = SupervisorLock(home, sensors.monotonic, threading.Event().wait)
        stack.callback(lock.release)
        upgrade(home, sensors.now_micros())
        loop = stack.enter_context(closing(Loop(sensors.monotonic)))
        bell = stack.enter_context(closing(Doorbell(home)))
        desk = stack.enter_context(open_desk(home, loop, awaited.report))
        marker = sensors.fence()
        opened = open_run(desk, application, marker)
        daemon = Daemon(application, settings, Parts(loop, bell, desk, lock, awaited), opened, marker)
        with daemon.signals():
            return daemon.run(until_idle=until_idle)


def open_run(desk: Desk, application: Application, marker: str) -> Opened:
    """Bring the schema of each application up to date, declare the kinds, settle what a dead run left."""
    for loaded in application.apps:
        desk.ask(MigrateApp(loaded.app.name, [one.sql for one in loaded.app.migrations]))
    for name, kinds in application.declarations():
        desk.ask(Register(name, kinds))
    return desk.ask(
        OpenRun(
            pid=os.getpid(),
            boot=sensors.boot_id(),
            version=sensors.version(),
            marker=marker,
            judge=judge,
        )
    )


class Daemon:
    """Drives the parts: one turn after another until the run is over."""

    def __init__(
        self, application: Application, settings: Settings, parts: Parts, opened: Opened, marker: str
    ) -> None:
        self._parts = parts
        self._settings = settings
        self._marker = marker
        self._run = opened.run
        world = World(
            run=opened.run,
            pid=os.getpid(),
            slots=settings.max_workers,
            monotonic=sensors.monotonic,
            now=sensors.now_micros,
            fence=sensors.fence,
            report=parts.report,
        )
        self._pool = Pool(parts.loop, settings.max_workers + 1, self._command, sensors.monotonic)
        self._dispatch = Dispatch(world, self._pool, parts.desk.lander, parts.desk.reader)
        self._seeker = Seeker(world, application.kinds, self._pool, self._dispatch, parts.desk.lander)
        self._pool.listener = self._dispatch
        self._dispatch.freed = self._seeker.look_again
        self._looked_at = self._renewed_at = sensors.monotonic()
        self._stops = 0
        self._signal = ""
        self._warned: set[Profile] = set()
        self._slow: set[Profile] = set()
        self._give_up_at = float("inf")
        if parts.bell.deaf is not None:
            parts.report(events.Warned("doorbell", f"{parts.bell.deaf}; new jobs are seen within a second"))
        parts.loop.watch(parts.bell.fileno(), READ, self._rang)
        parts.report(events.RunStarted(opened.run, world.pid, world.slots, application.name, opened.orphans))

    def run(self, *, until_idle: bool) -> Served:
        """Turn until it is over; then all children are reaped and the run closed, unless the store broke."""
        try:
            ended = self._turn_until_ended(until_idle=until_idle)
        except BaseException:
            self._seeker.stop()
            self._end_children(idle_only=False)
            raise
        self._seeker.stop()
        self._end_children(idle_only=ended.ended not in {"broken", "interrupted"})
        self._close_run(ended)
        return ended

    def _close_run(self, ended: Served) -> None:
        """Close the run as clean, unless receipts are missing; the next start settles what is left."""
        desk = self._parts.desk
        if ended.ended == "interrupted":
            desk.hurry()
        if ended.ended != "broken" and not len(self._dispatch) and not desk.try_ask(CloseRun(self._run)):
            self._parts.report(
                events.Warned("not_closed", "the store is busy; the next start closes this run")
            )

    def _turn_until_ended(self, *, until_idle: bool) -> Served:
        lost = 0.0
        while True:
            self._turned(sensors.monotonic(), lost)
            if (ended := self._ended(until_idle=until_idle)) is not None:
                return ended
            lost = self._parts.loop.turn(min(self._due()))

    def _end_children(self, *, idle_only: bool) -> None:
        self._pool.stop_all(idle_only=idle_only)
        while self._pool.alive():
            self._parts.loop.turn(self._pool.climb(sensors.monotonic()) or float("inf"))
            self._pool.look_for_exits()

    def _turned(self, now: float, lost: float) -> None:
        """Do what each turn owes: clocks, ladders, the look around, the next claim."""
        self._dispatch.tick(now, lost)
        self._pool.climb(now)
        self._pool.look_for_exits()
        if now - self._looked_at >= LOOK_SECONDS:
            self._looked_at = now
            self._look_around(now)
        self._seeker.turn()

    def _look_around(self, now: float) -> None:
        """Once a second: show life, see what others committed, renew leases, say which app does not start."""
        self._parts.lock.touch()
        if self._parts.desk.changed():
            self._seeker.look_again()
            self._dispatch.find_cancels()
        if len(self._dispatch) and now - self._renewed_at >= RENEW_SECONDS:
            self._renewed_at = now
            self._parts.desk.lander.submit(Renew(self._run), ignore)
        self._warn_of_starts()

    def _warn_of_starts(self) -> None:
        for profile in self._pool.held.keys() - self._warned:
            self._warned.add(profile)
            self._parts.report(events.Warned("app_start_failed", self._start_failure(profile)))
        for profile in set(self._pool.slow_starts()) - self._slow:
            self._slow.add(profile)
            specs = ", ".join(profile.specs)
            text = f"a child has been importing {specs} for {SLOW_START:g} s; its jobs wait"
            self._parts.report(events.Warned("child_start_slow", text))

    def _rang(self, _events: int) -> None:
        if self._parts.bell.drain():
            self._seeker.look_again()
            self._dispatch.find_cancels()

    def _due(self) -> Iterator[float]:
        yield self._looked_at + LOOK_SECONDS
        yield from self._dispatch.next_due()
        now = sensors.monotonic()
        for due in (self._pool.climb(now), self._pool.next_start(), self._seeker.next_due()):
            if due is not None:
                yield due
        yield self._give_up_at

    def _ended(self, *, until_idle: bool) -> Served | None:
        """Say why the run is over, or None."""
        if (broken := self._parts.desk.broken) is not None:
            return Served("broken", broken.text)
        if self._stops:
            over = not len(self._dispatch) and self._seeker.settled
            over = over or sensors.monotonic() >= self._give_up_at
            return Served("interrupted" if self._stops > 1 else "stopped", self._signal) if over else None
        if self._parts.awaited.left == set():
            self._seeker.stop()
            return Served("idle") if not len(self._dispatch) and self._seeker.settled else None
        if not until_idle or not self._seeker.idle:
            return None
        if self._pool.held:
            return Served("app_start_failed", self._start_failure(next(iter(self._pool.held))))
        return Served("idle")

    def _start_failure(self, profile: Profile) -> str:
        return f"children of {', '.join(profile.specs)} do not start: {self._pool.held[profile]}"

    def _command(self, profile: Profile) -> Command:
        command = command_for(
            profile, python=sys.executable, environ=environment(), folder=self._settings.folder
        )
        return replace(command, env={**command.env, MARKER: self._marker})

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
        self._stops += 1
        self._parts.report(events.Stopping(self._stops > 1))
        self._seeker.stop()
        if self._stops == 1:
            self._dispatch.drain()
            self._pool.stop_all(idle_only=True)
        else:
            self._give_up_at = min(self._give_up_at, sensors.monotonic() + GIVE_UP_SECONDS)
            self._dispatch.stop_now()
