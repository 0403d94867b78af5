"""How a child of a profile is started."""

from collections.abc import Mapping
from pathlib import Path

from ipc.child import Command, pruned
from supervisor.application import Profile


def command_for(profile: Profile, *, python: str, environ: Mapping[str, str], folder: Path) -> Command:
    """Return how a child of `profile` is started."""
    return Command(
        argv=(python, "-P", "-m", "worker"),
        tail=profile.specs,
        env=pruned(environ, profile.env),
        folder=folder,
        nice=profile.nice,
    )
