"""Search the vault: a person's words in, ranked hits out.

Every word is quoted before FTS5 sees it, so nothing that a person types is syntax
but a phrase in quotes and a `*` at a word's end.
"""

import re
from dataclasses import dataclass
from typing import Final

from supervisor.halves import Queries

SNIPPET: Final = 160
"""Characters in a snippet, at most."""

MARK: Final = "\ufdd0"
"""Set before every match by `highlight`; a noncharacter, though any would do (see `first_match`)."""

SEARCH: Final = """
SELECT root, path, first, chunk.text, highlight(vault_text, 0, ?, ''), -rank
FROM vault_text
CROSS JOIN vault_chunks AS chunk ON chunk.id = vault_text.rowid
CROSS JOIN vault_documents AS document ON document.digest = chunk.digest AND removed_at IS NULL
WHERE vault_text MATCH ? AND root = coalesce(?, root)
ORDER BY rank LIMIT ?
"""
"""(mark, query, root or NULL, limit): CROSS JOIN keeps FTS5 outermost: only what is shown is joined."""

TERM: Final = re.compile(r'"([^"]*)"?(\*?)|([^\s"]+)')


@dataclass(frozen=True, slots=True)
class Hit:
    """One place that matches.

    `path` is absolute, `line` (from 1) is the first line with a match, `score`
    is higher the better it fits (BM25), `snippet` is that line as plain text.
    """

    path: str
    line: int
    score: float
    snippet: str


def search(db: Queries, words: str, limit: int = 10, root: str | None = None) -> list[Hit]:
    """Return the best `limit` chunks that hold all `words`, best first.

    Args:
        db: a store with the vault's tables.
        words: words, `pre*` for a beginning, `"a phrase"` in double quotes.
        limit: how many hits, at most.
        root: only files of this indexed folder; None: of all.
    """
    if not (query := match_query(words)):
        return []
    return [hit_from(*row) for row in db.query(SEARCH, (MARK, query, root, limit))]


def match_query(words: str) -> str:
    """Turn a person's words into an FTS5 query that holds no syntax of theirs; "" when nothing is asked."""
    # argv brings lone surrogates, and FTS5 would stop reading at a NUL.
    text = words.encode("utf-8", "replace").decode().replace("\0", " ")
    return " ".join(filter(None, map(quoted, TERM.finditer(text))))


def quoted(term: re.Match[str]) -> str:
    """Quote one phrase or word; the star of a prefix stays outside."""
    phrase, star, word = term.groups()
    if word is not None:
        phrase, star = word.rstrip("*"), "*" if word.endswith("*") else ""
    return f'"{phrase}"{star}' if phrase.strip() else ""


def hit_from(root: str, path: str, first: int, text: str, marked: str, score: float) -> Hit:
    """Make a hit of a row: find the match in its chunk, and the line around it."""
    match = first_match(text, marked)
    start = text.rfind("\n", 0, match) + 1
    end = text.find("\n", match)
    line = text[start : end if end >= 0 else len(text)]
    return Hit(
        f"{root.rstrip('/')}/{path}", first + text.count("\n", 0, start), score, snippet(line, match - start)
    )


def first_match(text: str, marked: str) -> int:
    """Return the offset of the first match: where the text and its marked copy part."""
    return next(
        (at for at, (plain, other) in enumerate(zip(text, marked, strict=False)) if plain != other), 0
    )


def snippet(line: str, match: int) -> str:
    """Cut `line` to one screen line that shows the match; control characters are escaped, space is space."""
    start = max(0, min(match - SNIPPET // 4, len(line) - SNIPPET))
    shown = line[start : start + SNIPPET]
    plain = "".join(visible(letter) for letter in shown).strip()
    return f"{'…' if start else ''}{plain}{'…' if start + SNIPPET < len(line) else ''}"


def visible(letter: str) -> str:
    """Return a letter as it can be shown on one line."""
    if letter.isprintable():
        return letter
    return " " if letter.isspace() else letter.encode("unicode_escape", "backslashreplace").decode()
