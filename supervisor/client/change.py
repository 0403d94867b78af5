"""One change to a store, whatever version its tables are of: commit, then ring the doorbell.

write -> done | the tables are older -> nobody supervises? -> upgrade under the supervisor's lock -> write
"""

import threading
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Generic, TypeVar

from ipc.doorbell import ring
from landing.errors import InvalidTransition, JobNotFound, SchemaOlder, StoreError
from landing.migrate import init_lock, upgrade
from landing.retry import DiscardMissing, KeepRowsRefused
from landing.store import Store
from landing.transaction import Operation, Transaction
from supervisor import sensors
from supervisor.lock import LockHeld, SupervisorLock

Reply = TypeVar("Reply")

REFUSALS: Final = (JobNotFound, InvalidTransition, DiscardMissing, KeepRowsRefused)
"""What says that this job cannot be changed so; anything else says that the store cannot be written."""


def change(home: Path, operation: Operation[Reply], *, create_missing: bool = False) -> Reply:
    """Apply one operation in a transaction of its own and wake the supervisor, if one runs here.

    Raises:
        SchemaOlder: an older supervisor runs here, which would not know newer tables.
        StoreError: what the operation raises, or why the store could not be written.
    """
    store = Store(home, sensors.now_micros, create_missing=create_missing)
    try:
        answer = store.write(operation)
    except SchemaOlder:
        upgrade_unless_supervised(home)
        answer = store.write(operation)
    ring(home)
    return answer


def upgrade_unless_supervised(home: Path) -> None:
    """Bring the tables to this version, holding the supervisor's lock for so long (CONTRACTS K7).

    Where somebody else holds it, either they upgrade right now, which is waited for, or they
    supervise with older tables, which the next write says.
    """
    try:
        lock = SupervisorLock(home, sensors.monotonic, threading.Event().wait)
    except LockHeld:
        with init_lock(home):
            return
    try:
        upgrade(home, sensors.now_micros())
    finally:
        lock.release()


@dataclass(frozen=True, slots=True)
class All(Generic[Reply]):
    """Several operations in one transaction: all or none."""

    operations: tuple[Operation[Reply], ...]

    def apply(self, tx: Transaction) -> list[Reply]:
        """Return the answers in order; raises what the first one that is refused raises."""
        return [operation.apply(tx) for operation in self.operations]


def change_each(home: Path, operations: Iterable[Operation[Reply]]) -> list[Reply | StoreError]:
    """Apply operations that have nothing to do with each other; one that is refused is answered by its error.

    All in one transaction; where one of them is refused, each in its own.

    Raises:
        StoreError: the store cannot be written; what came before stays done.
    """
    every = tuple(operations)
    try:
        return [*change(home, All(every))]
    except REFUSALS as error:
        return [error] if len(every) == 1 else [change_or_say(home, one) for one in every]


def change_or_say(home: Path, operation: Operation[Reply]) -> Reply | StoreError:
    """Apply one operation; return its refusal instead of raising it."""
    try:
        return change(home, operation)
    except REFUSALS as error:
        return error


def sole(answers: list[Reply | StoreError]) -> Reply:
    """Return the one answer; raise it where it is a refusal."""
    (answer,) = answers
    if isinstance(answer, StoreError):
        raise answer
    return answer
