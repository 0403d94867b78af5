"""What keeps an application from being run: every check of the whole, one line a complaint."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from policies.job import Mode, OnGate, Resume
from supervisor import machine
from supervisor.told.spelling import did_you_mean

if TYPE_CHECKING:
    from policies.options import Options
    from supervisor.application import Application, LoadedApp, LoadedKind
    from supervisor.settings.values import Settings


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


def unkept(kinds: "Mapping[str, LoadedKind]") -> Iterator[str]:
    """Complain about lanes that are to be kept from something, and to run where nothing keeps them."""
    for kind, one in sorted(kinds.items()):
        wanted = [
            text
            for text, is_on in (
                ("shield = true", one.options.shield),
                ("network = false", not one.options.network),
            )
            if is_on and one.choice.mode is Mode.INPROC and one.takes_slot
        ]
        if wanted:
            yield (
                f"kind {kind!r} has {' and '.join(wanted)}, which only a process can have, and mode inproc"
                f" from the {one.choice.why}; choose one"
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
    complaints = [
        f"{settings.file}: [kinds.{kind}] is no kind here{did_you_mean(kind, application.kinds)};"
        f" kinds here: {', '.join(sorted(application.kinds))}"
        for kind in settings.kinds
        if kind not in application.kinds
    ]
    for kind, mode in settings.modes.items():
        if (known := application.kinds.get(kind)) is None:
            complaints.append(
                f"--mode {kind}={mode}: unknown kind {kind!r}{did_you_mean(kind, application.kinds)}"
            )
        elif mode != known.choice.mode:
            complaints.append(f"--mode {kind}={mode}: {kind!r} is a handler, which always runs inproc")
    return complaints


def untiered(kinds: "Mapping[str, Options]", settings: "Settings") -> Iterator[str]:
    """Complain about kinds in tiers that nobody defined."""
    tiers = settings.scheduling.tiers
    for kind, options in kinds.items():
        if options.tier and options.tier not in tiers:
            guess = did_you_mean(options.tier, tiers)
            what = f"kind {kind!r} is of tier {options.tier!r}, which nobody defined{guess}"
            yield f"{what}; add a section [tiers.{options.tier}]"
