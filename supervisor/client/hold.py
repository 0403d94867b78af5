"""The half of a client that holds jobs and kinds, and lets them go: each says what is so afterwards."""

from collections.abc import Iterable
from typing import Final

from landing import views
from landing.errors import StoreError
from landing.hold import Changed, Hold, HoldKind, Unhold, UnholdKind
from landing.snapshot import snapshot
from supervisor.client.change import change, change_each, sole
from supervisor.client.look import Look
from supervisor.client.order import unknown_kind
from supervisor.errors import OptionRefused

WHY_LIMIT: Final = 500
"""Characters; every claim reads it, and every screen shows it."""


class Holds(Look):
    """Has jobs, or whole kinds, wait until somebody says otherwise."""

    _own: frozenset[str] = frozenset()
    """The kinds of the application that a client was given."""

    def hold(self, job: int) -> Changed:
        """Have a waiting job wait on, however urgent it is.

        Raises:
            JobNotFound: no such job.
            InvalidTransition: it is in flight, or has ended.
        """
        return sole(self.hold_many([job]))

    def hold_many(self, jobs: Iterable[int]) -> list[Changed | StoreError]:
        """Hold jobs, in one transaction if all can be; answer each, or the error that `hold` raises."""
        return change_each(self.home, (Hold(job) for job in jobs))

    def unhold(self, job: int) -> Changed:
        """Let a held job go on waiting for its turn, or for the rest of its backoff.

        Raises:
            JobNotFound: no such job.
        """
        return sole(self.unhold_many([job]))

    def unhold_many(self, jobs: Iterable[int]) -> list[Changed | StoreError]:
        """Let jobs go, in one transaction if all can be; answer each, or the error that `unhold` raises."""
        return change_each(self.home, (Unhold(job) for job in jobs))

    def hold_kind(self, kind: str, why: str = "") -> bool:
        """Start no job of a kind any more, those to come too; one in flight runs on.

        Args:
            kind: a declared kind.
            why: shown wherever one of its jobs waits.

        Returns:
            False where it was held already; the newest reason stands.

        Raises:
            UnknownKind: nobody has declared the kind.
            OptionRefused: the reason is too long, or no line of text.
        """
        if len(why) > WHY_LIMIT or not why.isprintable():
            raise OptionRefused([f"why must be at most {WHY_LIMIT} printable characters, not {why!r:.200}"])
        self.check_declared(kind)
        return change(self.home, HoldKind(kind, why))

    def unhold_kind(self, kind: str) -> bool:
        """Let a kind go; jobs of it that are held themselves stay so. Return False where it was not held.

        Raises:
            UnknownKind: nobody has declared the kind.
        """
        self.check_declared(kind)
        return change(self.home, UnholdKind(kind))

    def check_declared(self, kind: str) -> None:
        """Refuse an unknown kind, where there is a store; jobs of one that nobody has declared were imported.

        Raises:
            UnknownKind: nobody has declared the kind, and there is no job of it.
        """
        with snapshot(self.home) as db:
            declared = views.kinds(db)
            if kind in declared or views.jobs(db, kind=kind, limit=1):
                return
        if kind not in (known := {*declared, *self._offered()}):
            raise unknown_kind(kind, known)

    def _offered(self) -> set[str]:
        """Return the kinds that the next enqueue can declare: the application's and the built-in ones."""
        from supervisor.lanes import app as built_in  # noqa: PLC0415 - for a kind that the store lacks

        return {*self._own, *built_in.lanes}
