"""What a child behind the shield sees: what comes beside the way to the store later is closed to it.

A job may be about a file that is newer than the child that stands by for it; then another one is started.
"""

from dataclasses import dataclass
from pathlib import Path

from ipc.child import Command
from ipc.guardian.shield import places


@dataclass(frozen=True, slots=True)
class Sight:
    """The folders above a closed one, as they stood before a child began."""

    closed: Path
    places: tuple[tuple[int, int, int], ...]

    def has_aged(self) -> bool:
        """Tell whether something has come, gone or been replaced there since."""
        return places(str(self.closed)) != self.places


def sight_of(command: Command) -> Sight | None:
    """Return what a child that is started now will see; None: all that there is."""
    closed = command.closed
    return None if closed is None else Sight(closed, places(str(closed)))
