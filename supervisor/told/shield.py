"""Why a job behind the shield was refused something: the kernel's own words name no shield.

A job sees "Permission denied", of a store or of a file beside it; its receipt says which option that was.
"""

import re
from collections.abc import Sequence
from errno import EACCES, EPERM, EXDEV
from typing import Final

NUMBER: Final = re.compile(r"(\d+), ")
"""An error of the system as `ipc.capture` writes it: its number, its words, its paths."""
REFUSALS: Final = frozenset({EACCES, EPERM, EXDEV})
"""A move or a second name across the shield's border is refused as one to another disk."""
NO_FILE: Final = "unable to open database file"
"""What SQLite makes of a refusal, of the file or of the journal beside it."""


def why_refused(message: str, bases: Sequence[str], closed: Sequence[str]) -> str:
    """Return what to add to an error's message, "" when it is not one that the shield makes.

    Args:
        message: of the error that ended the job, as text.
        bases: the classes of the error.
        closed: the names of the folder that is closed to the job; none without a shield.
    """
    if not closed:
        return ""
    found = NUMBER.match(message) if "OSError" in bases else None
    if found and int(found[1]) not in REFUSALS:
        return ""
    closes = f"; shield = true closes {closed[0]} to this kind"
    if any(name in message for name in closed):
        return f"{closes}: ctx.read answers from the store"
    if found and '"/' not in message and int(found[1]) == EPERM:
        return "; shield = true lets this kind signal only what it has started"
    if found or ("sqlite3.OperationalError" in bases and message == NO_FILE):
        return f"{closes}; right in the folders above it nothing can be made or removed"
    return ""
