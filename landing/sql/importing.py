"""A queue file of an earlier shape, and the rows that come of it."""

from collections.abc import Collection
from typing import Final

OLD_COLUMNS: Final = """
SELECT name FROM pragma_table_info('jobs')
WHERE EXISTS (SELECT 1 FROM sqlite_schema WHERE name = 'jobs' AND type = 'table')"""
"""The rows of a view have no numbers."""

NOTE_COPIED: Final = "INSERT INTO laneway_imported (row) VALUES (?) ON CONFLICT DO NOTHING"

ADD: Final = """
INSERT INTO laneway_jobs (kind, state, reason, group_id, priority, tier, num_ctx, payload, identity,
                          exclusive, created_at, waiting_since, started_at, finished_at, claims, mark,
                          watch, watch_key, wake_at)
VALUES (:kind, :state, :reason, :group, :priority, :tier, :num_ctx, :payload, :identity, :exclusive,
        :created_at, :created_at, :started_at, :finished_at, :attempts, :checkpoint, :watch, :watch_key,
        :wake_at)
RETURNING id"""


def old_rows(wanted: Collection[str], there: Collection[str]) -> str:
    """Return the statement for the rows behind one, with NULL for columns that the file does not have."""
    cells = ", ".join(name if name in there else f"NULL AS {name}" for name in wanted)
    return f"SELECT rowid AS row, {cells} FROM jobs WHERE rowid > ? ORDER BY rowid LIMIT ?"
