"""What holds jobs back in one run: it knows the readings, asks the gates, and tells whoever looks.

probes --> readings --> Admission (a claim asks it)
                   `--> yields (a job in flight whose gate has closed) --> told in the run's row
"""

from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import asdict, replace
from functools import partial
from typing import Any, Final

from landing.claim import ClaimReply
from landing.enqueue import Enqueue
from landing.lander import Lander
from landing.runs import Tell
from policies import watchdog
from policies.admission import Admission
from policies.gates import vocabulary
from policies.gates.quiet import is_within
from policies.gates.union import should_yield, total_hold
from policies.gates.vocabulary import Blocked, Gate
from policies.job import InFlight, Priority
from policies.payload import payload_text
from policies.priority import in_claim_order
from policies.readings import NO_PROBE, Readings
from supervisor import events, sensors
from supervisor.application import LoadedKind
from supervisor.attempt.conversation import World
from supervisor.probes.watch import Post, Probe, Watch
from supervisor.run.telling import floor_needs, news, shape, states
from supervisor.settings.gates import Scheduling
from supervisor.told.units import duration

TELL_SECONDS: Final = 30.0
"""Figures alone are told so often at most, and only while somebody waits: each telling flushes the disk.

What opens or closes is told at once.
"""
LOOK_SECONDS: Final = 0.25
"""A loop that turns a thousand times a second looks so often at what it has to tell."""
LINGER_SECONDS: Final = 60.0
"""A reading is kept fresh for so long after somebody last went by it: the next job need not wait for it."""


class Gatekeeper:
    """Loop thread only.

    Attributes:
        listener: called when a gate may have opened.
        promised: returns the bytes that claimed jobs were granted and do not hold yet.
        refused: by tier, why its model cannot be loaded for now.
        yielding: the jobs that were asked for their slot, each with the reason.
        models: returns how the books of models stand, None where there are none.
        yielders: returns kind and tier of the jobs in flight that give their slot back to a gate.
    """

    def __init__(
        self,
        world: World,
        kinds: Mapping[str, LoadedKind],
        scheduling: Scheduling,
        probes: Mapping[str, Probe],
        lander: Lander,
        post: Post,
    ) -> None:
        self._world = world
        options = {name: loaded.options for name, loaded in kinds.items()}
        self._admission = Admission(kinds=options, tiers=scheduling.tiers, limits=scheduling.limits)
        self._scheduling = scheduling
        self._lander = lander
        self._watch = Watch(probes, post, self._news, scheduling.limits.presence or 1.0)
        self._alarms = watchdog.Watch()
        self._guards = watchdog.KIND in kinds
        self._always = floor_needs(scheduling.limits)
        if self._guards:
            self._always |= {Gate.MEMORY.value}
        self._needed_at: dict[str, float] = {}
        self._dirty, self._looked_at = True, world.monotonic()
        self._wanted: frozenset[str] = frozenset()
        self._held: Mapping[str, str] = {}
        self._blocked: Mapping[str, tuple[Blocked, ...]] = {}
        self._said: dict[str, frozenset[str]] = {}
        self._groups: set[tuple[str, str]] = set()
        self._quiet = self._is_quiet()
        self._told: dict[str, Any] = {}
        self._paused: dict[str, Any] | None = None
        self._told_at = world.monotonic() - TELL_SECONDS
        self.listener: Callable[[], None] = lambda: None
        self.promised: Callable[[], int] = lambda: 0
        self.refused: dict[str, str] = {}
        self.yielding: dict[int, str] = {}
        self.models: Callable[[], Mapping[str, Any] | None] = lambda: None
        self.yielders: Callable[[], Iterable[tuple[str, str]]] = tuple
        self._want(())

    @property
    def readings(self) -> Readings:
        """Return what is known of the machine now."""
        return self._watch.readings

    @property
    def settled(self) -> bool:
        """Tell whether every reading that a gate goes by has been taken once, or tried."""
        return all(getattr(self.readings, name).source != NO_PROBE for name in self._wanted)

    def order(self, loaded: tuple[str, int] | None) -> Any:
        """Return what puts heads into claim order, given what is loaded."""
        return partial(in_claim_order, loaded=loaded, aging=self._scheduling.aging)

    def admission(self) -> Admission:
        """Return what a claim made now asks about each head."""
        return replace(
            self._admission,
            readings=self.readings,
            minute=sensors.local_minute(),
            promised=self.promised(),
            refused=dict(self.refused),
        )

    def total_hold(self) -> Blocked | None:
        """Say why nothing at all may start now."""
        return total_hold(vocabulary.World(readings=self.readings, limits=self._scheduling.limits))

    def to_yield(self, in_flight: Iterable[InFlight]) -> dict[int, Blocked]:
        """Return which jobs in flight should give their slot back, and why."""
        admission, jobs = self.admission(), tuple(in_flight)
        world, found = admission.world(jobs, self._held), {}
        for job in jobs:
            if (why := should_yield(self._admission.rule(job.kind, job.tier), world)) is not None:
                found[job.job] = why
        return found

    def grant(self, job: InFlight) -> int:
        """Return the bytes that a job was let in for, 0 where nobody asked."""
        return self._admission.rule(job.kind, job.tier).memory

    def note(self, reply: ClaimReply, asked: Set[str]) -> None:
        """Keep what a claim held back of the kinds that it `asked` for, and say for whom that is new."""
        before = {kind: why for kind, why in self._blocked.items() if kind not in asked}
        blocked = before | dict(reply.blocked)
        self._groups = {one for one in self._groups if one[0] not in asked} | reply.groups
        self._want(self._groups)
        self._dirty = self._dirty or blocked != self._blocked
        self._held, self._blocked = reply.held, blocked
        if reply.claimed is not None:
            self._said.pop(reply.claimed.kind, None)
        for event in news(self._said, reply.blocked):
            self._said[event.kind] = self._said.get(event.kind, frozenset()) | {event.gate}
            self._world.report(event)

    def woke(self, seconds: float) -> None:
        """Nobody ran for so long: say so, for no job's clock counts it and no lease was lost by it."""
        self._dirty = True
        self._paused = {"seconds": round(seconds, 1), "until": self._world.now()}
        text = f"woke after {duration(seconds)} asleep or stopped; no clock of a job counts it"
        self._world.report(events.Warned("woke", text))

    def _want(self, groups: Iterable[tuple[str, str]]) -> None:
        """Keep the readings fresh that something depends on: jobs that wait for a gate, or yield to one."""
        now = self._world.monotonic()
        for name in self._admission.depends_on((*groups, *self.yielders())):
            self._needed_at[name] = now
        needed = {name for name, at in self._needed_at.items() if now < at + LINGER_SECONDS}
        self._wanted = self._always | needed
        self._watch.want(self._wanted, calm=self._always - needed)

    def turn(self, now: float) -> None:
        """Ask the probes that are due; notice that quiet hours began or ended; tell what has changed."""
        self._watch.turn(now)  # at every turn: the loop does not wait while a probe is due
        if not self._dirty and now < self._looked_at + LOOK_SECONDS:
            return
        self._dirty, self._looked_at = False, now
        self._want(self._groups)
        if self._guards:
            self._look_for_alarms()
        if self._scheduling.limits.quiet and (quiet := self._is_quiet()) != self._quiet:
            self._quiet = quiet
            self.listener()
        self._tell(now)

    def next_due(self) -> float:
        """Return when `turn` has something to do, monotonic."""
        return self._watch.next_due()

    def close(self) -> None:
        """Ask nothing more."""
        self._watch.close()

    def facts(self) -> dict[str, Any]:
        """Return how the gates stand, as JSON values."""
        return {
            "gates": list(states(self.readings, self._scheduling.limits, self._wanted, quiet=self._quiet)),
            "blocked": {kind: [asdict(one) for one in why] for kind, why in self._blocked.items()},
            "yielding": {str(job): why for job, why in self.yielding.items()},
            "models": self.models(),
            "paused": self._paused,
            "total": None if (hold := self.total_hold()) is None else asdict(hold),
        }

    def _tell(self, now: float) -> None:
        """Write the facts down where they differ: at once what opened or closed, figures now and then."""
        facts = self.facts()
        stale = bool(self._blocked) and now >= self._told_at + TELL_SECONDS
        if facts == self._told or (shape(facts) == shape(self._told) and not stale):
            return
        self._told, self._told_at = facts, now
        self._lander.submit(Tell(self._world.run, facts | {"at": self._world.now()}), lambda _reply: None)

    def _news(self, _readings: Readings) -> None:
        self._dirty = True
        self.listener()

    def _look_for_alarms(self) -> None:
        """Raise one where a reading has become alarming, by however little: that need not be news."""
        self._alarms = watchdog.rising(self._alarms, self.readings.memory)
        for flag in self._alarms.risen:
            self._raise_alarm(flag)

    def _raise_alarm(self, flag: watchdog.Flag) -> None:
        """One job for a reading that has become alarming, at the next boundary (SPEC C115)."""
        self._world.report(events.Warned(watchdog.KIND, flag.note))
        payload = payload_text(flag.payload)
        alarm = Enqueue(kind=watchdog.KIND, payload=payload, priority=Priority.REACTIVE, key=flag.metric)
        self._lander.submit(alarm, lambda _reply: self.listener())

    def _is_quiet(self) -> bool:
        minute = sensors.local_minute()
        return any(is_within(minute, start, end) for start, end in self._scheduling.limits.quiet)
