"""`supervisor retry`: queues again what failed or was cancelled, and says where each job goes on."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from landing import views
from landing.errors import StoreError
from landing.snapshot import snapshot
from policies.job import Resume, State
from supervisor.cli import hints
from supervisor.cli.output import hint, short
from supervisor.cli.selection import Answer, carry_out, selected
from supervisor.client import Client
from supervisor.errors import Refused
from supervisor.lock import is_live
from supervisor.settings.place import find_home
from supervisor.told.units import count

FAILED: Final = (State.FAILED, State.FAILED_OPTIONAL)
"""What is retried unless told otherwise: somebody cancelled the others on purpose."""


def retry_command(
    *, home: str | None, as_json: bool, failed: bool, from_start: bool, keep_rows: bool, **which: Any
) -> int:
    """Retry each job; 1 says that one was not there, had not failed, or cannot start over."""
    if keep_rows and not from_start:
        raise Refused(["--keep-rows says what becomes of rows with --from-start; add that, or leave it out"])
    if failed:
        which["states"] = dict.fromkeys((*which["states"], *FAILED))
    selection = selected(FAILED, **which)
    again = Again(Client(find_home(home)), from_start, keep_rows)
    code = carry_out(again.client, selection, again.retry, as_json=as_json)
    if again.kinds and not is_live(again.client.home):
        hint(f"queued; no supervisor runs here, start one: {hints.run(again.kinds)}")
    return code


@dataclass(frozen=True, slots=True)
class Again:
    """One way of retrying; `kinds` are those of the jobs that were queued."""

    client: Client
    from_start: bool
    keep_rows: bool
    kinds: set[str] = field(default_factory=set)

    def retry(self, ids: Sequence[int]) -> Iterator[Answer | StoreError]:
        """Retry some jobs."""
        answers = self.client.retry_many(ids, from_start=self.from_start, keep_rows=self.keep_rows)
        with snapshot(self.client.home) as db:
            declared = views.kinds(db)
            for one in answers:
                if isinstance(one, StoreError):
                    yield one
                    continue
                row = views.job(db, one.id)
                self.kinds.add(row["kind"])
                resume = declared.get(row["kind"], {}).get("options", {}).get("resume")
                line = f"#{one.id} {one.state} again; {self.place(row, resume)}"
                yield Answer({"id": one.id, "state": one.state}, line)

    def place(self, row: Mapping[str, Any], resume: str | None) -> str:
        """Say where a job goes on, and what becomes of what it has landed."""
        rows, mark = count(row["landed_rows"], "row"), row["mark"]
        if mark is None and not row["landed_rows"]:
            return "starts from the beginning"
        over = f"starts over; what it has landed ({rows})"
        if self.keep_rows:
            return f"{over} stays"
        if resume == Resume.RESTART:
            return f"{over} is replaced"
        if self.from_start:
            return f"{over} is discarded with its first new batch"
        return f"goes on after {rows}" if mark is None else f"goes on after mark {short(mark, 60)!r}"
