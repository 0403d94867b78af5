"""Who gives a slot back before its job is over: where a gate has closed, or better work has waited long.

It is asked, never made to: it yields after its next landed batch, and counts no failure (SPEC C133, U42).
"""

from typing import Final

from policies.fairness import Running, whom_to_ask
from policies.job import Head, InFlight, OnGate, Resume
from supervisor.attempt.conversation import World
from supervisor.attempt.dispatch import Dispatch
from supervisor.attempt.state import Attempt
from supervisor.run.gatekeeper import Gatekeeper
from supervisor.settings.gates import Scheduling

PEEK_SECONDS: Final = 5.0
"""How often somebody looks whether better work waits, while a job is past its quantum."""


class Turns:
    """Loop thread only."""

    def __init__(self, world: World, dispatch: Dispatch, gates: Gatekeeper, scheduling: Scheduling) -> None:
        self._world = world
        self._dispatch = dispatch
        self._gates = gates
        self._scheduling = scheduling
        self._peeked_at = world.monotonic()
        gates.yielders = self.yielders

    @property
    def in_flight(self) -> tuple[InFlight, ...]:
        """Return the jobs in flight as the gates see them."""
        return tuple(attempt.claimed.seen for attempt in self._dispatch)

    def yielders(self) -> set[tuple[str, str]]:
        """Return kind and tier of the jobs in flight that give their slot back to a gate."""
        return {
            (one.claimed.kind, one.claimed.tier)
            for one in self._dispatch
            if one.options.on_gate == OnGate.YIELD and not one.stop_sent
        }

    def promised(self) -> int:
        """Return the bytes that running jobs were granted and do not hold yet."""
        return sum(map(self._missing, self._dispatch))

    def turn(self) -> None:
        """Ask the jobs whose gate has closed for their slot."""
        why = self._gates.to_yield(self.in_flight) if self.yielders() else {}
        for attempt in self._dispatch:
            if (blocked := why.get(attempt.claimed.job)) is not None and goes_on(attempt):
                self._ask(attempt, blocked.text)
        jobs = {attempt.claimed.job for attempt in self._dispatch}
        for job in self._gates.yielding.keys() - jobs:
            del self._gates.yielding[job]

    def is_due(self) -> bool:
        """Tell whether it is time to look for better work: a job that could yield is past its quantum."""
        now = self._world.monotonic()
        if now < self._peeked_at + PEEK_SECONDS or not any(
            one.seconds >= self._scheduling.quantum for one in self._running()
        ):
            return False
        self._peeked_at = now
        return bool(self._scheduling.quantum)

    def make_way(self, best: Head) -> None:
        """Ask whoever should yield to the best job that waits."""
        job = whom_to_ask(
            self._running(), best, self._world.now(), self._scheduling.quantum, self._scheduling.aging
        )
        for attempt in self._dispatch:
            if attempt.claimed.job == job:
                self._ask(attempt, f"#{best.job} waits")

    def _running(self) -> list[Running]:
        now = self._world.monotonic()
        return [
            Running(attempt.claimed.job, attempt.claimed.priority, now - attempt.clocks.began)
            for attempt in self._dispatch
            if attempt.loaded.takes_slot and not attempt.stop_sent and goes_on(attempt)
        ]

    def _missing(self, attempt: Attempt) -> int:
        grant = self._gates.grant(attempt.claimed.seen)
        return max(0, grant - int(attempt.worker.child.rss_gib() * (1 << 30))) if grant else 0

    def _ask(self, attempt: Attempt, why: str) -> None:
        if self._dispatch.ask_to_yield(attempt, why):
            self._gates.yielding[attempt.claimed.job] = why


def goes_on(attempt: Attempt) -> bool:
    """Tell whether a job keeps what it has done when it yields: one that starts over would never be done."""
    return attempt.options.resume != Resume.RESTART
