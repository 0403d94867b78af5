"""What every command prints with: data on stdout, everything about it on stderr."""

import json
import sys
from collections.abc import Iterator, Sequence
from typing import Any


def print_json(value: Any) -> None:
    """Print JSON in ASCII, which every locale can show and every reader can read."""
    print(json.dumps(value, indent=2 if sys.stdout.isatty() else None))


def print_line(line: str) -> None:
    """Print a line that somebody waits for."""
    print(line, flush=True)


def complain(line: str) -> None:
    """Print what is wrong: one line on stderr."""
    print(f"error: {' '.join(plain(line).split())}", file=sys.stderr)


def hint(line: str) -> None:
    """Print what to know or to do next: one line on stderr."""
    print(f"hint: {plain(line)}", file=sys.stderr)


def plain(text: str) -> str:
    """Return `text` with everything that could move a cursor, or is no character, escaped."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in "\n\t" else escaped(c) for c in text)


def escaped(character: str) -> str:
    """Return a character as Python writes it in a string."""
    return character.encode("unicode_escape", "backslashreplace").decode()


def short(text: str, most: int) -> str:
    """Return the first line of `text`, cut to `most` characters."""
    line = plain(text.strip().split("\n", 1)[0])
    return line if len(line) <= most else f"{line[: most - 3]}..."


def page(rows: Sequence[Sequence[str]], indent: str = "") -> Iterator[str]:
    """Yield one line a row: cells as wide as their column, three spaces between.

    On a terminal a line is cut at its edge, so that it stays one line.
    """
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    edge = terminal_width() if sys.stdout.isatty() else None
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        yield (indent + "   ".join(cells)).rstrip()[:edge]


def terminal_width() -> int:
    """Return the columns of the terminal."""
    from shutil import get_terminal_size  # not for every command: it loads three compressors

    return get_terminal_size().columns
