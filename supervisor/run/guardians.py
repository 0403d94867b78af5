"""The last run's guardians: they hold a file until they have ended what they keep (CONTRACTS K9)."""

from collections.abc import Callable, Set
from pathlib import Path
from typing import Final

from ipc.ladder import PATIENCE
from ipc.leftovers import wake
from landing.flock import Flock

GUARDIANS: Final = "guardians.lock"
PAUSE: Final = 0.005


def wait_for_guardians(
    home: Path, markers: Set[str], monotonic: Callable[[], float], wait: Callable[[float], object]
) -> bool:
    """Wait until no guardian of a run before this one lives, at most as long as a kill may take.

    Args:
        home: the store's folder.
        markers: of the runs that died; a guardian of theirs that was stopped is continued.
        monotonic: seconds.
        wait: sleeps so many seconds.

    Returns:
        Whether none is left; what one that hangs keeps has to be found otherwise.
    """
    lock = Flock(home / GUARDIANS)
    until = monotonic() + PATIENCE
    try:
        if free := lock.take():
            return free
        wake(markers)
        while not (free := lock.take()) and monotonic() < until:
            wait(PAUSE)
    finally:
        lock.close()
    return free
