"""`supervisor wait`: until jobs have ended, one line for each as it does."""

from collections.abc import Iterable, Mapping, Sequence
from math import inf
from typing import Any, Final

from policies.job import ENDED, State
from supervisor import sensors
from supervisor.cli import hints
from supervisor.cli.codes import FAILED
from supervisor.cli.output import complain, hint, print_json, print_line, short
from supervisor.client import Client
from supervisor.lock import is_live
from supervisor.settings.place import find_home
from supervisor.told.states import state_in_words
from supervisor.told.units import limit

FINE: Final = frozenset({State.DONE, State.SKIPPED})
LOOK_SECONDS: Final = 1.0
"""How often is asked whether there is a supervisor to wait for."""

Rows = Sequence[Mapping[str, Any]]


def wait_command(*, home: str | None, as_json: bool, ids: tuple[int, ...], timeout: float | None) -> int:
    """Return once all have ended, or the time is up; 1 says that one was not done."""
    rows = last_rows(Client(find_home(home)), list(dict.fromkeys(ids)), timeout, aloud=not as_json)
    if as_json:
        print_json([{name: row[name] for name in ("id", "state", "reason")} for row in rows])
    undone = [row for row in rows if row["state"] not in FINE]
    if left := names(row for row in rows if row["state"] not in ENDED):
        complain(f"not ended after {limit(timeout or 0)}: {left}")
    elif undone:
        look = hints.command(f"show {undone[0]['id']}")
        ends = ", ".join(f"#{row['id']} {state_in_words(row['state'])}" for row in undone)
        complain(f"not done: {ends}; {look} says why")
    return FAILED if undone else 0


def last_rows(client: Client, ids: list[int], timeout: float | None, *, aloud: bool) -> Rows:
    """Return the jobs as they are once all have ended, or when the time is up.

    Raises:
        JobNotFound: one is not there; nothing was waited for.
    """
    until = inf if timeout is None else sensors.monotonic() + timeout
    told, look_at, live = set[int](), -inf, True
    for rows in client.watch(ids):
        ended = [row for row in rows if row["state"] in ENDED]
        for row in ended:
            if aloud and row["id"] not in told:
                print_line(line(row))
            told.add(row["id"])
        now = sensors.monotonic()
        if len(ended) == len(rows) or now >= until:
            return rows
        if now >= look_at:
            look_at, before, live = now + LOOK_SECONDS, live, is_live(client.home)
            if before and not live:
                hint(f"no supervisor runs here, start one: {hints.run(row['kind'] for row in rows)}")
    raise AssertionError("a watch has no end")


def line(row: Mapping[str, Any]) -> str:
    """Say how a job ended."""
    why = "" if row["reason"] in {None, row["state"]} else f": {short(row['reason'], 100)}"
    return f"#{row['id']} {state_in_words(row['state'])}{why}"


def names(rows: Iterable[Mapping[str, Any]]) -> str:
    """Name jobs."""
    return ", ".join(f"#{row['id']}" for row in rows)
