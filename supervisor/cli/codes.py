"""Which exit code and which lines an error gets: the published vocabulary, in one table."""

from collections.abc import Iterator
from typing import Final

from landing.errors import InvalidTransition, JobNotFound, MigrationChanged, NoStore, StoreError
from policies.payload import PayloadRefused
from supervisor.cli import hints
from supervisor.errors import Refused, WaitedTooLong
from supervisor.holder import HolderUnreachable
from supervisor.lock import LockHeld

FAILED: Final = 1
USAGE: Final = 2
HELD: Final = 3
STORE: Final = 4
INTERRUPTED: Final = 130
SAID_WRONG: Final = frozenset({"unknown_kind", "unknown_tier", "key_in_use", "not_a_queue"})
"""What the store refuses because of what was asked for, not because of how it is."""


def code_of(error: Exception) -> int:
    """Return the exit code for an error."""
    match error:
        case Refused() | MigrationChanged():
            return USAGE
        case LockHeld():
            return HELD
        case NoStore() | JobNotFound() | InvalidTransition() | WaitedTooLong() | HolderUnreachable():
            return FAILED
        case StoreError():
            return USAGE if error.code in SAID_WRONG else STORE
        case PayloadRefused():
            return USAGE
        case _:
            return FAILED


def lines_of(error: Exception) -> Iterator[str]:
    """Yield what a person should read: the error's own lines, or its type and where to find more."""
    if isinstance(error, Refused):
        yield from error.complaints
    elif isinstance(error, LockHeld):
        yield f"{error}; {hints.command('status')} tells which"
    elif isinstance(error, StoreError | WaitedTooLong | PayloadRefused | HolderUnreachable):
        yield str(error)
    elif isinstance(error, OSError):
        yield f"{error.filename or 'the system'}: {error.strerror or error}"
    else:
        yield f"{type(error).__name__}: {error} (a bug in laneway? LANEWAY_DEBUG=1 shows the traceback)"
