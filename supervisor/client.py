"""A store seen from outside a supervisor: enqueue, look, cancel, wait. The command line calls the same.

enqueue: check -> one transaction (declare, insert) -> COMMIT -> ring the doorbell
"""

import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypedDict, Unpack

from ipc.doorbell import ring
from landing import views
from landing.cancel import Cancel, Cancelled
from landing.errors import NoStore
from landing.jobs import Enqueue, Enqueued, Register, UnknownKind
from landing.snapshot import snapshot
from landing.store import Store
from landing.transaction import Transaction
from policies.job import ENDED, State
from policies.options import complaint_about
from policies.payload import payload_text
from policies.retry import judge
from supervisor import sensors
from supervisor.api import App
from supervisor.application import Application
from supervisor.errors import OptionRefused, WaitedTooLong
from supervisor.lock import is_live
from supervisor.told.spelling import did_you_mean

if TYPE_CHECKING:
    from sqlite3 import Connection

POLL_SECONDS: Final = 0.1
OWN_LIMITS: Final = ("batch_deadline", "start_deadline", "job_deadline")


class EnqueueOptions(TypedDict, total=False):
    """What a job may bring of its own; deadlines in seconds, 0 switches one off."""

    priority: int
    tag: str
    batch_deadline: float
    start_deadline: float
    job_deadline: float


@dataclass(frozen=True, slots=True)
class JobRef:
    """A job in the store; `outcome` is `created`, or `existing` for one that was there."""

    id: int
    outcome: str


@dataclass(frozen=True, slots=True)
class EnqueueAll:
    """Declare kinds, then insert jobs: all or nothing, in one transaction."""

    declare: tuple[Register, ...]
    jobs: tuple[Enqueue, ...]

    def apply(self, tx: Transaction) -> list[Enqueued]:
        """Return the answers in order.

        Raises:
            UnknownKind: a job's kind is declared nowhere; nothing was inserted.
        """
        for register in self.declare:
            register.apply(tx)
        return [job.apply(tx) for job in self.jobs]


class Client:
    """Asks and tells the store of a home folder.

    Args:
        home: the folder itself (`home/store.db`). Enqueueing makes the store, looking never does.
        app: an App, or a whole Application with its settings; its kinds are declared in the
            store by the next enqueue. Without one, the store's own kinds and the built-in ones are known.
    """

    def __init__(self, home: str | Path, app: App | Application | None = None) -> None:
        self.home = Path(home).absolute()
        self._declare = tuple(registers(app))

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
            StoreError: the store cannot be made or written.
        """
        return self.enqueue_many(kind, [payload], **options)[0]

    def enqueue_many(
        self, kind: str, payloads: Iterable[Any], /, **options: Unpack[EnqueueOptions]
    ) -> list[JobRef]:
        """Queue one job for each payload, all in one transaction; see `enqueue`."""
        jobs = tuple(job_of(kind, payload_text(payload), options) for payload in payloads)
        if not jobs:
            self._check_known(kind)
            return []
        try:
            answers = self._store().write(EnqueueAll(self._declare, jobs))
        except (NoStore, UnknownKind):
            declare = self._declarations(kind)
            store = Store(self.home, sensors.now_micros, create_missing=True)
            answers = store.write(EnqueueAll(declare, jobs))
        ring(self.home)
        return [JobRef(answer.id, answer.outcome) for answer in answers]

    def _check_known(self, kind: str) -> None:
        """Refuse an unknown kind, also where there is nothing to insert."""
        if kind not in self.kinds():
            self._declarations(kind)

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

    def _declarations(self, kind: str) -> tuple[Register, ...]:
        """Return what must be declared so that `kind` is known; a store is made only for a known one."""
        own = {name for register in self._declare for name in register.kinds}
        if kind in own:
            return self._declare
        from supervisor.lanes import app as built_in  # noqa: PLC0415 - only a new store asks

        if kind in built_in.lanes:
            return (*self._declare, *registers(built_in))
        known = {*own, *built_in.lanes, *self.kinds()}
        hint = did_you_mean(kind, known)
        raise UnknownKind(kind, f'unknown kind "{kind}"{hint}; kinds here: {", ".join(sorted(known))}')

    def kinds(self) -> dict[str, dict[str, Any]]:
        """Return the kinds that the store knows, with app and options; none where there is no store."""
        try:
            with snapshot(self.home) as db:
                return views.kinds(db)
        except NoStore:
            return {}

    def cancel(self, job: int) -> Cancelled:
        """Cancel a job; see `wait` to wait for the end of its child.

        Raises:
            JobNotFound: no such job.
            InvalidTransition: it is done or skipped.
        """
        store = self._store()
        answer = store.write(Cancel(job, sensors.fence(), live=is_live(self.home), judge=judge))
        ring(self.home)
        return answer

    def job(self, job: int) -> dict[str, Any]:
        """Return one job's row, with its result.

        Raises:
            JobNotFound: no such job.
        """
        with snapshot(self.home) as db:
            return views.job(db, job)

    def jobs(
        self,
        *,
        state: str | None = None,
        kind: str | None = None,
        tag: str | None = None,
        before: int | None = None,
        limit: int = 50,
    ) -> list[dict[str, Any]]:
        """Return jobs, newest first, at most `limit` (1 to 1000); `before` is an id and starts below it."""
        with snapshot(self.home) as db:
            if tag is None:
                return views.jobs(db, state=state, kind=kind, before=before, limit=limit)
            pages = job_pages(db, state=state, kind=kind, before=before)
            return list(islice((row for rows in pages for row in rows if row["tag"] == tag), limit))

    def attempts(self, job: int) -> list[dict[str, Any]]:
        """Return a job's attempts with their receipts, first to last."""
        with snapshot(self.home) as db:
            return views.attempts(db, job)

    def logs(self, job: int) -> str:
        """Return the tail of what the job's last finished attempt printed, "" before there is one.

        Raises:
            JobNotFound: no such job.
        """
        with snapshot(self.home) as db:
            views.job(db, job)
            return next((one["log"] for one in reversed(views.attempts(db, job)) if one["log"]), "")

    def wait(self, ids: Iterable[int], timeout: float | None = None) -> list[dict[str, Any]]:
        """Wait until all these jobs have ended and return their rows, in the order of `ids`.

        Args:
            ids: job ids.
            timeout: seconds; None waits for ever.

        Raises:
            JobNotFound: no such job.
            WaitedTooLong: some had not ended in time.
        """
        until = None if timeout is None else sensors.monotonic() + timeout
        for rows in self.watch(ids):
            left = [row["id"] for row in rows if row["state"] not in ENDED]
            if not left:
                return rows
            if until is not None and sensors.monotonic() >= until:
                raise WaitedTooLong(left)
        raise AssertionError("a watch has no end")

    def watch(self, ids: Iterable[int]) -> Iterator[list[dict[str, Any]]]:
        """Yield the rows of these jobs ten times a second, for ever, read anew when the store has changed.

        Raises:
            JobNotFound: no such job.
        """
        wanted, asleep = list(ids), threading.Event()
        seen, rows = -1, []
        with snapshot(self.home) as db:
            while True:
                if (version := views.data_version(db)) != seen:
                    seen, rows = version, [views.job(db, one) for one in wanted]
                yield rows
                asleep.wait(POLL_SECONDS)

    def _store(self) -> Store:
        return Store(self.home, sensors.now_micros)


def job_pages(
    db: "Connection", *, state: str | None, kind: str | None, before: int | None
) -> Iterator[list[dict[str, Any]]]:
    """Yield jobs, newest first, a thousand at a time: tags have no index."""
    while rows := views.jobs(db, state=state, kind=kind, before=before, limit=1000):
        yield rows
        before = rows[-1]["id"]


def registers(app: App | Application | None) -> Iterator[Register]:
    """Yield what declares an application's kinds in a store."""
    if isinstance(app, Application):
        for name, kinds in app.declarations():
            yield Register(name, kinds)
    elif app is not None:
        yield Register(app.name, {kind: lane.options for kind, lane in app.lanes.items()})


def job_of(kind: str, payload: str, options: Mapping[str, Any]) -> Enqueue:
    """Check one job's options and return the operation that inserts it.

    Raises:
        OptionRefused: all that are unknown or have a bad value.
    """
    if complaints := list(complaints_about(options)):
        raise OptionRefused(complaints)
    own = {name: options[name] for name in OWN_LIMITS if name in options}
    return Enqueue(
        kind=kind, payload=payload, priority=options.get("priority"), tag=options.get("tag"), options=own
    )


def complaints_about(options: Mapping[str, Any]) -> Iterator[str]:
    """Say what is wrong with a job's options, one line each."""
    for name, value in options.items():
        if name == "tag":
            if not isinstance(value, str) or not 0 < len(value) <= 128 or not value.isprintable():
                yield f"tag must be 1 to 128 printable characters, not {value!r}"
        elif name not in {"priority", *OWN_LIMITS}:
            yield f"a job has no option {name!r}{did_you_mean(name, EnqueueOptions.__annotations__)}"
        elif complaint := complaint_about(name, value):
            yield complaint
