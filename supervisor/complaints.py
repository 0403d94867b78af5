"""What keeps an application from being run, or some of it: every check of the whole, one line a complaint.

as it is loaded:   unkept, untiered, ...        refused by all that load it
by check and run:  never_runs                   refused
                   without_effect               a warning
"""

import builtins
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from policies.admission import NO_TIER, rule_of
from policies.gates.memory import reserve
from policies.gates.quiet import clock, is_within
from policies.gates.vocabulary import Gate, Limits, Rule
from policies.job import Mode, OnGate, Resume
from policies.options import Options
from policies.readings import MemoryReading
from policies.routing import LoaderName
from supervisor import machine
from supervisor.checks import LIMITS_OF_PROCESSES, OF_LANES, OF_PROCESSES
from supervisor.told.spelling import did_you_mean
from supervisor.told.units import human_size

if TYPE_CHECKING:
    from supervisor.application import Application, LoadedApp, LoadedKind
    from supervisor.settings.values import Settings

PLAIN: Final[Mapping[str, Any]] = asdict(Options())
"""What holds where nobody has said anything."""
EXCEPTIONS: Final = frozenset(
    name for name, one in vars(builtins).items() if isinstance(one, type) and issubclass(one, BaseException)
)
"""Those that `retry_on` names without a module."""
DAY: Final = 24 * 60
"""Minutes of it."""


def same_names(apps: "tuple[LoadedApp, ...]") -> list[str]:
    """Complain about a name that two applications have: their migrations are counted by it."""
    seen: dict[str, str] = {}
    return [
        f"app name {loaded.app.name!r} of {loaded.spec} is the name of {first} too; rename it"
        for loaded in apps
        if (first := seen.setdefault(loaded.app.name, loaded.spec)) != loaded.spec
    ]


def unshielded(kinds: "Mapping[str, LoadedKind]") -> Iterator[str]:
    """Complain about kinds that want a shield where there is none: they must not run without it."""
    wanted = sorted(kind for kind, one in kinds.items() if one.options.shield)
    if wanted and not machine.shield():
        names = ", ".join(map(repr, wanted))
        yield (
            f"{f'kind {names} has' if len(wanted) == 1 else f'kinds {names} have'} shield = true,"
            f" and {machine.NO_SHIELD}; run elsewhere, or set shield = false"
        )


def unkept(kinds: "Mapping[str, LoadedKind]", settings: "Settings") -> Iterator[str]:
    """Complain about kinds that are to be kept from something, and to run where nothing keeps them."""
    for kind, one in sorted(kinds.items()):
        if one.choice.mode is not Mode.INPROC:
            continue
        asked = asdict(one.options) if one.takes_slot else {**PLAIN, **settings.kinds.get(kind, {})}
        wanted = [
            text
            for text, is_on in (("shield = true", asked["shield"]), ("network = false", not asked["network"]))
            if is_on
        ]
        where = f"mode inproc from the {one.choice.why}" if one.takes_slot else "is a handler"
        if wanted:
            yield (
                f"kind {kind!r} has {' and '.join(wanted)}, which only a process can have, and {where};"
                " choose one"
            )


def unyielding(kinds: "Mapping[str, LoadedKind]") -> Iterator[str]:
    """Complain about lanes that are to yield to a gate and would start over each time."""
    for kind, one in sorted(kinds.items()):
        if one.options.on_gate == OnGate.YIELD and one.options.resume == Resume.RESTART:
            yield (
                f'kind {kind!r} has on_gate = "yield" and resume = "restart": it would start over each time'
                " a gate has closed; choose one"
            )


def unknown_sections(application: "Application", settings: "Settings") -> list[str]:
    """Complain about every [kinds.X] and --mode X whose X is no kind here; it would silently do nothing."""
    names = {kind for one in application.apps for kind in (*one.app.lanes, *one.app.handlers)}
    complaints = [
        f"{settings.file}: [kinds.{kind}] is no kind here{did_you_mean(kind, names)};"
        f" kinds here: {', '.join(sorted(names))}"
        for kind in settings.kinds
        if kind not in names
    ]
    modes = [(f"--mode {kind}={mode}", kind, mode) for kind, mode in settings.modes.items()]
    modes += [
        (f'{settings.file}: [kinds.{kind}] mode = "{own["mode"]}"', kind, own["mode"])
        for kind, own in settings.kinds.items()
        if "mode" in own and kind in application.kinds
    ]
    for where, kind, mode in modes:
        if kind not in names:
            complaints.append(f"{where}: unknown kind {kind!r}{did_you_mean(kind, names)}")
        elif kind in application.kinds and mode != Mode.INPROC and not application.kinds[kind].takes_slot:
            complaints.append(f"{where}: {kind!r} is a handler, which always runs inproc")
    return complaints


def untiered(kinds: "Mapping[str, Options]", settings: "Settings") -> Iterator[str]:
    """Complain about kinds in tiers that nobody defined."""
    tiers = settings.scheduling.tiers
    for kind, options in kinds.items():
        if options.tier and options.tier not in tiers:
            guess = did_you_mean(options.tier, tiers)
            what = f"kind {kind!r} is of tier {options.tier!r}, which nobody defined{guess}"
            yield f"{what}; add a section [tiers.{options.tier}]"


def never_runs(
    kinds: "Mapping[str, LoadedKind]", settings: "Settings", memory: Callable[[], MemoryReading]
) -> Iterator[str]:
    """Complain about kinds whose jobs would wait for ever, by these settings or on this machine.

    Args:
        kinds: those that can run.
        settings: what they run with.
        memory: looks at this machine's memory, where some kind needs any.
    """
    tiers = settings.scheduling.tiers
    rules = [
        rule_of(kind, one.options, tiers.get(one.options.tier, NO_TIER))
        for kind, one in sorted(kinds.items())
    ]
    yield from never_fit(rules, settings.scheduling.limits, memory)
    yield from never_open(rules, settings.scheduling.limits)


def never_fit(rules: list[Rule], limits: Limits, memory: Callable[[], MemoryReading]) -> Iterator[str]:
    """Complain about kinds that need more memory than jobs can ever have."""
    needy = [rule for rule in rules if Gate.MEMORY in rule.gates and rule.memory]
    reading = memory() if needy else MemoryReading()
    if reading.available is None or reading.total is None:  # where nobody can tell, no job waits for it
        return
    most = max(0, reading.total - reserve(reading, limits))
    for rule in needy:
        if rule.memory > most:
            tier = f" of tier {rule.tier!r}" if rule.tier else ""
            yield (
                f"kind {rule.kind!r}{tier} needs {human_size(rule.memory)} of memory, and jobs get at most"
                f" {human_size(most)} of {human_size(reading.total)} here: it would never start; lower its"
                " memory_limit or the memory of its tier, or memory_reserve in [gates]"
            )


def never_open(rules: list[Rule], limits: Limits) -> Iterator[str]:
    """Complain about quiet hours that leave no minute of the day to the kinds that wait for their end."""
    waiting = [rule.kind for rule in rules if Gate.QUIET in rule.gates]
    if waiting and all(any(is_within(minute, *span) for span in limits.quiet) for minute in range(DAY)):
        yield (
            f"[gates] quiet is the whole day, and {named(waiting)} would never start; leave an hour of it,"
            f" or hold them instead: laneway hold --kind {waiting[0]}"
        )


def without_effect(kinds: "Mapping[str, LoadedKind]", settings: "Settings") -> Iterator[str]:
    """Warn of what somebody has said that holds nobody to anything."""
    yield from said_of_nothing(kinds, settings)
    for kind, one in sorted(kinds.items()):
        if one.choice.mode is Mode.INPROC:
            yield from on_a_thread(one, settings) if one.takes_slot else of_a_handler(kind, settings)
    if unlimited := sorted(kind for kind, one in kinds.items() if says_none(one, settings)):
        yield (
            f"max_running = 0 of {named(unlimited)} is no limit; to start none of its jobs:"
            f" laneway hold --kind {unlimited[0]}"
        )
    if empty := [clock(start) for start, end in settings.scheduling.limits.quiet if start == end]:
        yield f'[gates] quiet: "{empty[0]}-{empty[0]}" is no time at all; the whole day is "00:00-24:00"'


def said_of_nothing(kinds: "Mapping[str, LoadedKind]", settings: "Settings") -> Iterator[str]:
    """Warn of gates, models and exceptions that are spoken of, and are none."""
    tiers = settings.scheduling.tiers
    for kind, one in sorted(kinds.items()):
        asked = {**one.lane.declared, **settings.kinds.get(kind, {})}.get("on_gate") == OnGate.YIELD
        if asked and not rule_of(kind, one.options, tiers.get(one.options.tier, NO_TIER)).gates:
            yield (
                f'kind {kind!r} has on_gate = "yield" and no gates: only hold --kind makes it yield;'
                ' add gates = ["power"], or others'
            )
    for tier in tiers.values():
        if tier.loader == LoaderName.CHILD and tier.model is None:
            yield f'[tiers.{tier.name}] loader = "child" names no model, so no child keeps one; add model'
    for name in sorted({name for one in kinds.values() for name in one.options.retry_on}):
        if "." not in name and name not in EXCEPTIONS:
            meant = did_you_mean(name, EXCEPTIONS)
            users = sorted(kind for kind, one in kinds.items() if name in one.options.retry_on)
            yield (
                f"retry_on of {named(users)}: Python has no exception {name!r}{meant}; one of a module is"
                f' written "module.{name}"'
            )


def on_a_thread(one: "LoadedKind", settings: "Settings") -> Iterator[str]:
    """Warn of what only a process can be held to, and a lane runs on a thread.

    What [defaults] say of children is meant for those that have one; a limit somebody may rely on.
    """
    general = {name: value for name, value in settings.defaults.items() if name in LIMITS_OF_PROCESSES}
    said = {**general, **one.lane.declared, **settings.kinds.get(one.kind, {})}
    names = [name for name in OF_PROCESSES if said.get(name, PLAIN[name]) != PLAIN[name]]
    if names:
        yield (
            f"kind {one.kind!r} runs on a thread (mode inproc: {one.choice.why}), which nothing holds to"
            f' {", ".join(names)}{still_asked(names)}; set mode = "subprocess", or leave that out'
        )


def of_a_handler(kind: str, settings: "Settings") -> Iterator[str]:
    """Warn of options of lanes that the settings give to a handler; [defaults] are not meant for it."""
    said = settings.kinds.get(kind, {})
    names = [name for name in sorted(OF_LANES - {"mode"}) if said.get(name, PLAIN[name]) != PLAIN[name]]
    if names:
        yield (
            f"kind {kind!r} is a handler, which runs on a thread and lands no rows: {', '.join(names)} of"
            f" [kinds.{kind}] say nothing to it{still_asked(names)}; make it a lane, or leave that out"
        )


def still_asked(names: list[str]) -> str:
    """Say what of a limit that holds nobody a gate goes by all the same."""
    return "; memory_limit is only what must be free to start it" if "memory_limit" in names else ""


def says_none(one: "LoadedKind", settings: "Settings") -> bool:
    """Tell whether somebody wrote max_running = 0 for a kind, and lifted no limit of another place by it."""
    places = (settings.defaults, one.lane.declared, settings.kinds.get(one.kind, {}))
    said = [place["max_running"] for place in places if "max_running" in place]
    return bool(said) and not any(said)


def named(kinds: list[str]) -> str:
    """Name kinds: "kind 'a'", "kinds 'a', 'b'"."""
    return f"kind{'s' if kinds[1:] else ''} {', '.join(map(repr, kinds))}"
