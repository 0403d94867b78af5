"""The half of a client that looks: nothing here writes, makes a store or waits for a writer."""

import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from landing import views
from landing.cells import text
from landing.errors import NoStore
from landing.snapshot import snapshot
from policies.job import ENDED
from policies.routing import is_open
from supervisor import sensors
from supervisor.errors import WaitedTooLong

POLL_SECONDS: Final = 0.1


class Look:
    """Asks the store of a home folder; where there is none, or an unreadable one, that is a StoreError."""

    def __init__(self, home: str | Path) -> None:
        self.home = Path(home).absolute()

    def kinds(self) -> dict[str, dict[str, Any]]:
        """Return the kinds that the store knows, with app and options; none where there is no store."""
        try:
            with snapshot(self.home) as db:
                return views.kinds(db)
        except NoStore:
            return {}

    def has_router(self, kind: str) -> bool:
        """Tell whether the application that declared a kind here has a router, and may be asked about it."""
        try:
            with snapshot(self.home) as db:
                options = views.routed(db, kind)
        except NoStore:
            return False
        return options is not None and is_open(kind, None, text(options.get("tier")))

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
            return views.jobs(db, state=state, kind=kind, tag=tag, before=before, limit=limit)

    def ids(
        self, state: str, *, kind: str | None = None, tag: str | None = None, after: int = 0, limit: int = 200
    ) -> list[int]:
        """Return ids of jobs in a state, oldest first, at most `limit`; they come after the id `after`."""
        with snapshot(self.home) as db:
            return views.ids(db, state=state, kind=kind, tag=tag, after=after, limit=limit)

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
        """Yield the rows of these jobs ten times a second, for ever; one that has ended is not read again.

        Raises:
            JobNotFound: no such job.
        """
        wanted, asleep = list(ids), threading.Event()
        seen, rows = -1, list[dict[str, Any]]()
        ended: dict[int, dict[str, Any]] = {}
        with snapshot(self.home) as db:
            while True:
                if (version := views.data_version(db)) != seen:
                    rows = [ended.get(one) or views.job(db, one) for one in wanted]
                    seen, ended = version, {row["id"]: row for row in rows if row["state"] in ENDED}
                yield rows
                asleep.wait(POLL_SECONDS)
