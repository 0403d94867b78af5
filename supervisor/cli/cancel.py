"""`supervisor cancel`: says what was verified, not what was asked for."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from landing import views
from landing.errors import StoreError
from landing.snapshot import snapshot
from policies.job import IN_FLIGHT, WAITING, Outcome, State
from supervisor.cli import hints
from supervisor.cli.selection import Answer, carry_out, selected
from supervisor.client import Client
from supervisor.errors import WaitedTooLong
from supervisor.settings.place import find_home
from supervisor.told.kills import survivors

SETTLE_SECONDS: Final = 15.0
"""How long a running job may take to end: the default grace, and what a large process needs to go."""
CANCELLING: Final = "cancelling"
UNFINISHED: Final = tuple(state for state in State if state in WAITING) + tuple(sorted(IN_FLIGHT))
"""First what waits, so that nothing of it begins while the rest is cancelled."""


def cancel_command(*, home: str | None, as_json: bool, **which: Any) -> int:
    """Cancel each job; 1 says that one was not there, or had ended before."""
    client = Client(find_home(home))
    selection = replace(selected(UNFINISHED, **which), by_state=True)
    return carry_out(client, selection, lambda some: cancelled(client, some), as_json=as_json)


def cancelled(client: Client, ids: Sequence[int]) -> Iterator[Answer | StoreError]:
    """Cancel some jobs, wait for the ends of those that ran, and yield what is known then."""
    answers = client.cancel_many(ids)
    states = {one.id: one.state for one in answers if not isinstance(one, StoreError)}
    ran = frozenset(job for job, state in states.items() if state == CANCELLING)
    settle(client, states)
    with snapshot(client.home) as db:
        for one in answers:
            if isinstance(one, StoreError):
                yield one
                continue
            state = states[one.id]
            known = verified(one.id, state, views.attempts(db, one.id), ran=one.id in ran)
            yield Answer({"id": one.id, "state": state}, f"#{one.id} {known}")


def settle(client: Client, states: dict[int, str]) -> None:
    """Wait until the supervisor has ended the children of jobs that were running."""
    under_way = [job for job, state in states.items() if state == CANCELLING]
    try:
        for row in client.wait(under_way, SETTLE_SECONDS):
            states[row["id"]] = row["state"]
    except WaitedTooLong as error:
        for job in set(under_way) - set(error.ids):
            states[job] = client.job(job)["state"]


def verified(job: int, state: str, attempts: Sequence[Mapping[str, Any]], *, ran: bool) -> str:
    """Say what is known now; `ran` says that a supervisor held it."""
    if state == CANCELLING:
        look = hints.command(f"show {job}")
        return f"cancelling: its batches are refused, its process has not ended yet ({look})"
    if not attempts:
        return f"{state}; it had not started"
    if not ran:
        orphan = attempts[-1]["outcome"] == Outcome.CANCELLED and attempts[-1]["error_code"] == "orphaned"
        return f"{state}; {'its supervisor had died' if orphan else 'it was not running'}"
    if left := survivors(attempts[-1]["kill"]):
        return f"{state}, but not all could be killed; survivors: {left}"
    if attempts[-1]["started_at"] is None:  # its model was still loading, or its child starting
        return f"{state}; it had not started{' again' if len(attempts) > 1 else ''}"
    return f"{state}, its process is gone"
