"""`supervisor hold` and `unhold`: jobs, or a whole kind, wait until somebody says otherwise.

As JSON both print a list, as every command that changes jobs does: of jobs {id, state, held, changed}, of a
kind one {kind, held, changed, running}, where `running` are the jobs that run on.
"""

import shlex
from collections.abc import Iterator, Sequence
from typing import Any, Final

from landing import views
from landing.errors import StoreError
from landing.hold import Changed
from landing.snapshot import snapshot
from policies.job import State
from policies.transitions import TRANSITIONS, Move
from supervisor.cli import hints
from supervisor.cli.output import hint, one_line, print_json, print_line
from supervisor.cli.selection import Answer, carry_out, selected
from supervisor.client import Client
from supervisor.errors import Refused
from supervisor.settings.place import find_home
from supervisor.told.units import count

LISTED: Final = 1000
"""Jobs that are looked through for those that stay held; more of them is more than anybody counts."""


def hold_command(*, home: str | None, as_json: bool, why: str | None, **which: Any) -> int:
    """Hold each job, or a kind; 1 says that a job was not there, or did not wait any more."""
    client = Client(find_home(home))
    if is_kind_alone(**which):
        return hold_kind(client, which["kind"], why or "", as_json=as_json)
    if why is not None:
        raise Refused(["--why goes with --kind alone, which holds the whole kind"])
    selection = selected(TRANSITIONS[Move.HOLD][0], **which)
    return carry_out(client, selection, lambda some: held(client, some), as_json=as_json)


def unhold_command(*, home: str | None, as_json: bool, **which: Any) -> int:
    """Let each job go, or a kind; 1 says that a job was not there."""
    client = Client(find_home(home))
    if is_kind_alone(**which):
        return unhold_kind(client, which["kind"], as_json=as_json)
    selection = selected([State.PENDING], **which)
    named = bool(selection.ids)
    return carry_out(client, selection, lambda some: let_go(client, some, named=named), as_json=as_json)


def is_kind_alone(*, ids: Sequence[int], states: Sequence[str], kind: str | None, tag: str | None) -> bool:
    """Tell whether a kind is meant, and not some of its jobs."""
    return kind is not None and not ids and not states and tag is None


def held(client: Client, ids: Sequence[int]) -> Iterator[Answer | StoreError]:
    """Hold some jobs."""
    for one in client.hold_many(ids):
        if isinstance(one, StoreError):
            yield one
        else:
            yield Answer(job_facts(one, held=True), f"#{one.id} held{'' if one.changed else ' already'}")


def let_go(client: Client, ids: Sequence[int], *, named: bool) -> Iterator[Answer | StoreError]:
    """Let some jobs go; those that were not held are passed over, unless they are `named`."""
    for one in client.unhold_many(ids):
        if isinstance(one, StoreError):
            yield one
        elif one.changed or named:
            how = "" if one.changed else "; it was not held"
            yield Answer(job_facts(one, held=False), f"#{one.id} {one.state}{how}")


def job_facts(one: Changed, *, held: bool) -> dict[str, Any]:
    """Return what became of a job as JSON."""
    return {"id": one.id, "state": one.state, "held": held, "changed": one.changed}


def hold_kind(client: Client, kind: str, why: str, *, as_json: bool) -> int:
    """Hold a kind, and say what of it runs on."""
    is_new = client.hold_kind(kind, why)
    running = in_flight(client, kind)
    if as_json:
        print_json([{"kind": kind, "held": True, "changed": is_new, "running": running}])
        return 0
    names = " ".join(f"#{job}" for job in running)
    on = f"; {names} {'runs' if len(running) == 1 else 'run'} on" if running else ""
    print_line(f"kind {one_line(kind)} held{'' if is_new else ' already'}{on}")
    return 0


def in_flight(client: Client, kind: str) -> list[int]:
    """Return the ids of a kind's jobs in flight, at most 64."""
    with snapshot(client.home) as db:
        return [row["id"] for row in views.in_flight(db) if row["kind"] == kind]


def unhold_kind(client: Client, kind: str, *, as_json: bool) -> int:
    """Let a kind go, and say which of its jobs are held themselves."""
    was_held = client.unhold_kind(kind)
    if as_json:
        running = in_flight(client, kind)
        print_json([{"kind": kind, "held": False, "changed": was_held, "running": running}])
    else:
        print_line(f"kind {one_line(kind)} {'let go' if was_held else 'was not held'}")
    pending = client.jobs(state=State.PENDING, kind=kind, limit=LISTED)
    if themselves := [row["id"] for row in pending if row["reason"] == "held"]:
        which = f"{count(len(themselves), 'job')} of it"
        let = hints.command(shlex.join(["unhold", "--kind", kind, "--state", State.PENDING]))
        hint(f"{which} held by hand, not with the kind; {let} lets go of all that are")
    return 0
