"""Looking for work: one claim under way at a time, only for a child that is ready (CONTRACTS K13).

look --Claim--> lander --ClaimReply--> place | have a child started | wait for the next wake
"""

from collections.abc import Mapping
from typing import Any

from landing.finish import Finish
from landing.jobs import Claim, Claimed, ClaimReply
from landing.lander import Lander, Raised
from landing.ledger import Report
from policies.job import MICROS, Outcome
from policies.priority import in_claim_order
from policies.transitions import Move
from policies.verdict import Verdict
from supervisor import events
from supervisor.application import LoadedKind, Profile
from supervisor.attempt.conversation import World
from supervisor.attempt.dispatch import Dispatch
from supervisor.children.pool import Pool
from supervisor.children.starts import Held


class Seeker:
    """Turns queued jobs, free slots and ready children into attempts. Loop thread only."""

    def __init__(
        self, world: World, kinds: Mapping[str, LoadedKind], pool: Pool, dispatch: Dispatch, lander: Lander
    ) -> None:
        self._world = world
        self._kinds = kinds
        self._pool = pool
        self._dispatch = dispatch
        self._lander = lander
        self._claiming = False
        self._unplaced: list[tuple[Claimed, float]] = []
        self._warm: Profile = list(kinds.values())[-1].profile
        self._next_wake: int | None = None
        self._nothing_left = self._short = False
        self._held = 0
        self._look = True
        self._stopping = False

    def look_again(self) -> None:
        """Something may have changed: a bell, a commit by others, a free slot, a ready child."""
        self._look = True

    def stop(self) -> None:
        """Claim nothing more; give back what no child has seen."""
        self._stopping = True

    @property
    def settled(self) -> bool:
        """Tell whether no claim is under way and nothing waits for a child."""
        return not self._claiming and not self._unplaced

    @property
    def idle(self) -> bool:
        """Tell whether nothing runs, nothing waits for a child, and nothing will wake by itself."""
        busy = self._look or len(self._dispatch) or not self.settled
        return not busy and self._nothing_left and self._next_wake is None

    def turn(self) -> None:
        """Place what waits for a child, keep one warm, and claim if there may be work and a free slot."""
        if self._stopping:
            self._give_back()
            return
        if self._next_wake is not None and self._next_wake <= self._world.now():
            self._next_wake, self._look = None, True
        if len(self._pool.starts.held) != self._held:
            self._held, self._look = len(self._pool.starts.held), True
        self._place()
        if self._free() > 0:
            self._claim()
        # Where more waits than there are children for, they start side by side, one for each free slot.
        self._pool.want(self._warm, max(1, self._free()) if self._short else 1)

    def kinds_held_by(self, held: Held) -> list[str]:
        """Return the kinds of which no more is claimed for this reason."""
        return [name for name, one in self._kinds.items() if self._pool.starts.holds(one.profile) is held]

    def next_due(self) -> float | None:
        """Return when a waiting row wakes, on the monotonic clock."""
        if self._next_wake is None:
            return None
        return self._world.monotonic() + (self._next_wake - self._world.now()) / MICROS

    def _free(self) -> int:
        return self._world.slots - len(self._dispatch) - len(self._unplaced)

    def _claim(self) -> None:
        if self._claiming or not self._look:
            return
        ready = self._pool.ready()
        usable = {name: one for name, one in self._kinds.items() if not self._pool.starts.holds(one.profile)}
        claim = Claim(
            run=self._world.run,
            pid=self._world.pid,
            fence=self._world.fence(),
            ready=frozenset(name for name, one in usable.items() if one.profile in ready),
            loaded=frozenset(usable),
            order=in_claim_order,
        )
        self._look, self._claiming = False, True
        self._lander.submit(claim, self._claimed)

    def _claimed(self, reply: ClaimReply | Raised) -> None:
        self._claiming = False
        if isinstance(reply, Raised):
            self._world.report(events.Warned("claim_failed", f"the claim failed: {reply.error}"))
            return
        self._next_wake = reply.next_wake
        self._nothing_left = reply.claimed is None and reply.wanted is None
        self._short = reply.wanted is not None
        if reply.claimed is not None:
            self._look = True
            self._unplaced.append((reply.claimed, self._world.monotonic()))
            self._place()
        if reply.wanted is not None:
            self._warm = self._kinds[reply.wanted].profile
            self._pool.want(self._warm)

    def _place(self) -> None:
        """Give claimed jobs to ready children; one that died meanwhile, or does not see all, is replaced."""
        for waiting in list(self._unplaced):
            claimed, since = waiting
            loaded = self._kinds[claimed.kind]
            if (worker := self._pool.take(loaded.profile, since)) is not None:
                self._unplaced.remove(waiting)
                self._dispatch.place(claimed, loaded, worker)
            elif self._pool.starts.holds(loaded.profile):
                self._unplaced.remove(waiting)
                self._release(claimed)
            else:
                self._pool.want(loaded.profile)

    def _give_back(self) -> None:
        while self._unplaced:
            self._release(self._unplaced.pop()[0])

    def _release(self, claimed: Claimed) -> None:
        """Return a job that no child ever saw; no failure is counted."""
        finish = Finish(
            job=claimed.job,
            attempt=claimed.attempt,
            number=claimed.number,
            run=self._world.run,
            fence=claimed.fence,
            last_seq=claimed.landed_seq,
            verdict=Verdict(Move.RELEASE, "interrupted"),
            report=Report(outcome=Outcome.INTERRUPTED),
            awake=claimed.awake,
        )
        self._lander.submit(finish, ignore)


def ignore(_reply: Any) -> None:
    """Nothing depends on the answer."""
