"""The client: looks, and changes what may be changed from outside a supervisor."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, Unpack

from landing import views
from landing.cancel import Cancel, Cancelled
from landing.enqueue import Enqueue, Enqueued, LearnTiers, Register, UnknownKind, UnknownTier
from landing.errors import NoStore, StoreError
from landing.importing import Imported
from landing.prune import Prune
from landing.retry import Retried, Retry
from landing.skip import Skip, Skipped
from landing.snapshot import snapshot
from policies.job import MICROS, State
from policies.payload import payload_text
from policies.retry import judge
from policies.routing import BUILT_IN
from supervisor import sensors
from supervisor.api import App
from supervisor.application import Application
from supervisor.client.advice import ordered, routers_of, warning
from supervisor.client.bring import bring
from supervisor.client.change import All, change, change_each, sole
from supervisor.client.hold import Holds
from supervisor.client.order import (
    EnqueueAll,
    EnqueueOptions,
    JobRef,
    registers,
    unknown_kind,
    unknown_tier,
)
from supervisor.client.tidy import Tidied, tidy
from supervisor.lock import is_live

TIDY_STATES: Final = frozenset({State.DONE, State.SKIPPED, State.CANCELLED})
"""What a prune takes that is not told otherwise: a failed job waits for somebody to look at it."""


class Client(Holds):
    """Asks and tells the store of a home folder.

    Every method that writes brings the tables of an older version up to date first, and raises
    SchemaOlder where an older supervisor runs on them.

    Args:
        home: the folder itself (`home/store.db`). Enqueueing makes the store, looking never does.
        app: an App, or a whole Application with its settings; its kinds are declared in the
            store by the next enqueue or retry. Without one, the store's own kinds and the built-in ones
            are known, and no router is asked.
        tiers: those of the settings, each with the window that it loads, in tokens; an Application has its
            own. A store learns of them from each run; before the first one, from the next enqueue.
    """

    def __init__(
        self,
        home: str | Path,
        app: App | Application | None = None,
        tiers: Mapping[str, int] | None = None,
    ) -> None:
        super().__init__(home)
        self._declare = tuple(registers(app))
        self._routers = routers_of(app)
        self._own = frozenset(kind for register in self._declare for kind in register.kinds)
        defined = app.tiers if isinstance(app, Application) else BUILT_IN
        self._tiers = {name: tier.window for name, tier in defined.items()} if tiers is None else tiers

    # --- enqueue

    def enqueue(self, kind: str, payload: Any = None, /, **options: Unpack[EnqueueOptions]) -> JobRef:
        """Queue one job and return it once it is committed.

        Args:
            kind: a declared kind.
            payload: plain JSON, at most 1 MiB of text.
            options: see `EnqueueOptions`.

        Raises:
            PayloadRefused: the payload is not strict JSON or too large.
            OptionRefused: an option is unknown or has a bad value.
            UnknownKind: nobody has declared the kind; the message lists those there are.
            UnknownTier: nobody has defined the tier.
            KeyInUse: another payload waits with this key.
            StoreError: the store cannot be made or written.
        """
        return self.enqueue_many(kind, [payload], **options)[0]

    def enqueue_many(
        self, kind: str, payloads: Iterable[Any], /, **options: Unpack[EnqueueOptions]
    ) -> list[JobRef]:
        """Queue one job for each payload, all in one transaction; see `enqueue`."""
        asked = list(ordered(self._routers.get(kind), kind, payloads, options))
        if not asked:
            self._check_known(kind)
            return []
        try:
            answers = self._order(tuple(job for job, _ in asked))
        except UnknownTier as error:
            raise unknown_tier(error, self._tiers) from None
        return [
            JobRef(answer.id, answer.outcome, warning(advice, answer))
            for answer, (_, advice) in zip(answers, asked, strict=True)
        ]

    def _order(self, jobs: tuple[Enqueue, ...]) -> list[Enqueued]:
        """Insert jobs of one kind, and make the store where it is missing and the kind is known."""
        tiers = LearnTiers(self._tiers)
        try:
            return change(self.home, EnqueueAll((tiers, *self._declare), jobs))
        except (NoStore, UnknownKind):
            kinds = self._declarations(jobs[0].kind)
            return change(self.home, EnqueueAll((tiers, *kinds), jobs), create_missing=True)

    def queued(self, kind: str, payload: Any = None, /) -> JobRef | None:
        """Return the newest of the last 1,000 queued jobs of this kind with an equal payload, None if none.

        It has read nothing yet, so whoever wants the same work may wait for it instead of adding to it.
        """
        text = payload_text(payload)
        try:
            rows = self.jobs(state=State.QUEUED, kind=kind, limit=1000)
        except NoStore:
            return None
        return next((JobRef(row["id"], "existing") for row in rows if row["payload"] == text), None)

    def _check_known(self, kind: str) -> None:
        """Refuse an unknown kind, also where there is nothing to insert."""
        if kind not in self.kinds():
            self._declarations(kind)

    def _declarations(self, kind: str) -> tuple[Register, ...]:
        """Return what must be declared so that `kind` is known; a store is made only for a known one."""
        if kind in self._own:
            return self._declare
        from supervisor.lanes import app as built_in  # noqa: PLC0415 - only a new store asks

        if kind in built_in.lanes:
            return (*self._declare, *registers(built_in))
        raise unknown_kind(kind, {*self._offered(), *self.kinds()})

    # --- cancel, retry, skip

    def cancel(self, job: int) -> Cancelled:
        """Cancel a job; see `wait` to wait for the end of its child.

        Raises:
            JobNotFound: no such job.
            InvalidTransition: it is done or skipped.
        """
        return sole(self.cancel_many([job]))

    def cancel_many(self, jobs: Iterable[int]) -> list[Cancelled | StoreError]:
        """Cancel jobs, in one transaction if all can be; answer each, or the error that `cancel` raises."""
        live = is_live(self.home)
        return change_each(self.home, (Cancel(job, sensors.fence(), live, judge) for job in jobs))

    def retry(self, job: int, *, from_start: bool = False, keep_rows: bool = False) -> Retried:
        """Queue a failed or cancelled job again, with all of its attempts before it.

        Args:
            job: its id.
            from_start: start over instead of going on after what has landed, which is then
                discarded with the first rows that land anew. A job that waits may be told so, too.
            keep_rows: with `from_start`, leave what has landed where it is.

        Raises:
            JobNotFound: no such job.
            InvalidTransition: it is in flight, done or skipped; or it waits, and is not to start over.
            StoreError: `discard_missing`, its lane cannot discard what has landed; or `keep_rows`, which
                says nothing without `from_start`, or where each attempt replaces its rows anyway.
        """
        return sole(self.retry_many([job], from_start=from_start, keep_rows=keep_rows))

    def retry_many(
        self, jobs: Iterable[int], *, from_start: bool = False, keep_rows: bool = False
    ) -> list[Retried | StoreError]:
        """Retry jobs, in one transaction if all can be; answer each, or the error that `retry` raises."""
        if self._declare:
            change(self.home, All(self._declare))
        live = is_live(self.home)
        return change_each(self.home, (Retry(job, from_start, keep_rows, live) for job in jobs))

    def skip(self, job: int) -> Skipped:
        """Skip a job that has not begun, for good.

        Raises:
            JobNotFound: no such job.
            InvalidTransition: it is in flight, or has ended.
        """
        return sole(self.skip_many([job]))

    def skip_many(self, jobs: Iterable[int]) -> list[Skipped | StoreError]:
        """Skip jobs, in one transaction if all can be; answer each, or the error that `skip` raises."""
        return change_each(self.home, (Skip(job) for job in jobs))

    # --- import, prune

    def import_queue(self, path: str | Path) -> Imported:
        """Copy the jobs of a queue file of an earlier shape, which is only read; again: what has come since.

        What was running there is queued again where its kind is known to be safe to run twice, and has
        failed otherwise.

        Raises:
            NoStore: there is no such file.
            NotAQueue: it holds no queue; no store is made for it.
            StoreError: it cannot be read, or the store cannot be made or written; what was copied before
                that stays, and the next call goes on behind it.
        """
        return bring(self.home, Path(path), self._declare)

    def prune(
        self,
        older_than: float,
        *,
        states: Iterable[str] = TIDY_STATES,
        kind: str | None = None,
        tag: str | None = None,
    ) -> Tidied:
        """Delete jobs that ended longer ago than that, with their attempts and receipts; shrink the file.

        Args:
            older_than: seconds since the end; 0 takes everything that has ended.
            states: end states; by default done, skipped and cancelled.
            kind: this kind alone.
            tag: jobs with this tag alone.

        Raises:
            ValueError: one of the states is none.
            StoreError: the store cannot be written; what went before that stays gone.
        """
        wanted = frozenset(State(state) for state in states)
        return tidy(self.home, Prune(ended_before(older_than), wanted, kind, tag))

    def prunable(
        self,
        older_than: float,
        *,
        states: Iterable[str] = TIDY_STATES,
        kind: str | None = None,
        tag: str | None = None,
    ) -> int:
        """Return how many jobs `prune` would delete."""
        wanted = frozenset(State(state) for state in states)
        with snapshot(self.home) as db:
            return views.prunable(db, before=ended_before(older_than), states=wanted, kind=kind, tag=tag)


def ended_before(seconds: float) -> int:
    """Return the moment so many seconds ago, microseconds UTC; 0 is after all that has ended by now."""
    return sensors.now_micros() + 1 - int(seconds * MICROS)
