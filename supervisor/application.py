"""What a supervisor can run: the built-in lanes and the user's application, checked as a whole.

spec  --load-->  App  --checked-->  LoadedKind: lane, limits, reads, the profile of its children
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from ipc.appspec import load_app, search_last, split_spec
from ipc.errors import AppError
from ipc.sources import folders_of, note
from landing.enqueue import Register
from policies.job import Mode
from policies.options import Options, Spawn
from policies.routing import Tier
from supervisor import sensors
from supervisor.api import App, Lane, Read
from supervisor.complaints import (
    same_names,
    unkept,
    unknown_sections,
    unshielded,
    untiered,
    unyielding,
)
from supervisor.errors import ApplicationRefused
from supervisor.inproc.handlers import lane_of
from supervisor.inproc.modes import Choice, choice
from supervisor.settings.values import Settings, options_for
from supervisor.tiers import kept_model, routed

BUILT_IN: Final = "supervisor.lanes:app"
DEEPEST: Final = 20_000
"""Calls; an application may ask for more, but what children nest so deeply would overflow the stack."""

NO_APP: Final = (
    "no application; name one with --app FILE.py or MODULE, or as app in supervisor.toml"
    " (for the built-in lanes alone: --app supervisor.lanes)"
)

LANES: Final = "lanes"
HANDLERS: Final = "handlers"
"""The two threads of an application that work is done on: a long lane holds up no handler."""
DEFAULT_MODE: Final = Choice(Mode.SUBPROCESS, "default")

Lander = Callable[[Any, Any, Any], None]


@dataclass(frozen=True, slots=True)
class Profile:
    """The world of a child; a kind takes only children of its own profile (CONTRACTS K13).

    Attributes:
        specs: the applications that the child loads.
        env: environment variables passed besides those that every child gets.
        nice: the child's niceness.
        network: False seals the child off from all but loopback.
        shield: the kernel refuses it the store.
        spawn: how it is started (`policies.options.Spawn`).
        jobs: how many jobs it may be given.
        cpu: CPU seconds that each of them may take, 0 for any.
        open_files: descriptors that it may have open, 0 for any.
        file_size: bytes that each file it writes may reach, 0 for any.
        thread: the thread of this process that takes the child's place, "" for none.
        model: the model that it keeps in its memory (`ctx.use`), "" for none.
    """

    specs: tuple[str, ...]
    env: tuple[str, ...] = ()
    nice: int = 0
    network: bool = True
    shield: bool = False
    spawn: str = Spawn.AUTO
    jobs: int = 1
    cpu: float = 0.0
    open_files: int = 0
    file_size: int = 0
    thread: str = ""
    model: str = ""


@dataclass(frozen=True, slots=True)
class LoadedKind:
    """A kind that can run here, with its two halves and the reads of its application.

    `closed` are the names of the store's folder, where a shield closes it to the kind's children.
    `choice` is its mode, and who chose it.
    """

    kind: str
    lane: Lane[Any, Any]
    lander: Lander
    options: Options
    profile: Profile
    reads: Mapping[str, Read]
    closed: tuple[str, ...] = ()
    choice: Choice = DEFAULT_MODE

    @property
    def takes_slot(self) -> bool:
        """Tell whether its jobs count among those that run at once; handlers run beside them."""
        return self.profile.thread != HANDLERS


@dataclass(frozen=True, slots=True)
class LoadedApp:
    """One application and the spec that it was loaded by."""

    spec: str
    app: App


@dataclass(frozen=True, slots=True)
class Application:
    """All that one supervisor runs: its applications in loading order, their kinds and the tiers by name."""

    apps: tuple[LoadedApp, ...]
    kinds: Mapping[str, LoadedKind]
    tiers: Mapping[str, Tier]

    @property
    def name(self) -> str:
        """Return the spec that people know it by."""
        return self.apps[-1].spec

    def declarations(self) -> Iterator[Register]:
        """Yield what writes each application's kinds and their limits down in a store."""
        for loaded in self.apps:
            limits = {kind: self.kinds[kind].options for kind in (*loaded.app.lanes, *loaded.app.handlers)}
            yield Register(
                loaded.app.name, limits, discarding(loaded.app), router=loaded.app.adviser is not None
            )


def discarding(app: App) -> frozenset[str]:
    """Return the kinds whose lanes can remove what they have landed."""
    return frozenset(kind for kind, lane in app.lanes.items() if lane.forget is not None)


def load_application(settings: Settings) -> Application:
    """Load the built-in lanes and the application that the settings name.

    Raises:
        ApplicationRefused: none is named, it does not load (with file and line), or all that is wrong in it.
    """
    if settings.app is None:
        raise ApplicationRefused([NO_APP])
    built_in, named = load(BUILT_IN, settings.folder), load(settings.app, settings.folder)
    return checked(
        (built_in,) if named.app is built_in.app else (built_in, named), settings, also=unknown_sections
    )


def builtin_application(settings: Settings) -> Application:
    """Load the built-in lanes alone: what `index` needs, whatever the user's application is up to.

    Raises:
        ApplicationRefused: the settings give them limits that they cannot have.
    """
    return checked((load(BUILT_IN, settings.folder),), settings)


def load(spec: str, folder: Path) -> LoadedApp:
    """Load one application, `folder` searched where its children will search it: last.

    Raises:
        ApplicationRefused: it does not load, or is no App.
    """
    source, _ = split_spec(spec)
    began = sensors.now_micros() * 1000
    if source.endswith(".py"):
        search_last(str(Path(source).parent))
    search_last(str(folder))
    try:
        with redirect_stdout(sys.stderr):  # what it prints while it loads must not end up in somebody's JSON
            app = load_app(spec)
    except AppError as error:
        raise ApplicationRefused([str(error)]) from error
    finally:
        sys.setrecursionlimit(min(sys.getrecursionlimit(), DEEPEST))
    if not isinstance(app, App):
        raise ApplicationRefused([f"app {spec!r} is of type {type(app).__name__}, not a supervisor.App"])
    note(folders_of((spec,), str(folder)), (began, sensors.now_micros() * 1000))
    return LoadedApp(spec, app)


def checked(
    apps: tuple[LoadedApp, ...],
    settings: Settings,
    also: Callable[[Application, Settings], list[str]] = lambda _application, _settings: [],
) -> Application:
    """Put loaded applications together; `also` says what else is wrong.

    Raises:
        ApplicationRefused: a name or a kind that two of them have, a lane that cannot run, or a
            shield that cannot be had here.
    """
    complaints = same_names(apps)
    kinds: dict[str, LoadedKind] = {}
    for loaded in apps:
        for kind, lane in lanes_of(loaded.app):
            if kind in kinds:
                complaints.append(
                    f"kind {kind!r} of {loaded.spec} is one of {kinds[kind].profile.specs[0]} too; rename it"
                )
            elif lane.land is None:
                complaints.append(
                    f"lane {kind!r} of {loaded.spec} has no lander; nobody would write its rows"
                )
            else:
                kinds[kind] = loaded_kind(loaded, lane, lane.land, settings)
    complaints += unshielded(kinds)
    complaints += unkept(kinds, settings)
    complaints += unyielding(kinds)
    complaints += untiered({kind: one.options for kind, one in kinds.items()}, settings)
    application = Application(apps, kinds, settings.scheduling.tiers)
    if complaints := [*complaints, *also(application, settings)]:
        raise ApplicationRefused(complaints, application)
    return application


def lanes_of(app: App) -> Iterator[tuple[str, Lane[Any, Any]]]:
    """Yield what an application can run, by kind; a handler is a lane without rows."""
    yield from app.lanes.items()
    for kind, handler in app.handlers.items():
        yield kind, lane_of(handler)


def loaded_kind(loaded: LoadedApp, lane: Lane[Any, Any], lander: Lander, settings: Settings) -> LoadedKind:
    """Give a lane its limits and the profile of the children that may run it."""
    handler = loaded.app.handlers.get(lane.kind)
    chosen = choice(handler or lane, settings)
    options = routed(lane, replace(options_for(lane, settings), mode=chosen.mode), settings)
    if chosen.mode is Mode.INPROC:
        profile = Profile((loaded.spec,), thread=HANDLERS if handler else LANES)
    else:
        profile = profile_for(loaded.spec, options, kept_model(options, settings))
    if handler:  # what [defaults] say of rows and processes is not for it
        options = replace(options, start_deadline=0.0, batch_deadline=0.0, shield=False, network=True)
    homes = (settings.home, settings.home.resolve()) if options.shield else ()
    closed = tuple(dict.fromkeys(map(str, homes)))
    return LoadedKind(lane.kind, lane, lander, options, profile, loaded.app.reads, closed, chosen)


def profile_for(spec: str, options: Options, model: str) -> Profile:
    """Return the world that children need which run a kind of such limits."""
    return Profile(
        specs=(spec,),
        env=options.env,
        nice=options.nice,
        network=options.network,
        shield=options.shield,
        spawn=options.spawn,
        jobs=options.jobs_per_child,
        cpu=options.cpu_limit,
        open_files=options.open_files_limit,
        file_size=options.file_size_limit,
        model=model,
    )
