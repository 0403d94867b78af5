"""Settings: one frozen value, checked once at the door, all complaints together.

command line  >  LANEWAY_HOME, LANEWAY_APP  >  supervisor.toml  >  defaults
and for the limits of a kind:   [kinds.X]  >  decorator  >  [defaults]
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ipc.appspec import split_spec
from policies.job import Mode
from policies.options import Options, options_from
from supervisor.errors import SettingsRefused
from supervisor.settings.file import MOST_WORKERS, SettingsFile, is_workers
from supervisor.settings.gates import Scheduling
from supervisor.settings.place import FILE, HOME, absolute, environment, project_folder, said_home

if TYPE_CHECKING:
    from supervisor.api import Lane


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What a run is told.

    Attributes:
        home: the store's folder, absolute.
        app: the application's spec, MODULE[:ATTR] or an absolute FILE.py[:ATTR]; None where nobody named one.
        max_workers: how many children run at once.
        folder: where children run and where an application's modules are looked for: the
            settings file's folder, else the current one.
        file: the settings file, None where there is none.
        defaults: options of every kind that its decorator does not set, in seconds and bytes.
        kinds: options by kind; they win over the decorator.
        default_mode: the mode of lanes for which nobody chose one, None for `subprocess`.
        modes: modes by kind, from the command line.
        scheduling: gates, tiers and order.
    """

    home: Path
    app: str | None
    max_workers: int
    folder: Path
    file: Path | None = None
    defaults: Mapping[str, Any] = field(default_factory=dict)
    kinds: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    default_mode: str | None = None
    modes: Mapping[str, str] = field(default_factory=dict)
    scheduling: Scheduling = field(default_factory=Scheduling)


@dataclass(frozen=True, slots=True, kw_only=True)
class Flags:
    """What the command line said; None where it said nothing."""

    home: str | None = None
    app: str | None = None
    max_workers: int | None = None
    modes: tuple[str, ...] = ()


def load_settings(
    flags: Flags | None = None, cwd: Path | None = None, environ: Mapping[str, str] | None = None
) -> Settings:
    """Read and check everything that has a say.

    Args:
        flags: the command line's; default: nothing was said.
        cwd: where to look from; default: the current folder.
        environ: default: this process's environment.

    Raises:
        SettingsRefused: all complaints at once.
    """
    flags, cwd, environ = flags or Flags(), cwd or Path.cwd(), environment(environ)
    folder = project_folder(cwd)
    file = SettingsFile(folder / FILE)
    # Everything in the file is looked at, also what the command line overrides.
    file_home, file_app, file_workers = file.text("home"), file.text("app"), file.workers()
    settings = Settings(
        home=said_home(flags.home, cwd, environ) or absolute(folder, file_home) or folder / HOME,
        app=absolute_spec(cwd, flags.app or environ.get("LANEWAY_APP")) or absolute_spec(folder, file_app),
        max_workers=flags.max_workers or file_workers or default_workers(),
        folder=folder,
        file=file.path if file.exists else None,
        defaults=file.defaults(),
        kinds=file.kinds(),
        default_mode=file.default_mode(),
        scheduling=file.scheduling(),
        modes=modes_said(flags.modes, file.complaints),
    )
    file.refuse_unknown()
    if flags.app is not None and not flags.app.strip():
        file.complaints.append("--app is empty; write FILE.py[:NAME] or MODULE[:NAME]")
    if flags.max_workers is not None and not is_workers(flags.max_workers):
        file.complaints.append(f"--max-workers must be from 1 to {MOST_WORKERS}, not {flags.max_workers}")
    if file.complaints:
        raise SettingsRefused(file.complaints, settings, hides_app=file.hides("app"))
    return settings


def modes_said(words: Sequence[str], complaints: list[str]) -> dict[str, str]:
    """Read each KIND=MODE of the command line; the last one of a kind counts."""
    said: dict[str, str] = {}
    for word in words:
        kind, equals, mode = word.rpartition("=")
        if equals and kind and mode in tuple(Mode):
            said[kind] = mode
        else:
            complaints.append(f"--mode must be KIND=inproc or KIND=subprocess, not {word!r}")
    return said


def options_for(
    lane: "Lane[Any, Any]", settings: Settings, overrides: Mapping[str, Any] | None = None
) -> Options:
    """Return the limits of a kind: `overrides` > `[kinds.X]` > its decorator > `[defaults]`."""
    kind = settings.kinds.get(lane.kind, {})
    return options_from({**settings.defaults, **lane.declared, **kind, **(overrides or {})})


def absolute_spec(folder: Path, spec: str | None) -> str | None:
    """Return an app's spec with its file, if it names one, as seen from `folder`."""
    if not spec:
        return None
    source, attr = split_spec(spec)
    return f"{absolute(folder, source)}:{attr}" if source.endswith(".py") else spec


def default_workers() -> int:
    """Return one less than the cores this process may use, at least 1 (CONTRACTS K16)."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, cores - 1)
