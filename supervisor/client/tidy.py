"""Making a store small: whole ended jobs go, then the pages that they leave are given back."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from landing.prune import Prune, Vacuum
from supervisor.client.change import change

PAGES: Final = 2000
"""Pages that one transaction gives back, some 8 MB: the lander waits no longer than that."""
FEW_PAGES: Final = 64
"""Free pages that are left for what is written next."""


@dataclass(frozen=True, slots=True)
class Tidied:
    """What a prune came to: jobs and attempts that went, bytes given back to the file system."""

    jobs: int
    attempts: int
    bytes: int


def tidy(home: Path, prune: Prune) -> Tidied:
    """Prune until nothing more fits `prune`, a few hundred jobs at a time, then give the free pages back.

    Raises:
        StoreError: the store cannot be written; what went before that stays gone.
    """
    jobs = attempts = freed = 0
    more = True
    while more:
        gone = change(home, prune)
        jobs, attempts, more = jobs + gone.jobs, attempts + gone.attempts, gone.more
    more = True
    while more:
        given = change(home, Vacuum(PAGES))
        freed += given.freed * given.page_size
        more = given.left > FEW_PAGES and given.freed > 0
    return Tidied(jobs, attempts, freed)
