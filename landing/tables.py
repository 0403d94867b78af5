"""What applications keep in their own tables, as a whole: to compare two small stores, never to serve."""

import sqlite3
from collections import Counter
from collections.abc import Iterator
from typing import Any

from landing.sql import schema


def contents(db: sqlite3.Connection) -> Iterator[tuple[str, Counter[tuple[Any, ...]]]]:
    """Yield each table by name, with how often it has each row.

    What a virtual table keeps underneath is left out: it depends on how rows came, not on which there are.
    """
    for (name,) in db.execute(schema.OWN_TABLES).fetchall():
        yield name, Counter(map(tuple, db.execute(schema.all_of(name))))
