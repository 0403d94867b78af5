"""`supervisor prune`: whole ended jobs go, and the space that they leave is given back."""

from typing import Any

from supervisor.cli.output import print_json
from supervisor.client import Client
from supervisor.settings.place import find_home
from supervisor.told.units import count


def prune_command(
    *,
    home: str | None,
    as_json: bool,
    older_than: float,
    states: tuple[str, ...],
    dry_run: bool,
    **narrower: str | None,
) -> int:
    """Delete what ended so long ago, and print what that came to."""
    client = Client(find_home(home))
    wanted: dict[str, Any] = {"states": states, **narrower} if states else narrower
    if dry_run:
        jobs = client.prunable(older_than, **wanted)
        show({"jobs": jobs}, f"{count(jobs, 'job')} would go", as_json=as_json)
        return 0
    gone = client.prune(older_than, **wanted)
    facts = {"jobs": gone.jobs, "attempts": gone.attempts, "mb": round(gone.bytes / 1e6, 2)}
    went = f"{count(gone.jobs, 'job')} and {count(gone.attempts, 'attempt')} are gone"
    show(facts, f"{went}; {facts['mb']:g} MB given back", as_json=as_json)
    return 0


def show(facts: dict[str, Any], line: str, *, as_json: bool) -> None:
    """Print facts as JSON or as their line."""
    if as_json:
        print_json(facts)
    else:
        print(line)
