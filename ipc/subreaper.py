"""To whom orphans go: those of everything below this process become its children for a while.

That is so for the whole process, which may have asked for it before, and may run several
supervisors at once, each on a thread of its own: the first changes it, the last puts it back.
"""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from ipc.guardian.birth import PR_SET_CHILD_SUBREAPER, prctl

PR_GET_CHILD_SUBREAPER: Final = 37

CHANGING: Final = threading.Lock()
BEFORE: Final[list[int]] = []
"""For each that has asked, what was set when it did."""


@contextmanager
def adopting_orphans() -> Iterator[bool]:
    """Adopt orphans meanwhile; gives whether the system does so."""
    with CHANGING:
        BEFORE.append(asked())
        adopts = ask(1)
    try:
        yield adopts
    finally:
        with CHANGING:
            first = BEFORE.pop(0)
            if BEFORE:
                BEFORE[0] = first
            else:
                ask(first)


def ask(value: int) -> bool:
    """Have orphans become children of this process, or not; tell whether the system did it."""
    return prctl(PR_SET_CHILD_SUBREAPER, value)


def asked() -> int:
    """Return what is set: 1 where orphans become children of this process, else 0."""
    if not sys.platform.startswith("linux"):
        return 0
    try:
        from ctypes import CDLL, byref, c_int  # noqa: PLC0415 - not every Python has it
    except ImportError:
        return 0
    found = c_int()
    CDLL(None).prctl(PR_GET_CHILD_SUBREAPER, byref(found), 0, 0, 0)
    return found.value
