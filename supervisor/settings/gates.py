"""The sections [gates], [tiers] and [order]: when heavy work waits, what it loads, and who goes first."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from policies.gates.vocabulary import Limits
from policies.priority import Aging
from policies.residency import CEILING, Ceiling, Model, Refused, Resident, plan_load
from policies.routing import BUILT_IN, Tier, tiers_from
from supervisor.told import units
from supervisor.told.spelling import did_you_mean

DEDICATED: Final = "dedicated"
SPAN: Final = re.compile(r"([01]\d|2[0-3]):([0-5]\d)-([01]\d|2[0-4]):([0-5]\d)")
OLLAMA: Final = "http://127.0.0.1:11434"
WRITE_SECONDS: Final = units.HOW_TO_WRITE
WRITE_SPANS: Final = 'spans of the day like ["22:00-07:00", "12:30-14:00"] (two digits each)'
WRITE_BYTES: Final = units.HOW_TO_WRITE_SIZES


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheduling:
    """What decides who may start, and who goes first.

    Attributes:
        limits: where the gates close.
        tiers: the built-in ones and those of [tiers], by name.
        ceiling: what all models may take together.
        ollama: where the server of tiers with that loader answers.
        aging: how waiting makes a job more urgent.
        quantum: seconds that a job may keep its slot while better work waits, 0 for any.
    """

    limits: Limits = field(default_factory=Limits)
    tiers: Mapping[str, Tier] = field(default_factory=lambda: dict(BUILT_IN))
    ceiling: Ceiling = field(default_factory=Ceiling)
    ollama: str = OLLAMA
    aging: Aging = field(default_factory=Aging)
    quantum: float = 60.0


Complain = Callable[[str], None]


def scheduling(content: Mapping[str, Any], complain: Complain) -> Scheduling:
    """Read the sections; what is wrong is complained about, and its default stands."""
    gates = dict(values(content, "gates", GATES, complain))
    order = dict(values(content, "order", ORDER, complain))
    defaults = Scheduling()
    ceiling = Ceiling(usable=gates.pop("models", defaults.ceiling.usable))
    ollama, quantum = gates.pop("ollama", OLLAMA), order.pop("quantum", defaults.quantum)
    found = tiers(content.get("tiers", {}), complain)
    for line in never_loaded(found, ceiling):
        complain(line)
    return Scheduling(
        limits=Limits(**gates),
        tiers=found,
        ceiling=ceiling,
        ollama=ollama,
        aging=Aging(**order),
        quantum=quantum,
    )


def values(
    content: Mapping[str, Any], section: str, keys: Mapping[str, "Key"], complain: Complain
) -> Iterator[tuple[str, Any]]:
    """Yield the good values of one section, by the name of what they set."""
    table = content.get(section, {})
    if not isinstance(table, dict):
        complain(f"{section} must be a section like [{section}], not {table!r}")
        return
    for name, written in table.items():
        if name not in keys:
            complain(f"[{section}] has no key {name!r}{did_you_mean(name, keys)}")
            continue
        key = keys[name]
        value = key.read(written)
        if value is None:
            complain(f"[{section}] {name} must be {key.what}, not {key.bad(written)!r}")
        else:
            yield key.sets, value


def tiers(table: Any, complain: Complain) -> Mapping[str, Tier]:
    """Read [tiers.NAME], memory written as a size."""
    if not isinstance(table, dict):
        complain(f"tiers must be sections like [tiers.minilm], not {table!r}")
        return BUILT_IN
    try:
        return tiers_from({name: in_bytes(section) for name, section in table.items()})
    except ValueError as error:
        for line in str(error).splitlines():
            complain(line)
        return {**BUILT_IN, **{name: Tier(name) for name in table}}  # those are there, whatever they say


def never_loaded(tiers: Mapping[str, Tier], ceiling: Ceiling) -> Iterator[str]:
    """Complain about models for which there is no room, whatever else goes: the pinned one stays."""
    models = {tier.name: model_of(tier) for tier in tiers.values() if tier.model is not None}
    stays = [Resident(one.name, one.memory, pinned=True) for one in models.values() if one.pinned]
    for name, model in models.items():
        answer = plan_load(model, stays, ceiling, measured=True)
        if isinstance(answer, Refused):
            fits = "set evicts_pinned = true" if model.memory <= ceiling.usable else "lower its memory"
            why = answer.reason.removeprefix(CEILING)
            yield f"[tiers.{name}] can never be loaded:{why}; {fits}, or raise memory in [gates]"


def model_of(tier: Tier) -> Model:
    """Return what a tier needs to have loaded."""
    assert tier.model is not None
    return Model(tier.model, tier.memory, tier.window, tier.pinned, tier.evicts_pinned)


def in_bytes(section: Any) -> Any:
    """Return a section with its memory in bytes; what is no size stays, to be refused."""
    if not isinstance(section, dict) or not isinstance(section.get("memory"), str):
        return section
    size = units.size(section["memory"])
    return section | ({} if size is None else {"memory": size})


def presence(written: object) -> float | None:
    """Read how long without a touch is away; 0 where nobody sits at the machine."""
    if written == DEDICATED:
        return 0.0
    found = units.seconds(written)
    return found or None


def percent(written: object) -> float | None:
    """Read a share from 0 to 100."""
    if isinstance(written, bool) or not isinstance(written, int | float):
        return None
    return float(written) if 0 <= written <= 100 else None


def unknown_presence(written: object) -> bool | None:
    """Read what counts where nobody can tell."""
    return {"present": True, "away": False}.get(written) if isinstance(written, str) else None


def truth(written: object) -> bool | None:
    """Read true or false."""
    return written if isinstance(written, bool) else None


def spans(written: object) -> tuple[tuple[int, int], ...] | None:
    """Read spans of the day, as minutes from midnight."""
    if not isinstance(written, list):
        return None
    found = [SPAN.fullmatch(one) if isinstance(one, str) else None for one in written]
    minutes = [
        (int(one[1]) * 60 + int(one[2]), int(one[3]) * 60 + int(one[4])) for one in found if one is not None
    ]
    return tuple(minutes) if len(minutes) == len(written) and all(end <= 1440 for _, end in minutes) else None


def bad_span(written: object) -> object:
    """Return the first of the spans that is none."""
    parts = written if isinstance(written, list) else ()
    return next((one for one in parts if spans([one]) is None), written)


def address(written: object) -> str | None:
    """Read where a server answers."""
    good = isinstance(written, str) and re.fullmatch(r"https?://[^\s/?#]+/?", written) is not None
    return str(written).rstrip("/") if good else None


def whole(low: int, high: int) -> Callable[[object], int | None]:
    """Return what reads a whole number within bounds."""

    def read(written: object) -> int | None:
        good = isinstance(written, int) and not isinstance(written, bool) and low <= written <= high
        return written if good and isinstance(written, int) else None

    return read


def whole_value(written: object) -> object:
    """Return all of what was written."""
    return written


@dataclass(frozen=True, slots=True)
class Key:
    """One key of a section: what it sets, what reads it, what its value must be, and what of one is bad."""

    sets: str
    read: Callable[[object], Any]
    what: str
    bad: Callable[[object], object] = whole_value


GATES: Final[Mapping[str, Key]] = {
    "presence": Key("presence", presence, f'a time over 0 or "{DEDICATED}"{WRITE_SECONDS}'),
    "unknown_presence": Key("unknown_is_present", unknown_presence, '"present" or "away"'),
    "power": Key("power", truth, "true or false"),
    "power_floor": Key("power_floor", percent, "a number from 0 to 100"),
    "memory": Key("models", units.size, f"a number of bytes{WRITE_BYTES}"),
    "memory_reserve": Key("memory_reserve", units.size, f"a number of bytes{WRITE_BYTES}"),
    "quiet": Key("quiet", spans, WRITE_SPANS, bad_span),
    "ollama": Key("ollama", address, 'an address like "http://127.0.0.1:11434"'),
}
ORDER: Final[Mapping[str, Key]] = {
    "aging": Key("step_seconds", units.seconds, f"a time, 0 for none{WRITE_SECONDS}"),
    "aging_step": Key("step", whole(0, 10**6), "a whole number from 0 to 1000000"),
    "aging_floor": Key("floor", whole(-(10**6), 10**6), "a whole number from -1000000 to 1000000"),
    "quantum": Key("quantum", units.seconds, f"a time, 0 for none{WRITE_SECONDS}"),
}
