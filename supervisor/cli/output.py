"""What every command prints with: data on stdout, everything about it on stderr."""

import json
import sys
from collections.abc import Iterator, Sequence
from typing import Any, Final

NARROWEST: Final = 8
"""Characters that a column keeps on a narrow terminal."""


def print_json(value: Any) -> None:
    """Print JSON in ASCII, which every locale can show and every reader can read."""
    print(json.dumps(value, indent=2 if sys.stdout.isatty() else None))


def print_line(line: str) -> None:
    """Print a line that somebody waits for."""
    print(line, flush=True)


def complain(line: str) -> None:
    """Print what is wrong: one line on stderr."""
    print(f"error: {one_line(' '.join(line.split()))}", file=sys.stderr)


def warn(line: str) -> None:
    """Print what did not go as it should, though the thing asked for is done: one line on stderr."""
    print(f"warning: {one_line(line)}", file=sys.stderr)


def hint(line: str) -> None:
    """Print what to know or to do next: one line on stderr."""
    print(f"hint: {one_line(line)}", file=sys.stderr)


def plain(text: str) -> str:
    """Return `text` with everything that could move a cursor, or is no character, escaped."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in "\n\t" else escaped(c) for c in text)


def one_line(text: str) -> str:
    """Return `text` as `plain` does, with line ends and tabs escaped, too."""
    return text if text.isprintable() else "".join(c if c.isprintable() else escaped(c) for c in text)


def escaped(character: str) -> str:
    """Return a character as Python writes it in a string."""
    return character.encode("unicode_escape", "backslashreplace").decode()


def short(text: str, most: int) -> str:
    """Return the first line of `text`, cut to `most` characters; "…" says that there is more."""
    line, _, more = text.strip().partition("\n")
    return cut(f"{one_line(line.rstrip())}{' …' if more else ''}", most)


def cut(text: str, most: int) -> str:
    """Return `text` in at most `most` characters, the last of them "…" where something is missing."""
    return text if len(text) <= most else f"{text[: max(0, most - 1)]}…"


def page(rows: Sequence[Sequence[str]], indent: str = "") -> Iterator[str]:
    """Yield one line a row: cells as wide as their column, three spaces between.

    On a terminal the widest columns give way, then the last ones, so that a line stays one line.
    """
    clean = [[one_line(cell) for cell in row] for row in rows]
    widths = [max(len(cell) for cell in column) for column in zip(*clean, strict=True)]
    edge = terminal_width() if sys.stdout.isatty() else None
    if edge is not None:
        widths = fitting(widths, edge - len(indent) - 3 * (len(widths) - 1))
    for row in clean:
        cells = [cut(cell, width).ljust(width) for cell, width in zip(row, widths, strict=True)]
        line = (indent + "   ".join(cells)).rstrip()
        yield line if edge is None else cut(line, edge)


def fitting(widths: Sequence[int], room: int) -> list[int]:
    """Return column widths that fit into `room`, taken from the widest first, none made narrower than 8."""
    fit = list(widths)
    while sum(fit) > room and max(fit) > NARROWEST:
        fit[fit.index(max(fit))] -= 1
    return fit


def terminal_width() -> int:
    """Return the columns of the terminal."""
    from shutil import get_terminal_size  # not for every command: it loads three compressors

    return get_terminal_size().columns
