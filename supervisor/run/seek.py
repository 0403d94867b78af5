"""Looking for work: one claim under way at a time, only for a child that is ready (CONTRACTS K13).

look --Claim--> lander --ClaimReply--> place | have a child started | wait for the next wake
"""

from collections.abc import Iterator, Mapping, Set
from functools import partial
from typing import Any, Final, NamedTuple

from landing.claim import Claim, Claimed, ClaimReply
from landing.finish import Finish, Finished
from landing.lander import Lander, Raised
from landing.ledger import Report
from policies.job import MICROS, Outcome
from policies.transitions import Move
from policies.verdict import Verdict
from supervisor import events
from supervisor.application import LoadedKind, Profile
from supervisor.attempt.conversation import World
from supervisor.attempt.dispatch import Dispatch
from supervisor.attempt.receipt import ended_unseen
from supervisor.children.pool import Pool
from supervisor.children.starts import Held
from supervisor.run.gatekeeper import Gatekeeper
from supervisor.run.models import Models
from supervisor.run.turns import Turns

REVIVE_SECONDS: Final = 60.0
"""A deferred job is looked at again after so long at most (SPEC U29)."""
GIVEN_BACK: Final = Verdict(Move.RELEASE, "interrupted")


class Advice(NamedTuple):
    """Who has a say in a claim: what holds jobs back, what must be loaded, who gives way."""

    gates: Gatekeeper
    models: Models
    turns: Turns


class Seeker:
    """Turns queued jobs, free slots and ready children into attempts. Loop thread only."""

    def __init__(
        self,
        world: World,
        kinds: Mapping[str, LoadedKind],
        pool: Pool,
        dispatch: Dispatch,
        lander: Lander,
        advice: Advice,
    ) -> None:
        self._world = world
        self._gates, self._models, self._turns = advice
        self._loading: dict[int, Claimed] = {}
        self._kinds = kinds
        self._pool = pool
        self._dispatch = dispatch
        self._lander = lander
        self._claiming = False
        self._unplaced: list[tuple[Claimed, float]] = []
        profiles = [one.profile for one in kinds.values()]
        self._threads = {one for one in profiles if one.thread}
        self._wanted = [one for one in profiles if not one.thread][-1:]
        self._next_wake: int | None = None
        self._next_try: int | None = None
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
        return not self._claiming and not self._unplaced and not self._loading

    @property
    def idle(self) -> bool:
        """Tell whether nothing runs, nothing waits for a child, and nothing will wake by itself."""
        busy = self._look or len(self._dispatch) or not self.settled
        left = self._next_try is not None or not (self._nothing_left and self._gates.settled)
        return not busy and not left and self._have_threads()

    def turn(self) -> None:
        """Place what waits for a child, keep one warm, and claim if there may be work and a free slot."""
        if self._stopping:
            self._give_back()
            return
        if self._next_wake is not None and self._next_wake <= self._world.now():
            self._next_wake = self._next_try = None
            self._look = True
        if len(self._pool.starts.held) != self._held:
            self._held, self._look = len(self._pool.starts.held), True
        for profile in self._threads:
            self._pool.want(profile)
        self._place()
        self._claim()
        self._have_children()

    @property
    def attempts(self) -> Iterator[int]:
        """Yield the attempts that this run holds, in flight or on their way there."""
        yield from (attempt.claimed.attempt for attempt in self._dispatch)
        yield from (claimed.attempt for claimed in self.on_the_way)

    @property
    def on_the_way(self) -> Iterator[Claimed]:
        """Yield the claimed jobs that no child has been given yet."""
        yield from self._loading.values()
        yield from (claimed for claimed, _since in self._unplaced)

    def cancelled(self, pairs: Set[tuple[int, int]]) -> None:
        """Let go of those of them (job id, attempt number) that were cancelled from outside."""
        for claimed in [one for one in self.on_the_way if (one.job, one.number) in pairs]:
            self._loading.pop(claimed.attempt, None)
            self._unplaced = [waiting for waiting in self._unplaced if waiting[0] is not claimed]
            self._release(claimed)

    def kinds_held_by(self, held: Held) -> list[str]:
        """Return the kinds of which no more is claimed for this reason."""
        return [name for name, one in self._kinds.items() if self._pool.starts.holds(one.profile) is held]

    def next_due(self) -> float | None:
        """Return when a waiting row wakes, on the monotonic clock."""
        if self._next_wake is None:
            return None
        return self._world.monotonic() + (self._next_wake - self._world.now()) / MICROS

    def _free(self) -> int:
        waiting = sum(self._kinds[claimed.kind].takes_slot for claimed in self.on_the_way)
        return self._world.slots - self._dispatch.in_slots - waiting

    def _have_threads(self) -> bool:
        """Tell whether every thread waits for work: while one does not, nothing is claimed for it."""
        held = {one for one in self._threads if self._pool.starts.holds(one)}
        return self._threads - held <= self._pool.ready()

    def _may_claim(self, loaded: LoadedKind, ready: set[Profile], *, free: bool) -> bool:
        """Tell whether a job of a kind is looked for: not while its thread has one, or no slot is free."""
        if self._pool.starts.holds(loaded.profile) or (loaded.takes_slot and not free):
            return False
        return not loaded.profile.thread or loaded.profile in ready

    def _claim(self) -> None:
        if self._claiming or not self._look:
            return
        free = self._free() > 0
        peeks = not free and (self._turns.is_due() or bool(self._turns.yielders()))
        if not (free or peeks or self._threads):  # a busy loop asks thousands of times a second
            return
        ready = self._pool.ready()
        usable = {name: one for name, one in self._kinds.items() if self._may_claim(one, ready, free=free)}
        if peeks:  # to see who waits, and what is held
            usable |= {name: one for name, one in self._kinds.items() if one.takes_slot}
        if not free and not usable:
            return
        if self._gates.total_hold() is not None:
            self._look, self._nothing_left = False, True
            return
        claim = Claim(
            run=self._world.run,
            pid=self._world.pid,
            fence=self._world.fence(),
            ready=frozenset(
                name for name, one in usable.items() if one.profile in ready and (free or not one.takes_slot)
            ),
            loaded=frozenset(usable),
            inproc=frozenset(name for name, one in usable.items() if one.profile.thread),
            order=self._gates.order(self._models.loaded),
            admit=self._gates.admission(),
        )
        self._look, self._claiming = False, True
        self._lander.submit(claim, partial(self._claimed, claim.loaded))

    def _claimed(self, asked: frozenset[str], reply: ClaimReply | Raised) -> None:
        self._claiming = False
        if isinstance(reply, Raised):
            self._world.report(events.Warned("claim_failed", f"the claim failed: {reply.error}"))
            return
        for one in reply.refused:
            self._world.report(ended_unseen(one.job, one.kind, one.number, Outcome.FAILED, one.text))
        self._gates.note(reply, asked)
        self._next_wake, self._next_try = reply.next_wake, reply.next_try
        self._nothing_left = reply.claimed is None and not reply.wanted
        self._short = bool(reply.wanted)
        if reply.claimed is not None:
            self._look = True
            self._make_room(reply.claimed)
        if reply.wanted:
            if self._free() <= 0:
                self._turns.make_way(reply.wanted[0])
            self._wanted = list(dict.fromkeys(self._kinds[head.kind].profile for head in reply.wanted))
            self._have_children()

    def _have_children(self) -> None:
        """Have a child of each that is wanted, in claim order; then more of them, one for each free slot."""
        for many in (1, self._free()) if self._short else (1,):
            for number, profile in enumerate(self._wanted):
                self._pool.want(profile, many, better=self._wanted[:number])

    def _make_room(self, claimed: Claimed) -> None:
        """Have what the job needs in memory before any child is given it (SPEC C137)."""
        if self._models.needs(claimed):
            self._loading[claimed.attempt] = claimed
            self._models.ensure(claimed, self._loaded)
        else:
            self._unplaced.append((claimed, self._world.monotonic()))
            self._place()

    def _loaded(self, claimed: Claimed, why_not: str) -> None:
        """Place a job whose model is there; defer one whose model cannot be."""
        if self._loading.pop(claimed.attempt, None) is None:  # given back meanwhile
            return
        if why_not:
            wake_at = self._world.now() + int(REVIVE_SECONDS * MICROS)
            self._release(claimed, Verdict(Move.DEFER, why_not, wake_at=wake_at))
        else:
            self._unplaced.append((claimed, self._world.monotonic()))
            self._place()

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
        while self._loading:
            self._release(self._loading.popitem()[1])

    def _release(self, claimed: Claimed, verdict: Verdict = GIVEN_BACK) -> None:
        """Return a job that no child ever saw; no failure is counted."""
        finish = Finish(
            job=claimed.job,
            attempt=claimed.attempt,
            number=claimed.number,
            run=self._world.run,
            fence=claimed.fence,
            last_seq=claimed.landed_seq,
            verdict=verdict,
            report=Report(outcome=Outcome.INTERRUPTED),
            awake=claimed.awake,
        )
        self._look = True  # what it kept from starting may start behind this
        self._lander.submit(finish, partial(self._released, claimed))

    def _released(self, claimed: Claimed, reply: Finished | Raised) -> None:
        """Tell the end of a job that was cancelled meanwhile; one that was given back has not ended."""
        if reply is Finished.CANCELLED:
            whose = claimed.job, claimed.kind, claimed.number
            self._world.report(ended_unseen(*whose, Outcome.CANCELLED, Outcome.CANCELLED))


def ignore(_reply: Any) -> None:
    """Nothing depends on the answer."""
