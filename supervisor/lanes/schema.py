"""The tables of the vault and every statement that its lander runs.

    vault_documents    one row a file: what it holds (digest), what is on its way (incoming)
        |  digest, incoming
        v
    vault_chunks       the pieces of each content, kept once however many files hold it
        |  id
        v
    vault_text         the FTS5 index over the chunks' text

A content stays while a document refers to it: through `digest`, or through
`incoming` while its chunks are still landing. `incoming` becomes `digest` when
all chunks have landed, so a document that was cut off is never taken for known.
"""

from typing import Final

TABLES: Final = """
CREATE TABLE vault_documents (
    root TEXT NOT NULL,        -- the folder that was indexed, absolute
    path TEXT NOT NULL,        -- relative to root
    digest TEXT,               -- the content that is searchable, NULL for a file that was passed over
    incoming TEXT,             -- the content whose chunks are landing
    size INTEGER,              -- bytes
    lines INTEGER,
    chunks INTEGER,
    reason TEXT,               -- why the file was passed over
    landed_at INTEGER,         -- microseconds UTC, likewise removed_at
    removed_at INTEGER,        -- the file is gone, this row is its tombstone
    PRIMARY KEY (root, path)
) WITHOUT ROWID;

CREATE INDEX vault_documents_digest ON vault_documents (digest) WHERE removed_at IS NULL;

CREATE INDEX vault_documents_incoming ON vault_documents (incoming) WHERE incoming IS NOT NULL;

CREATE TABLE vault_chunks (
    id INTEGER PRIMARY KEY,
    digest TEXT NOT NULL,
    n INTEGER NOT NULL,        -- 0, 1, 2 ... within the content
    first INTEGER NOT NULL,    -- line numbers from 1
    last INTEGER NOT NULL,
    text TEXT NOT NULL,
    UNIQUE (digest, n)
);

CREATE VIRTUAL TABLE vault_text USING fts5 (
    text, content = 'vault_chunks', content_rowid = 'id',
    tokenize = "unicode61 remove_diacritics 2 tokenchars '_'"
);

CREATE TABLE vault_loose (     -- contents that a batch touches, empty again at its end
    digest TEXT NOT NULL PRIMARY KEY
) WITHOUT ROWID;
"""

KNOWN: Final = """
SELECT path,
       CASE WHEN incoming IS NULL THEN digest END,
       CASE WHEN incoming IS NULL THEN reason END
FROM vault_documents
WHERE root = ? AND path > ? AND (removed_at IS NULL OR incoming IS NOT NULL)
ORDER BY path LIMIT ?
"""
"""(root, after, limit): the files known under a root; one that was cut off has neither digest nor reason."""

LOOSEN: Final = "INSERT OR IGNORE INTO vault_loose VALUES (?)"
"""(digest): note a content whose chunks are about to land."""

LET_GO: Final = (
    "INSERT OR IGNORE INTO vault_loose SELECT digest FROM vault_documents WHERE root = ? AND path = ?",
    "INSERT OR IGNORE INTO vault_loose SELECT incoming FROM vault_documents WHERE root = ? AND path = ?",
)
"""(root, path): note what a document refers to before it changes (NULL is ignored)."""

BEGIN: Final = """
INSERT INTO vault_documents (root, path, incoming) VALUES (?, ?, ?)
ON CONFLICT DO UPDATE SET incoming = excluded.incoming
"""
"""(root, path, digest): the chunks of this content follow."""

LAST_CHUNK: Final = "SELECT coalesce(max(id), 0) FROM vault_chunks"
"""The newest chunk."""

ADD_CHUNK: Final = "INSERT OR IGNORE INTO vault_chunks (digest, n, first, last, text) VALUES (?, ?, ?, ?, ?)"
"""(digest, n, first, last, text): keep a chunk; one that is there already stays as it is."""

INDEX_CHUNKS: Final = "INSERT INTO vault_text (rowid, text) SELECT id, text FROM vault_chunks WHERE id > ?"
"""(id): index the text of all chunks newer than this one."""

COMPLETE: Final = """
UPDATE vault_documents
SET size = ?, lines = ?, chunks = ?, digest = incoming, incoming = NULL, reason = NULL, removed_at = NULL,
    landed_at = CAST(strftime('%s', 'now') AS INTEGER) * 1000000
WHERE root = ? AND path = ? AND incoming = ?
  AND (SELECT count(*) FROM vault_chunks WHERE vault_chunks.digest = incoming) = ?
"""
"""(size, lines, chunks, root, path, digest, chunks): all has landed; a late row changes nothing."""

PASS_OVER: Final = """
INSERT INTO vault_documents (root, path, reason, landed_at)
VALUES (?, ?, ?, CAST(strftime('%s', 'now') AS INTEGER) * 1000000)
ON CONFLICT DO UPDATE
SET digest = NULL, incoming = NULL, size = NULL, lines = NULL, chunks = NULL,
    reason = excluded.reason, landed_at = excluded.landed_at, removed_at = NULL
"""
"""(root, path, reason): this file cannot be indexed."""

BURY: Final = """
UPDATE vault_documents
SET incoming = NULL, removed_at = coalesce(removed_at, CAST(strftime('%s', 'now') AS INTEGER) * 1000000)
WHERE root = ? AND path = ?
"""
"""(root, path): this file is gone."""

SWEEP: Final = (
    """
    DELETE FROM vault_loose
    WHERE EXISTS (SELECT 1 FROM vault_documents AS held
                  WHERE held.digest = vault_loose.digest AND held.removed_at IS NULL)
       OR EXISTS (SELECT 1 FROM vault_documents AS held WHERE held.incoming = vault_loose.digest)
    """,
    """
    INSERT INTO vault_text (vault_text, rowid, text)
    SELECT 'delete', id, text FROM vault_loose CROSS JOIN vault_chunks USING (digest)
    """,
    "DELETE FROM vault_chunks WHERE digest IN (SELECT digest FROM vault_loose)",
    "DELETE FROM vault_loose",
)
"""Drop the chunks of every loose content to which no document refers any more."""
