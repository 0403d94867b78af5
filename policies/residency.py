"""Which models may be in memory together, and what must go before another comes (SPEC C135-C140, U28).

One pinned model stays warm, one slot is for the model of whoever works now. What no setting names is
somebody else's, a *consumer*: it counts in bytes, has no slot, and is never evicted. The check comes before
any load or unload, and a refusal changes nothing: whole or not at all.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import Final

CEILING: Final = "ceiling:"
"""What the reason of every refusal starts with: such a job is deferred, never failed (SPEC C137)."""


@dataclass(frozen=True, slots=True)
class Model:
    """What a tier needs to have loaded.

    Attributes:
        name: what its loader knows it by.
        memory: bytes that it takes; 0 where nobody says.
        window: tokens that it is loaded for; 0 leaves it to the loader.
        pinned: it stays warm, beside the slot of the workers.
        evicts_pinned: it runs alone; has no meaning for a pinned model.
    """

    name: str
    memory: int
    window: int = 0
    pinned: bool = False
    evicts_pinned: bool = False

    @property
    def key(self) -> str:
        """What a change of is a swap: the model and its window."""
        return f"{self.name}/{self.window}"


@dataclass(frozen=True, slots=True)
class Resident:
    """A model that is in memory now.

    Attributes:
        name: what its loader knows it by.
        memory: bytes that it takes; None where nobody can tell.
        pinned: it stays warm.
        alone: it suffers no other beside it.
        window: tokens that it was loaded for; None where nobody can tell.
        consumer: no setting names it: somebody else has loaded it.
    """

    name: str
    memory: int | None
    pinned: bool = False
    alone: bool = False
    window: int | None = None
    consumer: bool = False


@dataclass(frozen=True, slots=True)
class Ceiling:
    """How many bytes all models may take together, and how many they may be."""

    usable: int = 24_000_000_000
    most: int = 2


@dataclass(frozen=True, slots=True)
class Load:
    """Go on: unload these, in this order; then load the model, unless it is there (`loads`)."""

    evict: tuple[str, ...] = ()
    loads: bool = False


@dataclass(frozen=True, slots=True)
class Refused:
    """Not now, and nothing has been touched; the reason starts with "ceiling:"."""

    reason: str


@dataclass(frozen=True, slots=True)
class Swaps:
    """How often the workers' slot changed its load key (SPEC C138); the first load is no change."""

    key: str | None = None
    count: int = 0


def swapped(swaps: Swaps, model: Model) -> Swaps:
    """Count work with a model; that of a pinned one is not in the slot."""
    if model.pinned or model.key == swaps.key:
        return swaps
    return Swaps(model.key, swaps.count + (swaps.key is not None))


def recognised(residents: Iterable[Resident], models: Iterable[Model]) -> tuple[Resident, ...]:
    """Add to residents what the settings say about them; of two sizes the larger is believed.

    Whatever they do not name is a consumer.
    """
    known: dict[str, list[Model]] = {}
    for model in models:
        known.setdefault(model.name, []).append(model)
    return tuple(
        described(one, known[one.name]) if one.name in known else replace(one, consumer=True)
        for one in residents
    )


def described(resident: Resident, models: Iterable[Model]) -> Resident:
    """Add to a resident what its tiers say about it."""
    models = tuple(models)
    sizes = [resident.memory or 0, *(model.memory for model in models)]
    pinned = any(model.pinned for model in models)
    alone = not pinned and any(model.evicts_pinned for model in models)
    return replace(resident, memory=max(sizes) or None, pinned=pinned, alone=alone)


def plan_load(
    wanted: Model | None,
    residents: Iterable[Resident] | None,
    ceiling: Ceiling,
    *,
    measured: bool,
    in_use: Collection[str] = (),
) -> Load | Refused:
    """Decide whether a model may be in memory now, and what must go for it.

    Args:
        wanted: what the job's tier needs; None: nothing.
        residents: what is in memory, as `recognised`; None: nobody has ever been able to tell.
        ceiling: what there may be.
        measured: the residents are what is, not what was when it could last be seen.
        in_use: names of residents that a running job works with; they are not evicted.
    """
    if wanted is None:
        return Load()
    if not wanted.pinned and (doubt := unaccounted(wanted, residents)):
        return refused(doubt, measured=measured)
    consumers = tuple(one for one in residents or () if one.consumer)
    ours = tuple(one for one in residents or () if not one.consumer)
    others = tuple(one for one in ours if one.name != wanted.name)
    mine = next((one for one in ours if one.name == wanted.name), None)
    busy = frozenset(in_use)
    size = cost(wanted, mine)
    complaint = ""
    for stays in choices(wanted, others, busy):
        complaint = breach(wanted, size, stays, ceiling) or crowding(wanted, size, stays, consumers, ceiling)
        if not complaint:
            kept = {one.name for one in stays}
            evict = tuple(one.name for one in others if one.name not in kept)
            return Load(evict, loads=mine is None or is_short(mine, wanted))
    return refused(complaint, measured=measured)


def unaccounted(wanted: Model, residents: Iterable[Resident] | None) -> str:
    """Say what of the accounts is unknown, "" where they are complete: an unknown cost admits no load."""
    if residents is None:
        return "nobody can tell what is in memory"
    if wanted.memory <= 0:
        return f"nobody says how much memory {wanted.name} takes (set memory of its tier)"
    uncosted = [one for one in residents if one.memory is None and (one.consumer or one.name != wanted.name)]
    if not uncosted:
        return ""
    names = ", ".join(one.name for one in uncosted)
    return f"nobody can tell how much memory {names} takes{way_out(one for one in uncosted if one.consumer)}"


def choices(
    wanted: Model, others: Iterable[Resident], busy: Collection[str]
) -> tuple[tuple[Resident, ...], ...]:
    """Return the sets of residents that may stay beside a model, the one to prefer first.

    A worker takes the slot of the worker before it. The pinned model lets a worker stay that fits beside it.
    """
    others = tuple(others)
    if not wanted.pinned:
        leave = tuple(one for one in others if one.name in busy or (one.pinned and not wanted.evicts_pinned))
        return (leave,)
    used = tuple(one for one in others if one.name in busy)
    beside = tuple(one for one in others if one.name in busy or not (one.pinned or one.alone))
    return (beside, used)


def breach(wanted: Model, size: int, stays: Iterable[Resident], ceiling: Ceiling) -> str:
    """Say what a model and those that stay beside it would breach, "" where nothing.

    Args:
        wanted: the model.
        size: bytes of it.
        stays: who stays, of those that have a slot.
        ceiling: what there may be.
    """
    stays = tuple(stays)
    names = ", ".join(one.name for one in stays)
    if stays and wanted.evicts_pinned and not wanted.pinned:
        return f"{wanted.name} runs alone, and {names} is in use"
    if alone := [one.name for one in stays if one.alone]:
        return f"{alone[0]} runs alone, and is in use"
    if same := [one.name for one in stays if one.pinned == wanted.pinned]:
        return f"{wanted.name} needs the slot of {same[0]}, which is in use"
    total = size + sum(one.memory or 0 for one in stays)
    beside = f" beside {names}" if stays else ""
    if total > ceiling.usable:
        return f"{wanted.name}{beside} would make it {gigabytes(total)} of {gigabytes(ceiling.usable)} GB"
    if 1 + len(stays) > ceiling.most:
        return f"{wanted.name}{beside} would make it {1 + len(stays)} models of {ceiling.most}"
    return ""


def crowding(
    wanted: Model, size: int, stays: Iterable[Resident], consumers: Iterable[Resident], ceiling: Ceiling
) -> str:
    """Say which consumers leave no room for a model that fits without them, "" where it fits (SPEC C139).

    Args:
        wanted: the model.
        size: bytes of it.
        stays: who stays, of those that have a slot.
        consumers: what others have loaded.
        ceiling: what there may be.
    """
    stays, consumers = tuple(stays), tuple(consumers)
    total = size + sum(one.memory or 0 for one in (*stays, *consumers))
    if not consumers or total <= ceiling.usable:
        return ""
    beside = [one.name for one in stays]
    beside += [f"{one.name} ({gigabytes(one.memory)} GB)" for one in consumers if one.memory is not None]
    makes = f"would make it {gigabytes(total)} of {gigabytes(ceiling.usable)} GB"
    return f"{wanted.name} beside {', '.join(beside)} {makes}{way_out(consumers)}"


def way_out(consumers: Iterable[Resident]) -> str:
    """Say what ends a wait for consumers, "" for none: nothing of ours unloads them."""
    names = " or ".join(one.name for one in consumers)
    return f"; no setting names {names}: goes on when it has left (ollama stop unloads it)" if names else ""


def refused(complaint: str, *, measured: bool) -> Refused:
    """Word a refusal; one that goes by old knowledge says so."""
    return Refused(f"{CEILING} {complaint}" + ("" if measured else " (unreconciled)"))


def cost(wanted: Model, mine: Resident | None) -> int:
    """Return bytes: what is declared, or what it takes already where that is more."""
    return max(wanted.memory, (mine.memory or 0) if mine is not None else 0)


def is_short(mine: Resident, wanted: Model) -> bool:
    """Tell whether a model was loaded for fewer tokens than are wanted."""
    return mine.window is not None and mine.window < wanted.window


def gigabytes(size: int) -> str:
    """Return a size in GB, rounded to a hundredth."""
    return f"{size / 1e9:.2f}".rstrip("0").rstrip(".")
