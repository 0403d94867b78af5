"""`supervisor retry`: queues again what failed or was cancelled, and says where each job goes on."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from landing import views
from landing.errors import StoreError
from landing.retry import Retried
from landing.snapshot import snapshot
from policies.job import State
from supervisor.application import load_application
from supervisor.cli import hints
from supervisor.cli.output import hint, one_line
from supervisor.cli.selection import Answer, carry_out, selected
from supervisor.client import Client
from supervisor.errors import Refused
from supervisor.lock import is_live
from supervisor.settings.place import find_home
from supervisor.settings.values import Flags, load_settings
from supervisor.told.plan import plan

if TYPE_CHECKING:
    from sqlite3 import Connection

FAILED: Final = (State.FAILED, State.FAILED_OPTIONAL)
"""What is retried unless told otherwise: somebody cancelled the others on purpose."""
NAMED: Final = 10
"""Jobs that a warning names; a command may retry thousands."""


def retry_command(
    *,
    home: str | None,
    app: str | None,
    as_json: bool,
    failed: bool,
    from_start: bool,
    keep_rows: bool,
    **which: Any,
) -> int:
    """Retry each job; 1 says that one was not there, had not failed, or cannot start over."""
    if keep_rows and not from_start:
        raise Refused(["--keep-rows says what becomes of rows with --from-start; add that, or leave it out"])
    if failed and which["states"]:
        raise Refused(["--failed and --state exclude each other; --state may be repeated"])
    if failed:
        which["states"] = FAILED
    selection = selected(FAILED, **which)
    again = Again(client_for(home, app), from_start, keep_rows)
    code = carry_out(again.client, selection, again.retry, as_json=as_json)
    again.warn()
    return code


def client_for(home: str | None, app: str | None) -> Client:
    """Return a client that declares an application which is named here, as enqueue does."""
    if app is None:
        return Client(find_home(home))
    settings = load_settings(Flags(home=home, app=app))
    return Client(settings.home, load_application(settings))


@dataclass(frozen=True, slots=True)
class Again:
    """One way of retrying; `kinds` are those of the jobs that were queued, `doomed` fail as they did."""

    client: Client
    from_start: bool
    keep_rows: bool
    kinds: set[str] = field(default_factory=set)
    doomed: list[int] = field(default_factory=list)

    def retry(self, ids: Sequence[int]) -> Iterator[Answer | StoreError]:
        """Retry some jobs."""
        answers = self.client.retry_many(ids, from_start=self.from_start, keep_rows=self.keep_rows)
        with snapshot(self.client.home) as db:
            declared = views.kinds(db)
            resume = {kind: row["options"].get("resume") for kind, row in declared.items()}
            for one in answers:
                yield one if isinstance(one, StoreError) else self.told(db, one, resume)

    def told(self, db: "Connection", one: Retried, resume: dict[str, str | None]) -> Answer:
        """Say where a job goes on, and what becomes of what it has landed."""
        row = views.job(db, one.id)
        self.kinds.add(row["kind"])
        what = plan(row, views.discard(db, one.id), resume.get(row["kind"]))
        if what.fails_again(views.last_code(db, one.id)):
            self.doomed.append(one.id)
        how = "as before" if one.waited else "again"
        line = f"#{one.id} {one.state} {how}; {one_line(what.text)}"
        return Answer({"id": one.id, "state": one.state}, line)

    def warn(self) -> None:
        """Say what will fail as it did, and that nobody takes what was queued."""
        if self.doomed:
            some, rest = self.doomed[:NAMED], len(self.doomed) - NAMED
            names = " ".join(f"#{job}" for job in some) + (f" and {rest} more" if rest > 0 else "")
            over = hints.command(f"retry {' '.join(map(str, some))} --from-start")
            why = "what came again was not what had landed (resume_mismatch)"
            hint(f"{names}: {why}; while that is so, going on fails again; {over} starts over")
        if self.kinds and not is_live(self.client.home):
            hint(f"queued; no supervisor runs here, start one: {hints.run(self.kinds)}")
