"""What a claim asks about each head: the gates of its kind and tier, on readings of this moment.

Admission (what the loop knows) --in flight, held--> World --a head's Rule--> Blocked ...
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from policies.gates.union import blockers
from policies.gates.vocabulary import CHOSEN, Blocked, Gate, Limits, Rule, World
from policies.job import Head, InFlight, OnGate
from policies.options import Options
from policies.readings import Readings
from policies.routing import LoaderName, Tier
from policies.verdict import Asks

NO_TIER: Final = Tier("")
PROBED: Final = frozenset({Gate.PRESENCE, Gate.POWER, Gate.MEMORY})
"""The gates that go by a reading; each has the name of its reading."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """What holds back whom at this moment.

    Attributes:
        kinds: the limits of each kind that can run.
        tiers: those of the settings, by name.
        limits: where the gates close.
        readings: what the sensors said last.
        minute: minutes since midnight, local time.
        promised: bytes that claimed jobs were granted and do not hold yet.
        refused: by tier, why its model cannot be loaded for now.
        rules: those that were asked for before, by kind and tier; the same for the life of a run.
    """

    kinds: Mapping[str, Options]
    tiers: Mapping[str, Tier]
    limits: Limits
    readings: Readings = field(default_factory=Readings)
    minute: int = 0
    promised: int = 0
    refused: Mapping[str, str] = field(default_factory=dict)
    rules: dict[tuple[str, str], Rule] = field(default_factory=dict)

    def __call__(self, in_flight: Sequence[InFlight], held: Mapping[str, str]) -> Asks:
        """Return the question for one claim; equal heads are judged once."""
        world = self.world(in_flight, held)
        known: dict[tuple[str, str], tuple[Blocked, ...]] = {}

        def ask(head: Head) -> tuple[Blocked, ...]:
            if (group := (head.kind, head.tier)) not in known:
                known[group] = tuple(self.reasons(head.kind, head.tier, world))
            return known[group]

        return ask

    def world(self, in_flight: Sequence[InFlight], held: Mapping[str, str]) -> World:
        """Return what the gates look at."""
        tiers = self.tiers.values()
        return World(
            readings=self.readings,
            limits=self.limits,
            in_flight=tuple(in_flight),
            held=held,
            promised=self.promised,
            minute=self.minute,
            models={tier.name: tier.model for tier in tiers if tier.model is not None},
            pinned=frozenset(tier.name for tier in tiers if tier.pinned),
        )

    def reasons(self, kind: str, tier: str, world: World) -> Iterator[Blocked]:
        """Yield why no job of a kind and tier may start."""
        yield from blockers(self.rule(kind, tier), world)
        if why := self.refused.get(tier):
            yield Blocked(Gate.MODEL, why, "what is loaded changes")

    def rule(self, kind: str, tier: str) -> Rule:
        """Return what a kind's jobs ask of the gates in a tier; it is worked out once."""
        if (rule := self.rules.get((kind, tier))) is None:
            rule = self.rules[kind, tier] = rule_of(kind, self.kinds[kind], self.tiers.get(tier, NO_TIER))
        return rule

    def depends_on(self, groups: Iterable[tuple[str, str]]) -> frozenset[str]:
        """Return the names of the readings that the gates of some kinds, each in a tier, go by."""
        rules = [self.rule(kind, tier) for kind, tier in groups]
        return frozenset(gate.value for rule in rules for gate in rule.gates & PROBED)


def rule_of(kind: str, options: Options, tier: Tier) -> Rule:
    """Return what a kind's jobs ask of the gates in a tier.

    A kind that lists no gates has those of its tier: all of them where it is heavy; where it is not, a
    job that may take much memory still starts only where that is free.
    """
    # Who keeps models elsewhere, or warm, goes by the ceiling: what is loaded already needs no free memory.
    needs = max(options.memory_limit, tier.memory if tier.loader == LoaderName.NONE else 0)
    if options.gates is not None:
        gates = frozenset(Gate(name) for name in options.gates)
    elif tier.heavy:
        gates = frozenset(CHOSEN)
    else:
        gates = frozenset({Gate.MEMORY} if needs else ())
    return Rule(
        kind=kind,
        gates=gates,
        tier=tier.name,
        model=tier.model,
        pinned=tier.pinned,
        memory=needs,
        max_running=options.max_running,
        yields=options.on_gate == OnGate.YIELD,
    )
