"""`supervisor deskcheck`: one job in both modes, in two scratch stores, and what they landed compared.

scratch store, a process  --+
                            +--> tables, state and result side by side --> identical | what differs
scratch store, a thread   --+

It asks no gate and loads no model: somebody sits there and waits for it, and for nothing else.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from landing.snapshot import snapshot
from landing.tables import contents
from policies.gates.vocabulary import Limits
from policies.job import Mode, State
from policies.payload import payload_from
from policies.routing import Tier
from supervisor.application import load_application
from supervisor.cli.codes import FAILED, INTERRUPTED
from supervisor.cli.output import one_line, print_json, short
from supervisor.cli.run import code_of, leave_now, own_stdout
from supervisor.client import Client
from supervisor.errors import Refused
from supervisor.events import Event
from supervisor.run.daemon import Served
from supervisor.run.serve import serve
from supervisor.settings.values import Flags, Settings, load_settings
from supervisor.told.spelling import did_you_mean
from supervisor.told.units import count

SHOWN: Final = 5
"""Rows of a table that are printed of each side."""
WIDEST: Final = 200
ALONE: Final = {"gates": (), "tier": "", "unique": None, "max_attempts": 1}
"""Nothing is waited for, and a failure is not tried again."""
NO_GATES: Final = Limits(presence=0.0, power=False)
"""Nor does a low battery hold it up, below which nothing else starts."""

Tables = dict[str, Counter[tuple[Any, ...]]]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a job came to: how its run ended, the job's own cells, the application's tables."""

    served: Served
    state: str
    reason: str | None
    result: str | None
    tables: Tables


def deskcheck_command(*, home: str | None, app: str | None, as_json: bool, kind: str, payload: str) -> int:
    """Run one job both ways; 0 says that nothing differs."""
    settings = load_settings(Flags(home=home, app=app))
    check_kind(kind, settings)
    body = payload_from(payload)
    with TemporaryDirectory(prefix="laneway-deskcheck-") as folder:
        outcomes = {mode: outcome(settings, Path(folder), kind, body, mode) for mode in Mode}
    cut_short = [one.served for one in outcomes.values() if one.served.ended != "idle"]
    code = code_of(cut_short[0], failed=False) or INTERRUPTED if cut_short else report(outcomes, as_json)
    if any(one.served.stuck for one in outcomes.values()):
        leave_now(code)
    return code


def check_kind(kind: str, settings: Settings) -> None:
    """Refuse what cannot run both ways.

    Raises:
        Refused: there is no such kind, or it is a handler.
    """
    kinds = load_application(settings).kinds
    if kind not in kinds:
        known = ", ".join(sorted(kinds))
        raise Refused([f'unknown kind "{kind}"{did_you_mean(kind, kinds)}; kinds here: {known}'])
    if not kinds[kind].takes_slot:
        raise Refused([f"{kind!r} is a handler, which always runs inproc; there is nothing to compare"])


def outcome(settings: Settings, folder: Path, kind: str, payload: Any, mode: Mode) -> Outcome:
    """Run one job of `kind` in `mode`, in a store of its own below `folder`."""
    own = {**settings.kinds.get(kind, {}), **ALONE}
    tiers = {name: Tier(name) for name in settings.scheduling.tiers}
    scratch = replace(
        settings,
        home=folder / mode,
        scheduling=replace(settings.scheduling, limits=NO_GATES, tiers=tiers),
        max_workers=1,
        kinds={**settings.kinds, kind: own},
        modes={kind: mode},
    )
    application = load_application(scratch)
    client = Client(scratch.home, application)
    job = client.enqueue(kind, payload).id
    with own_stdout():  # what the job prints must not end up in the report
        served = serve(application, scratch, until_idle=False, report=nobody, jobs=frozenset({job}))
    row = client.job(job)
    with snapshot(scratch.home) as db:
        return Outcome(served, row["state"], row["reason"], row["result"], dict(contents(db)))


def nobody(_event: Event) -> None:
    """Nobody watches."""


def report(outcomes: dict[Mode, Outcome], as_json: bool) -> int:  # noqa: FBT001 - as the flag is called
    """Print what differs, or that nothing does."""
    first, second = outcomes.values()
    differing = list(differences(outcomes))
    done = first.state == State.DONE and second.state == State.DONE
    filled = [table.total() for table in first.tables.values() if table]
    rows, tables = sum(filled), len(filled)
    if as_json:
        jobs = {mode: {"state": one.state, "reason": one.reason} for mode, one in outcomes.items()}
        print_json(
            {
                "identical": not differing,
                "rows": rows,
                "tables": tables,
                "jobs": jobs,
                "differences": differing,
            }
        )
    elif differing:
        for line in told(differing):
            print(line)
    elif done:
        print(f"identical: {count(rows, 'row')} in {count(tables, 'table')}")
    if not done and not as_json:
        for mode, one in outcomes.items():
            print(f"{mode}: the job {one.state}: {short(one.reason or '', WIDEST)}")
    return 0 if done and not differing else FAILED


def differences(outcomes: dict[Mode, Outcome]) -> Iterator[dict[str, Any]]:
    """Yield what the two do not have in common: a table or a cell of the job, and what only one side has."""
    (left, one), (right, two) = outcomes.items()
    for name in ("state", "result"):
        if getattr(one, name) != getattr(two, name):
            values = {left: [getattr(one, name)], right: [getattr(two, name)]}
            yield {"of": name, "rows": {left: 1, right: 1}, "first": values}
    for table in sorted(one.tables.keys() | two.tables.keys()):
        here, there = one.tables.get(table, Counter()), two.tables.get(table, Counter())
        only = {left: here - there, right: there - here}
        if only[left] or only[right]:
            yield {
                "of": f"table {table}",
                "rows": {mode: rows.total() for mode, rows in only.items()},
                "first": {mode: list(map(shown, list(rows)[:SHOWN])) for mode, rows in only.items()},
            }


def shown(row: tuple[Any, ...]) -> str:
    """Return a row in one line."""
    return short(one_line(repr(row)), WIDEST)


def told(differing: list[dict[str, Any]]) -> Iterator[str]:
    """Yield the lines that say what differs."""
    for one in differing:
        yield f"{one['of']} differs: " + ", ".join(
            f"{number:,} only in {mode}" for mode, number in one["rows"].items()
        )
        for mode, values in one["first"].items():
            yield from (f"  {mode:<10}  {value}" for value in values)
            if (more := one["rows"][mode] - len(values)) > 0:
                yield f"  {mode:<10}  and {more:,} more"
