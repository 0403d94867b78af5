"""How texts are cut."""

import re
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from supervisor.lanes.chunks import CHARS, LINES, Chunk, cut

LINE = st.one_of(
    st.sampled_from(
        ["", " ", "# Title", "## Part", "```", "~~~", "def f():", "    return 1", "}", "\f", "\r", "a\u2028b"]
    ),
    st.text(max_size=30),
    st.integers(CHARS - 2, 3 * CHARS).map("x".__mul__),
)
TEXT = st.tuples(st.lists(st.tuples(LINE, st.integers(1, 60)), max_size=12), st.booleans()).map(
    lambda made: "\n".join(line for line, times in made[0] for _ in range(times)) + "\n" * made[1]
)


@settings(deadline=None)
@given(TEXT, st.booleans())
def test_the_chunks_of_a_text_joined_are_the_text(text: str, headings: bool) -> None:
    chunks = cut(text, headings=headings)
    assert "".join(chunk.text for chunk in chunks) == text
    assert all(chunk.text for chunk in chunks)


@settings(deadline=None)
@given(TEXT, st.booleans())
def test_line_numbers_are_those_of_an_editor(text: str, headings: bool) -> None:
    offset = 0
    for chunk in cut(text, headings=headings):
        assert chunk.first == text.count("\n", 0, offset) + 1
        offset += len(chunk.text)
        assert chunk.last == text.count("\n", 0, offset - 1) + 1


@settings(deadline=None)
@given(TEXT, st.booleans())
def test_a_chunk_is_bounded_and_only_a_line_over_the_bound_is_split(text: str, headings: bool) -> None:
    lines = re.findall(r"[^\n]*\n|[^\n]+", text)
    chunks = cut(text, headings=headings)
    for chunk in chunks:
        assert len(chunk.text) <= CHARS
        assert chunk.last - chunk.first < LINES
    for before, after in pairwise(chunks):
        if before.last == after.first:
            assert len(lines[after.first - 1]) > CHARS


def test_an_empty_text_has_no_chunks() -> None:
    assert cut("", headings=True) == []


def test_each_heading_of_a_markdown_text_starts_a_chunk() -> None:
    text = "intro\n\n# One\nbody\n\n## Two\nbody\n#hashtag\n"
    assert [chunk.first for chunk in cut(text, headings=True)] == [1, 3, 6]
    assert len(cut(text, headings=False)) == 1


@pytest.mark.parametrize("fence", ["```", "~~~"])
def test_a_comment_inside_a_fence_is_no_heading(fence: str) -> None:
    text = f"# One\n{fence}sh\n# comment\n{fence}\n# Two\n"
    assert [chunk.first for chunk in cut(text, headings=True)] == [1, 5]


def test_a_fence_that_is_never_closed_reaches_to_the_end() -> None:
    assert len(cut("# One\n```\n# comment\n# comment\n", headings=True)) == 1


def test_a_source_is_cut_before_a_definition_with_its_decorator() -> None:
    body = "".join(f"    step_{n}()\n" for n in range(20))
    text = f"def first():\n{body}\n\n@decorated\ndef second():\n{body}"
    assert [(chunk.first, chunk.last) for chunk in cut(text, headings=False)] == [(1, 23), (24, 45)]


def test_a_long_block_is_cut_at_its_blank_lines() -> None:
    body = "".join(f"    step_{n}()\n" for n in range(25))
    text = f"def only():\n{body}\n{body}"
    assert [chunk.first for chunk in cut(text, headings=False)] == [1, 28]


def test_a_blank_line_near_the_beginning_is_no_reason_for_a_crumb() -> None:
    text = "one\n\n" + "".join(f"line {n}\n" for n in range(60))
    assert cut(text, headings=False)[0].last == LINES


def test_a_line_over_the_bound_is_cut_in_pieces_of_its_own_number() -> None:
    text = "a\n" + "x" * (2 * CHARS) + "\nb\n"
    assert cut(text, headings=False) == [
        Chunk(1, 1, "a\n"),
        Chunk(2, 2, "x" * CHARS),
        Chunk(2, 2, "x" * CHARS),
        Chunk(2, 3, "\nb\n"),
    ]
