"""How a child of a profile is started."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import ceil
from pathlib import Path

from ipc.child import Command, pruned
from ipc.leftovers import MARKER
from policies.options import Spawn
from supervisor import machine
from supervisor.application import Profile


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What is the same for all children of a run.

    Attributes:
        python: the interpreter.
        environ: the supervisor's own environment.
        folder: where they run.
        home: the store's folder, which those with a shield are shut out of.
        marker: what tells them, in their environment, from other runs' children.
        groups: the control group below which theirs are made, None where that cannot be.
    """

    python: str
    environ: Mapping[str, str]
    folder: Path
    home: Path
    marker: str
    groups: str | None


def command_for(profile: Profile, around: Surroundings) -> Command:
    """Return how a child of `profile` is started."""
    return Command(
        argv=(around.python, "-P", "-m", "worker"),
        tail=(*options_of(profile), *profile.specs),
        env=pruned(around.environ, profile.env) | {MARKER: around.marker},
        folder=around.folder,
        nice=profile.nice,
        closed=around.home if profile.shield else None,
        group=None if around.groups is None else f"{around.groups}/{group_prefix(around.marker)}",
        template=profile.spawn == Spawn.AUTO and machine.has_templates(),
    )


def options_of(profile: Profile) -> Iterator[str]:
    """Yield the words by which a child is told its world."""
    if not profile.network:
        yield "--sealed"
    for name, value in (
        ("--jobs", profile.jobs),
        ("--cpu", ceil(profile.cpu)),
        ("--open-files", profile.open_files),
        ("--file-size", profile.file_size),
    ):
        yield from (name, str(value))


def group_prefix(marker: str) -> str:
    """Return what the names of a run's control groups begin with."""
    return f"laneway-{marker}"
