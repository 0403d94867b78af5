"""`supervisor search`: ranked lines of what `index` has landed."""

from dataclasses import asdict
from pathlib import Path

from landing import views
from landing.errors import NoStore
from landing.reader import Queries
from landing.snapshot import snapshot
from supervisor.cli.output import hint, plain, print_json
from supervisor.lanes import app
from supervisor.lanes.search import Hit
from supervisor.lanes.search import search as find
from supervisor.settings.place import find_home


def search_command(*, home: str | None, as_json: bool, words: tuple[str, ...], limit: int) -> int:
    """Print the hits, best first; none is an answer, too."""
    hits = search(find_home(home), " ".join(words), limit)
    if as_json:
        print_json([asdict(hit) for hit in hits])
    elif not hits:
        hint("no hits")
    for hit in () if as_json else hits:
        print(f"{plain(hit.path)}:{hit.line}  {hit.snippet}")
    return 0


def search(home: Path, words: str, limit: int) -> list[Hit]:
    """Return the best hits.

    Raises:
        NoStore: nothing has been indexed here.
    """
    with snapshot(home) as db:
        if not views.has_migrated(db, app.name):
            raise NoStore(str(home), f"nothing is indexed in {home}; first: supervisor index FOLDER")
        return find(Queries(db), words, limit)
