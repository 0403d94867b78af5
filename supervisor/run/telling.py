"""How the gates of a run stand, as JSON values, and what of that is news to whoever looks."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from policies.gates.presence import is_present
from policies.gates.vocabulary import Blocked, Gate, Limits
from policies.readings import NO_PROBE, Power, Readings
from supervisor import events

FIGURES: Final = re.compile(r"[\d.]+")
BUSY: Final = frozenset({Gate.MODEL, Gate.MAX_RUNNING})
"""Gates that open and close with every job."""


def news(
    said: Mapping[str, frozenset[str]], blocked: Mapping[str, tuple[Blocked, ...]]
) -> Iterator[events.Waits]:
    """Yield which kinds wait for a gate that was not `said` since one of their jobs started last."""
    for kind, why in sorted(blocked.items()):
        fresh = [one for one in why if one.gate not in BUSY | said.get(kind, frozenset())]
        if fresh and not any(NO_PROBE in one.text for one in why):
            yield events.Waits(kind, fresh[0].gate, fresh[0].text, fresh[0].until)


def floor_needs(limits: Limits) -> frozenset[str]:
    """Return the readings that the power floor goes by: it holds for every kind."""
    return frozenset({Gate.POWER.value} if limits.power and limits.power_floor else ())


def states(
    readings: Readings, limits: Limits, wanted: frozenset[str], *, quiet: bool
) -> Iterable[dict[str, Any]]:
    """Yield each gate that something goes by: its name, whether it is closed, its reading, who said so."""
    if Gate.POWER in wanted:
        power = readings.power
        yield {
            "gate": Gate.POWER,
            "closed": limits.power and power.state is not Power.MAINS,
            "state": power.state,
            "percent": power.percent,
            "source": power.source,
        }
    if Gate.PRESENCE in wanted:
        idle = readings.presence.idle_s
        yield {
            "gate": Gate.PRESENCE,
            "closed": is_present(readings.presence, limits),
            "state": "unknown"
            if idle is None
            else "present"
            if is_present(readings.presence, limits)
            else "away",
            "idle_s": None if idle is None or idle == float("inf") else round(idle),
            "source": readings.presence.source,
        }
    if Gate.MEMORY in wanted:
        memory = readings.memory
        yield {
            "gate": Gate.MEMORY,
            "closed": False,
            "available": memory.available,
            "total": memory.total,
            "pressure": memory.pressure,
            "source": memory.source,
        }
    if limits.quiet:
        yield {"gate": Gate.QUIET, "closed": quiet}


def shape(facts: Mapping[str, Any]) -> Any:
    """Return what of the facts is no figure: which gates are closed, and who is blocked by what."""
    return (
        [(gate["gate"], gate["closed"], gate.get("state")) for gate in facts.get("gates", ())],
        {
            kind: [(one["gate"], FIGURES.sub("", one["text"])) for one in why]
            for kind, why in facts.get("blocked", {}).items()
        },
        bool(facts.get("total")),
        facts.get("yielding"),
        facts.get("paused"),
        loaded(facts.get("models") or {}),
    )


def loaded(models: Mapping[str, Any]) -> Any:
    """Return what of the books is worth telling at once."""
    residents = [(one["name"], one["pinned"], one["jobs"]) for one in models.get("residents") or ()]
    return residents, models.get("error"), models.get("swaps")
