"""`supervisor search`: ranked lines of what `index` has landed."""

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Final

from landing import views
from landing.errors import NoStore
from landing.reader import Queries
from landing.snapshot import snapshot
from supervisor.cli import hints
from supervisor.cli.output import cut, hint, one_line, print_json, terminal_width
from supervisor.lanes import app
from supervisor.lanes.search import Hit
from supervisor.lanes.search import search as find
from supervisor.settings.place import find_home

SHORTEST: Final = 20
"""Characters of a snippet that are shown even where the path leaves no room for them."""


def search_command(*, home: str | None, as_json: bool, words: tuple[str, ...], limit: int) -> int:
    """Print the hits, best first; none is an answer, too."""
    hits = search(find_home(home), " ".join(words), limit)
    if as_json:
        print_json([asdict(hit) for hit in hits])
    elif not hits:
        hint("no hits")
    for hit in () if as_json else hits:
        print(hit_line(hit))
    return 0


def hit_line(hit: Hit) -> str:
    """Return one hit as one line; on a terminal the snippet ends at its edge, the path is whole."""
    place = f"{one_line(hit.path)}:{hit.line}  "
    snippet = one_line(hit.snippet)
    if sys.stdout.isatty():
        snippet = cut(snippet, max(SHORTEST, terminal_width() - len(place)))
    return place + snippet


def search(home: Path, words: str, limit: int) -> list[Hit]:
    """Return the best hits.

    Raises:
        NoStore: nothing has been indexed here.
    """
    with snapshot(home) as db:
        if not views.has_migrated(db, app.name):
            raise NoStore(str(home), f"nothing is indexed in {home}; first: {hints.command('index FOLDER')}")
        return find(Queries(db), words, limit)
