"""Versions: the store's own and the applications'."""

from typing import Final

APP_MIGRATIONS: Final = "SELECT number, digest FROM laneway_app_migrations WHERE app = ? ORDER BY number"

ADD_APP_MIGRATION: Final = """
INSERT INTO laneway_app_migrations (app, number, digest, applied_at) VALUES (:app, :number, :digest, :now)"""

REFERENCES: Final = """
SELECT DISTINCT m.name AS child, lower(f."table") AS parent
FROM sqlite_master m JOIN pragma_foreign_key_list(m.name) f
WHERE m.type = 'table' AND lower(m.name) NOT GLOB 'laneway[_]*' AND lower(f."table") GLOB 'laneway[_]*'"""
"""Foreign keys of other tables to the store's."""

HAS_SCHEMA: Final = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'laneway_meta'"

SCHEMA: Final = "SELECT value FROM laneway_meta WHERE name = 'schema'"

SET_SCHEMA: Final = """
INSERT INTO laneway_meta (name, value) VALUES ('schema', ?)
ON CONFLICT (name) DO UPDATE SET value = excluded.value"""

OWN_TABLES: Final = """
SELECT name FROM pragma_table_list
WHERE schema = 'main' AND type IN ('table', 'virtual')
  AND lower(name) NOT GLOB 'laneway[_]*' AND lower(name) NOT GLOB 'sqlite[_]*'
ORDER BY name"""
"""The applications' tables, without those that virtual tables keep underneath."""


def all_of(table: str) -> str:
    """Return the statement that reads a whole table; a name cannot be bound."""
    name = table.replace('"', '""')
    return f'SELECT * FROM "{name}"'
