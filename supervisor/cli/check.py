"""`supervisor check`: settings and application, all complaints at once."""

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ipc.appspec import split_spec
from policies.job import Resume
from policies.options import Options, Spawn
from supervisor import machine
from supervisor.application import BUILT_IN, Application, load_application
from supervisor.cli.codes import USAGE
from supervisor.cli.output import complain, hint, plain, print_json
from supervisor.complaints import never_runs, without_effect
from supervisor.errors import ApplicationRefused, SettingsRefused
from supervisor.settings.values import Flags, Settings, load_settings
from supervisor.told.names import hidden, strangers
from supervisor.told.units import count
from supervisor.told.world import LIMITS, asked_for


def check_command(*, home: str | None, app: str | None, as_json: bool) -> int:
    """Print what is wrong, or that nothing is."""
    complaints: list[str] = []
    settings = checked_settings(Flags(home=home, app=app), complaints)
    before = len(complaints)
    application = checked_application(settings, complaints) if settings is not None else None
    is_whole = len(complaints) == before
    complaints += strangers()
    warnings = list(hidden(users_folders(settings))) if settings is not None else []
    own: dict[str, list[str]] = {}
    if settings is not None and application is not None:
        complaints += never_runs(application.kinds, settings, machine.memory)
        if is_whole:
            warnings += [*twice(application), *without_effect(application.kinds, settings)]
            own = worlds(application)
    if as_json:
        print_json({"ok": not complaints, "complaints": complaints, "warnings": warnings, "worlds": own})
    else:
        for line in complaints:
            complain(line)
        for line in warnings:
            hint(line)
        if settings is not None and application is not None and not complaints:
            print(ok_line(settings, application))
            for kind, words in own.items():
                print(f"  {plain(kind)}: {', '.join(words)}")
    return USAGE if complaints else 0


def refuse_vain(application: Application, settings: Settings) -> None:
    """Warn of what has no effect, for a run that is about to begin.

    Raises:
        ApplicationRefused: some of it could never run here.
    """
    if complaints := list(never_runs(application.kinds, settings, machine.memory)):
        raise ApplicationRefused(complaints)
    for line in without_effect(application.kinds, settings):
        hint(line)


def checked_settings(flags: Flags, complaints: list[str]) -> Settings | None:
    """Return the settings, also those that are left when some are refused and the application is known."""
    try:
        return load_settings(flags)
    except SettingsRefused as error:
        complaints += error.complaints
        rest: Settings | None = error.rest
        is_unknown = rest is None or (rest.app is None and error.hides_app)
        return None if is_unknown else rest


def checked_application(settings: Settings, complaints: list[str]) -> Application | None:
    """Return the application, also what is left when some of it is refused; None where nothing is."""
    try:
        return load_application(settings)
    except ApplicationRefused as error:
        complaints += error.complaints
        rest: Application | None = error.rest
        return rest


def twice(application: Application) -> Iterator[str]:
    """Yield a line for each of the user's lanes that land rows again and have nothing to remove them."""
    for kind, loaded in sorted(application.kinds.items()):
        bare = loaded.options.resume == Resume.RESTART and loaded.lane.forget is None
        if bare and BUILT_IN not in loaded.profile.specs:
            yield f"lane {plain(kind)} restarts without a discard: its lander must replace rows"


def users_folders(settings: Settings) -> Iterator[Path]:
    """Yield where the user's own modules lie."""
    yield settings.folder
    source, _ = split_spec(settings.app or "")
    if source.endswith(".py"):
        yield Path(source).parent


def ok_line(settings: Settings, application: Application) -> str:
    """Say what would run."""
    kinds = ", ".join(plain(kind) for kind in sorted(application.kinds))
    file = settings.file or "no supervisor.toml"
    where = f"{file}; home {settings.home}"
    return f"ok: {plain(application.name)} ({kinds}); {count(settings.max_workers, 'worker')}; {plain(where)}"


def worlds(application: Application) -> dict[str, list[str]]:
    """Return what was asked for, by kind, for the children of those that have a world of their own.

    A thread has none.
    """
    found = {}
    for kind, loaded in sorted(application.kinds.items()):
        if loaded.profile.thread:
            continue
        born_with = set(own_world(loaded.lane.options)) if BUILT_IN in loaded.profile.specs else set()
        if words := [one for one in own_world(loaded.options) if one not in born_with]:
            found[kind] = words
    return found


def own_world(options: Options) -> Iterator[str]:
    """Yield in words what makes the world of children that run a kind with such limits."""
    facts: dict[str, Any] = {
        "shield": machine.shield().kept_off if options.shield else None,
        "network": "open" if options.network else "sealed",
        "limits": {name: value for name, value in asdict(options).items() if name in LIMITS},
    }
    yield from asked_for(facts)
    if options.jobs_per_child > 1:
        yield f"{options.jobs_per_child:,} jobs per child"
    if options.spawn == Spawn.COLD:
        yield "started cold"
