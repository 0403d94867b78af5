"""`supervisor skip`: what waits is not to be done at all."""

from collections.abc import Iterator, Sequence
from typing import Any

from landing.errors import StoreError
from policies.job import State
from policies.transitions import TRANSITIONS, Move
from supervisor.cli.selection import Answer, carry_out, selected
from supervisor.client import Client
from supervisor.settings.place import find_home


def skip_command(*, home: str | None, as_json: bool, **which: Any) -> int:
    """Skip each job; 1 says that one was not there, or did not wait any more."""
    client = Client(find_home(home))
    waiting = [state for state in State if state in TRANSITIONS[Move.SKIP][0]]
    selection = selected(waiting, **which)
    return carry_out(client, selection, lambda some: skipped(client, some), as_json=as_json)


def skipped(client: Client, ids: Sequence[int]) -> Iterator[Answer | StoreError]:
    """Skip some jobs."""
    for one in client.skip_many(ids):
        if isinstance(one, StoreError):
            yield one
        else:
            yield Answer({"id": one.id, "state": one.state}, f"#{one.id} {one.state}")
