"""Which exit code and which lines an error gets: the published vocabulary, in one table."""

from collections.abc import Iterator
from typing import Final

from landing.errors import InvalidTransition, JobNotFound, MigrationChanged, NoStore, StoreError
from supervisor.errors import Refused, WaitedTooLong
from supervisor.lock import LockHeld

FAILED: Final = 1
USAGE: Final = 2
HELD: Final = 3
STORE: Final = 4
INTERRUPTED: Final = 130


def code_of(error: Exception) -> int:
    """Return the exit code for an error."""
    match error:
        case Refused() | MigrationChanged():
            return USAGE
        case LockHeld():
            return HELD
        case NoStore() | JobNotFound() | InvalidTransition() | WaitedTooLong():
            return FAILED
        case StoreError():
            return USAGE if error.code == "unknown_kind" else STORE
        case ValueError():
            return USAGE if is_payload_refused(error) else FAILED
        case _:
            return FAILED


def lines_of(error: Exception) -> Iterator[str]:
    """Yield what a person should read: the error's own lines, or its type and where to find more."""
    if isinstance(error, Refused):
        yield from error.complaints
    elif isinstance(error, StoreError | LockHeld | WaitedTooLong) or is_payload_refused(error):
        yield str(error)
    elif isinstance(error, OSError):
        yield f"{error.filename or 'the system'}: {error.strerror or error}"
    else:
        yield f"{type(error).__name__}: {error} (a bug in laneway? LANEWAY_DEBUG=1 shows the traceback)"


def is_payload_refused(error: Exception) -> bool:
    """Tell whether a payload was refused."""
    from policies.payload import PayloadRefused

    return isinstance(error, PayloadRefused)
