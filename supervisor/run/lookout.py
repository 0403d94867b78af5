"""Once a second: show life, and notice what no descriptor tells (CONTRACTS K10).

What others committed, a clock that was set, leases that need renewing, an application that does not start
or has changed.
"""

from typing import Any, Final

from landing.batches import Land
from landing.clock import ShiftWaits
from landing.lease import RENEW_SECONDS, Renew
from landing.runs import Held
from policies.job import MICROS
from supervisor import events, sensors
from supervisor.application import Profile
from supervisor.attempt.conversation import World
from supervisor.children.pool import Pool
from supervisor.children.roll import SLOW_START
from supervisor.children.starts import CHANGED, LONGEST_WAIT, changed
from supervisor.run.clocks import Clocks, jump, set_since
from supervisor.run.parts import Parts
from supervisor.run.scheduler import Scheduler
from supervisor.run.seek import ignore
from supervisor.told.units import duration

LOOK_SECONDS: Final = 1.0
LANDER_SECONDS: Final = 10.0
"""After so long in one batch a person should hear of a lander."""


class Lookout:
    """Looks around for one run. Loop thread only.

    Attributes:
        reload: a change of the application is to end the run.
        outdated: which change does, "" for none.
    """

    def __init__(self, parts: Parts, world: World, pool: Pool, scheduler: Scheduler) -> None:
        self._parts = parts
        self._world = world
        self._pool = pool
        self._scheduler = scheduler
        self._looked_at = self._renewed_at = world.monotonic()
        self._clocks = self._read_clocks()
        self._warned: set[Profile] = set()
        self._hanging: Any = None
        self._slow: set[Profile] = set()
        self._lacked = False
        self._cold: set[Profile] = set()
        self.reload = False
        self.outdated = ""

    @property
    def due(self) -> float:
        """Return when the next look is due, on the monotonic clock."""
        return self._looked_at + LOOK_SECONDS

    def turn(self, now: float) -> None:
        """Compare the clocks before anything is claimed by them; look around when it is time."""
        self._compare_clocks()
        if self.reload and (held := self._pool.starts.changed()) is not None:
            self._end_for(held.text)
        if now < self.due:
            return
        self._looked_at = now
        self._parts.lock.touch()
        if self._parts.desk.changed():
            self._scheduler.look_again()
        if any(self._scheduler.seeker.attempts) and now - self._renewed_at >= RENEW_SECONDS:
            self._renewed_at = now
            self._parts.desk.lander.submit(Renew(self._world.run), ignore)
        if self.reload and (files := self._pool.starts.own.changed()):
            self._end_for(changed(files))
        self._warn_of_starts()
        self._warn_of_lack()
        self._warn_of_lander(now)

    def _read_clocks(self) -> Clocks:
        return Clocks(self._world.now(), sensors.steady())

    def _compare_clocks(self) -> None:
        before, self._clocks = self._clocks, self._read_clocks()
        if by := jump(before, self._clocks):
            how = f"{'back' if by < 0 else 'forward'} {duration(abs(by) / MICROS)}"
            text = f"the clock was set {how}; waits keep their length"
            self._parts.report(events.Warned("clock_set", text))
            since = set_since(before, self._clocks)
            self._parts.desk.lander.submit(ShiftWaits(self._world.run, by, since), self._shifted)

    def _shifted(self, _reply: Any) -> None:
        self._scheduler.seeker.look_again()

    def _end_for(self, change: str) -> None:
        if not self.outdated:
            self.outdated = change
            self._parts.report(events.Warned(CHANGED, f"{change}; the run ends and starts anew"))

    def _warn_of_starts(self) -> None:
        for profile in self._pool.starts.held.keys() - self._warned:
            self._warn_of_held(profile)
        for profile in set(self._pool.slow_starts()) - self._slow:
            self._slow.add(profile)
            specs = ", ".join(profile.specs)
            text = f"a child has been importing {specs} for {SLOW_START:g} s; its jobs wait"
            self._parts.report(events.Warned("child_start_slow", text))

        for profile in self._pool.starts.cold.keys() - self._cold:
            self._cold.add(profile)
            text = f"children of {', '.join(profile.specs)} start cold: {self._pool.starts.cold[profile]}"
            self._parts.report(events.Warned("template_failed", text))

    def _warn_of_lack(self) -> None:
        """Say once that starts wait for a system that has no room."""
        if self._pool.starts.lack and not self._lacked:
            self._lacked = True
            text = f"{self._pool.starts.lack}; starts are tried again, at most {LONGEST_WAIT:g} s apart"
            self._parts.report(events.Warned("child_start_waits", text))

    def _warn_of_lander(self, now: float) -> None:
        """Say once of each that a lander hangs: nobody can end it, and all wait behind it."""
        at_work = self._parts.desk.lander.at_work
        if at_work is None or at_work is self._hanging or now < at_work[1] + LANDER_SECONDS:
            return
        self._hanging, (operation, _since) = at_work, at_work
        job = operation.job if isinstance(operation, Land) else 0
        whose = f"the lander of job #{job}" if job else "a write of the store"
        text = f"{whose} has not returned for {LANDER_SECONDS:g} s; nothing lands or starts until it does"
        self._parts.report(events.Warned("lander_slow", text))

    def _warn_of_held(self, profile: Profile) -> None:
        self._warned.add(profile)
        held = self._pool.starts.held[profile]
        if self.outdated and held.code == CHANGED:  # that has been said, with what comes of it
            return
        self._parts.report(events.Warned(held.code, str(held)))
        told = Held(self._world.run, held.code, str(held), self._scheduler.seeker.kinds_held_by(held))
        self._parts.desk.lander.submit(told, ignore)
