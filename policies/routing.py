"""Which tier a job belongs to, its window and its priority (SPEC C110-C113, U35).

explicit > declared > the table of kinds > a router's advice > routine

The table comes before the router: it is asked only about jobs of which nobody has said anything (`is_open`),
and what it cannot answer is left to the rules. A *tier* is what jobs share a model, a window and gates by.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from typing import Any, Final, NamedTuple

from policies.job import Priority
from policies.options import LARGEST, LARGEST_SIZE, is_int

PINNED: Final = "pinned"
SYNTHESIS: Final = "synthesis"
STRETCH: Final = "stretch"
ROUTINE: Final = "routine"


class LoaderName(StrEnum):
    """Who loads a tier's model: nobody, the child that uses it, an Ollama server."""

    NONE = "none"
    CHILD = "child"
    OLLAMA = "ollama"


@dataclass(frozen=True, slots=True)
class Tier:
    """What jobs of one tier need.

    Attributes:
        name: as settings and rows name it.
        model: the model that its jobs use, None for none.
        memory: bytes that the model takes, 0 for none.
        window: tokens that the model is loaded with, 0 for none.
        heavy: its jobs wait for an absent owner and for mains.
        pinned: its model stays loaded always.
        evicts_pinned: its model runs alone, without the pinned one.
        loader: a `LoaderName`.
    """

    name: str
    model: str | None = None
    memory: int = 0
    window: int = 0
    heavy: bool = False
    pinned: bool = False
    evicts_pinned: bool = False
    loader: str = LoaderName.NONE


BUILT_IN: Final[Mapping[str, Tier]] = {
    PINNED: Tier(PINNED, pinned=True),
    SYNTHESIS: Tier(SYNTHESIS, heavy=True),
    STRETCH: Tier(STRETCH, heavy=True),
    ROUTINE: Tier(ROUTINE),
}
"""The tiers that there are without any settings: none has a model."""


def heavy_tiers(tiers: Iterable[Tier]) -> frozenset[str]:
    """Return the names of those tiers that are heavy."""
    return frozenset(tier.name for tier in tiers if tier.heavy)


HEAVY_TIERS: Final = heavy_tiers(BUILT_IN.values())
"""The heavy ones of the built-in tiers, said here and nowhere else (SPEC C131)."""

RULES: Final[Mapping[str, str]] = {
    **dict.fromkeys(("route", "classify", "watchdog"), PINNED),
    **dict.fromkeys(
        ("vault_sync", "ambassador", "chat_sync", "chat_events", "integrate", "code_sync"), PINNED
    ),
    **dict.fromkeys(("curate", "dream", "synthesize", "research", "compact", "ambassador_task"), SYNTHESIS),
}
"""Kind -> tier; every other kind is routine (SPEC C111)."""

HOUSEKEEPING: Final = frozenset({"vault_sync", "chat_sync", "chat_events", "integrate", "code_sync"})
"""Pinned because they use no model; nobody waits for them, so they do not take their tier's priority."""

PRIORITIES: Final[Mapping[str, int]] = {
    kind: Priority.REACTIVE if tier == PINNED and kind not in HOUSEKEEPING else Priority.BACKGROUND
    for kind, tier in RULES.items()
}
"""Kind -> its priority where nobody declares one (SPEC C112).

It is the kind's and not its tier's (SPEC U35): whatever else is pinned would outrank the owner. Kinds that
the table does not name have the default, 50 (SPEC C72).
"""

Router = Callable[[str, Any], object]
"""`router(kind, payload)` names a tier, or None; whatever else it does costs its advice, never the job."""


class Advice(NamedTuple):
    """What a router said of one job: the name of a tier, it seems, or None and in `fallback` why not."""

    tier: str | None
    fallback: str = ""


class Decider(StrEnum):
    """What decided the tier."""

    EXPLICIT = "explicit"
    DECLARED = "declared"
    RULE = "rule"


@dataclass(frozen=True, slots=True)
class Plan:
    """Where a job goes.

    Attributes:
        tier: its tier's name.
        window: tokens that the tier's model is loaded with, so that equal windows batch.
        priority: lower runs first.
        by: what decided the tier.
    """

    tier: str
    window: int
    priority: int
    by: Decider


class UnknownTier(ValueError):
    """A job or a kind names a tier that nobody defined; `known` are those that there are."""

    def __init__(self, tier: str, known: Iterable[str]) -> None:
        self.tier = tier
        self.known = tuple(sorted(known))
        super().__init__(f"unknown tier {tier[:64]!r}")


def route(
    kind: str,
    *,
    windows: Mapping[str, int],
    explicit_tier: str | None = None,
    declared_tier: str | None = None,
    explicit_priority: int | None = None,
    declared_priority: int | None = None,
) -> Plan:
    """Decide a job's tier, window and priority.

    Args:
        kind: its kind, known or not.
        windows: tier -> window of all tiers that are defined; the built-in ones need not be named.
        explicit_tier: what the job itself says, None for nothing.
        declared_tier: what its kind says, None or "" for nothing.
        explicit_priority: what the job itself says; 0 is a priority, None is nothing.
        declared_priority: what its kind says, likewise.

    Raises:
        UnknownTier: the tier that was said is not defined.
    """
    known = {**dict.fromkeys(BUILT_IN, 0), **windows}
    if explicit_tier is not None:
        tier, by = explicit_tier, Decider.EXPLICIT
    elif declared_tier:
        tier, by = declared_tier, Decider.DECLARED
    else:
        tier, by = RULES.get(kind, ROUTINE), Decider.RULE
    if tier not in known:
        raise UnknownTier(tier, known)
    said = explicit_priority if explicit_priority is not None else declared_priority
    priority = said if said is not None else default_priority(kind)
    return Plan(tier, known[tier], priority, by)


def default_priority(kind: str) -> int:
    """Return the priority of a job whose kind has declared none."""
    return PRIORITIES.get(kind, Priority.DEFAULT)


def is_open(kind: str, explicit_tier: str | None, declared_tier: str | None) -> bool:
    """Tell whether a router may be asked: nobody has said a tier, neither job nor kind nor the table."""
    return explicit_tier is None and not declared_tier and kind not in RULES


def ask(router: Router, kind: str, payload: Any) -> Advice:
    """Ask a router about one job; whatever it does, the job can be enqueued."""
    try:
        answer = router(kind, payload)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - a model that fails must keep no job out
        return Advice(None, f"the router raised {type(error).__name__}")
    if answer is None:
        return Advice(None)  # it knows none, as it may
    if not isinstance(answer, str):
        return Advice(None, f"the router said no tier but a value of type {type(answer).__name__}")
    return Advice(str.__str__(answer))


def no_tier(answer: str) -> str:
    """Say that what a router named is no tier."""
    return f"the router said {answer[:40]!r}, which is no tier"


TIER_KEYS: Final = tuple(field.name for field in fields(Tier) if field.name != "name")
"""What a section [tiers.NAME] may say."""
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
SIZES_OF_TIERS: Final[Mapping[str, tuple[int, str]]] = {
    "memory": (LARGEST_SIZE, "bytes"),
    "window": (LARGEST, "tokens"),
}
"""What is a whole number: the highest, and of what."""


def tiers_from(values: Mapping[str, Mapping[str, Any]]) -> dict[str, Tier]:
    """Return the built-in tiers with the sections [tiers.NAME] over them, and those that are new.

    Args:
        values: NAME -> key -> value, memory in bytes.

    Raises:
        ValueError: one line a complaint, all complaints at once.
    """
    tiers, complaints = dict(BUILT_IN), []
    for name, section in values.items():
        found = list(complaints_about_section(name, section))
        if not found:
            tiers[name] = replace(tiers.get(name, Tier(name)), **section)
            found = list(complaints_about_whole(tiers[name]))
        complaints += [f"{place_of(name)} {complaint}" for complaint in found]
    warm = {tier.model: tier.name for tier in tiers.values() if tier.pinned and tier.model is not None}
    if len(warm) > 1:
        complaints.append(f"[tiers] only one model can be pinned, not those of {' and '.join(warm.values())}")
    if complaints:
        raise ValueError("\n".join(complaints))
    return tiers


def place_of(name: str) -> str:
    """Say which section is meant, on one line whatever its name holds."""
    return f"[tiers.{name}]" if NAME.fullmatch(name) else f"[tiers] {name[:64]!r}"


def complaints_about_section(name: str, section: object) -> Iterator[str]:
    """Say what is wrong with a section's name and with each of its values."""
    if not NAME.fullmatch(name):
        yield "must be named by 1 to 64 letters, digits, dots, hyphens or underscores"
    if not isinstance(section, Mapping):
        yield f"must be a section, not {section!r}"
        return
    for key, value in section.items():
        if complaint := complaint_about_tier(key, value):
            yield complaint


def complaint_about_tier(key: str, value: Any) -> str | None:
    """Say what is wrong with one key of a section [tiers.NAME], or None."""
    if key not in TIER_KEYS:
        return f"has no key {key!r}"
    if key in SIZES_OF_TIERS:
        most, unit = SIZES_OF_TIERS[key]
        good = is_int(value) and 0 <= value <= most
        return None if good else f"{key} must be a whole number of {unit} from 0 to {most}, not {value!r}"
    if key == "model":
        good = isinstance(value, str) and 0 < len(value) <= 256 and value.isprintable()
        return None if good else f"model must be a name of 1 to 256 printable characters, not {value!r}"
    if key == "loader":
        return None if value in tuple(LoaderName) else f"loader must be none, child or ollama, not {value!r}"
    return None if isinstance(value, bool) else f"{key} must be true or false, not {value!r}"


def complaints_about_whole(tier: Tier) -> Iterator[str]:
    """Say what does not go together in a tier whose values are good one by one."""
    if tier.model is not None and not tier.memory:
        yield f"says nothing of the memory that {tier.model} takes; add memory"
    if tier.loader == LoaderName.OLLAMA and tier.model is None:
        yield "names no model for ollama to load; add model"
    if tier.pinned and tier.evicts_pinned:
        yield "is pinned and evicts_pinned at once; a model cannot run without itself"
