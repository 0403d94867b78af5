r"""Cut a text where a reader would: at headings, at blocks, at blank lines, at line ends.

    text = chunk | chunk | chunk ...      joined again, the chunks are the text, to the character

Lines end at "\n" alone, as editors and grep count them; `str.splitlines` would
also count form feeds, which old sources are full of.
"""

import re
from bisect import bisect_right
from dataclasses import dataclass
from typing import Final, NamedTuple

CHARS: Final = 1600
"""Characters in a chunk, at most: a screenful, and within the window of most embedding models."""

LINES: Final = 40
"""Lines in a chunk, at most."""

# A "#" inside a fence is a comment in some program, so fences are matched first and passed over.
HEADING: Final = re.compile(
    r"^(?:[ ]{0,3}(```|~~~).*?(?:^[ ]{0,3}\1|\Z)|#{1,6}[ \t])", re.MULTILINE | re.DOTALL
)
BLANK_LINES: Final = re.compile(r"\n(?:[ \t\r]*\n)+")


class Chunk(NamedTuple):
    """A piece of a text and the numbers of its first and last line, from 1."""

    first: int
    last: int
    text: str


def cut(text: str, *, headings: bool) -> list[Chunk]:
    """Cut `text` into chunks of at most `CHARS` characters and `LINES` lines.

    Args:
        text: any text; an empty one has no chunks.
        headings: True for Markdown, where each heading starts a chunk.

    Returns:
        Chunks that joined give `text`. A line is split only if it is longer than `CHARS`.
    """
    seams = find_seams(text, headings=headings)
    chunks: list[Chunk] = []
    start = 0
    while start < len(text):
        stop = seams.stop(start)
        chunks.append(Chunk(seams.line(start), seams.line(stop - 1), text[start:stop]))
        start = stop
    return chunks


def find_seams(text: str, *, headings: bool) -> "Seams":
    """Find every offset at which `text` may be cut."""
    gaps = [match.end() for match in BLANK_LINES.finditer(text) if match.end() < len(text)]
    return Seams(
        length=len(text),
        sections=[match.start() for match in HEADING.finditer(text) if match[1] is None] if headings else [],
        blocks=[gap for gap in gaps if text[gap] not in " \t"],
        gaps=gaps,
        ends=[match.end() for match in re.finditer("\n", text)],
    )


@dataclass(frozen=True, slots=True)
class Seams:
    """Ascending offsets: `sections` always start a chunk; the others are where a full one is cut.

    `blocks` start an unindented line after a blank one (a paragraph, a
    definition, in nearly any language), `gaps` any line after a blank one,
    `ends` any line.
    """

    length: int
    sections: list[int]
    blocks: list[int]
    gaps: list[int]
    ends: list[int]

    def line(self, offset: int) -> int:
        """Return the number, from 1, of the line that holds the character at `offset`."""
        return bisect_right(self.ends, offset) + 1

    def stop(self, start: int) -> int:
        """Return where the chunk that begins at `start` stops: at the best seam that keeps it in bounds."""
        after = bisect_right(self.sections, start)
        section = self.sections[after] if after < len(self.sections) else self.length
        limit = min(start + CHARS, self.end_of_line(self.line(start) + LINES - 1))
        if section <= limit:
            return section
        # A better seam is worth a shorter chunk, but not a crumb: one follows it at once.
        least = start + (limit - start) // 4
        return (
            last_within(self.blocks, least, limit)
            or last_within(self.gaps, least, limit)
            or last_within(self.ends, start, limit)
            or limit
        )

    def end_of_line(self, number: int) -> int:
        """Return the offset after line `number`, or the length of the text when it has no such line."""
        return self.ends[number - 1] if number <= len(self.ends) else self.length


def last_within(offsets: list[int], low: int, high: int) -> int | None:
    """Return the last of the ascending `offsets` that is over `low` and at most `high`."""
    index = bisect_right(offsets, high)
    return offsets[index - 1] if index and offsets[index - 1] > low else None
