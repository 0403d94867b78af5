"""What happens to a supervisor: it dies or stops, another one starts, leases go on, the clock is set."""

from hypothesis import strategies as st

from landing.clock import ShiftWaits
from landing.lease import Renew
from landing.runs import CloseRun
from policies.job import MICROS
from tests.landing.model.both import Both
from tests.landing.model.row import LEASE

WHAT = st.sampled_from(["wait", "wait", "wait", "set_clock", "renew", "reopen", "die", "stop"])


class World(Both):
    """Time and the lives of supervisors."""

    def happen(self, data: st.DataObject) -> None:
        """Let time go on, or back, or a supervisor end."""
        what = data.draw(
            st.sampled_from(["wait", "wait", "wait", "set_clock", "renew", "reopen", "die", "stop"])
        )
        seconds = data.draw(st.sampled_from([1, 5, 41, 901, 4000, -30, -5000]))
        match what:
            case "wait":
                self.stand.tick(seconds)
            case "set_clock":
                self.set_clock(seconds)
            case "renew":
                assert self.stand.write(Renew(self.stand.run)) == self.renewed()
            case "reopen":
                self.stand.reopen()
            case _:
                self.die(cleanly=what == "stop")

    def set_clock(self, seconds: int) -> None:
        """The clock is set, and the supervisor notices that a second later."""
        since = self.stand.now + seconds * MICROS
        self.stand.tick(seconds + 1)
        by = seconds * MICROS
        moved = self.stand.write(ShiftWaits(self.stand.run, by, since))
        assert moved == self.plain.shift_waits(self.stand.run, by, since, self.stand.now)
        self.renewed()

    def renewed(self) -> int:
        flying = self.plain.flying().values()
        for job in flying:
            job.lease = self.stand.now + LEASE
        return len(flying)

    def die(self, *, cleanly: bool) -> None:
        """A run ends, by a stop if nothing is under way, and the next one begins."""
        if cleanly and not self.plain.flying():
            self.stand.write(CloseRun(self.stand.run))
            self.plain.runs[self.stand.run].clean = 1
            self.plain.runs[self.stand.run].stopped = self.stand.now
        opened = self.stand.open_run()
        dead, settled = self.plain.open_run(opened.run, self.stand.now)
        assert (opened.dead, dict(opened.settled)) == (dead, settled)
        self.stand.run = opened.run
