"""What the store says when it cannot: (code, subject) pairs (SPEC A4, A5); sqlite3 errors stay inside."""

from policies.job import IN_FLIGHT


class StoreError(Exception):
    """Base: `code` names the rule, `subject` the path or id; the text is one line for a person."""

    code = "database_error"

    def __init__(self, subject: str, text: str) -> None:
        super().__init__(text)
        self.subject = subject


class NoStore(StoreError):
    """There is no store here, and a command that reads never makes one."""

    code = "no_store"


class SchemaNewer(StoreError):
    """The store was written by a newer version; opening it could lose what it knows."""

    code = "schema_newer"


class SchemaOlder(StoreError):
    """The store has the tables of an older version; whoever holds the supervisor's lock upgrades them."""

    code = "schema_older"


class StoreBusy(StoreError):
    """Another process kept the write lock longer than a caller may wait."""


class StoreFull(StoreError):
    """The disk, or a limit on the file, has no room left."""


class StoreReadonly(StoreError):
    """The store, or the disk that holds it, has become read-only."""


class StoreBroken(StoreError):
    """The outcome of a commit is unknown or the file is damaged; the next start re-derives."""


class JobNotFound(StoreError, KeyError):
    """No job has this id (a KeyError by SPEC C95)."""

    code = "job_not_found"
    __str__ = StoreError.__str__  # KeyError's own would put the line in quotes

    def __init__(self, job: int) -> None:
        super().__init__(str(job), f"no job #{job}")


class InvalidTransition(StoreError):
    """The job's state does not allow this move."""

    code = "invalid_transition"


def waits_no_more(job: int, state: str, what: str, remedy: str) -> InvalidTransition:
    """Return the error of what only a waiting job can be: held, skipped. `remedy` is for one in flight."""
    text = f"job #{job} is {state} and cannot be {what}"
    return InvalidTransition(
        str(job), f"{text}: {remedy if state in IN_FLIGHT else 'it does not wait any more'}"
    )


class MigrationChanged(StoreError):
    """An application's migration that already ran was edited afterwards."""

    code = "migration_changed"
