"""Bringing in an earlier queue file: slice by slice, so that nobody waits long for the store meanwhile."""

import threading
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from landing.importing import Imported, bring_in
from landing.oldqueue import opened
from landing.transaction import Operation
from supervisor.client.change import All, change
from supervisor.lock import is_live

PAUSE: Final = 0.1
"""Seconds between slices while a supervisor runs: SQLite looks every 100 ms whether it may write."""


def bring(home: Path, path: Path, declare: Sequence[Operation[Any]]) -> Imported:
    """Copy what has not been copied before; no store is made for a file that is no queue.

    Raises:
        StoreError: the file cannot be read, or the store not be written; what came before that stays.
    """
    asleep = threading.Event()
    with opened(path) as old:
        change(home, All(tuple(declare)), create_missing=True)
        return bring_in(old, partial(change, home), lambda: is_live(home) and asleep.wait(PAUSE))
