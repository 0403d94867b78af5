"""What people find."""

from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from supervisor.lanes.search import SEARCH, SNIPPET, match_query, search
from tests.lanes.vault_store import VaultStore


@pytest.fixture
def store(tmp_path: Path) -> VaultStore:
    (tmp_path / "sub").mkdir()
    (tmp_path / "clocks.md").write_text("# Clocks\n\nA monotonic clock.\nIt never\ngoes back.\n")
    (tmp_path / "locks.py").write_text("import os\n\n\ndef take_lock(path):\n    return os.open(path)\n")
    (tmp_path / "sub" / "both.txt").write_text("clock and lock\n" * 3)
    store = VaultStore()
    store.sync(tmp_path)
    return store


def found(store: VaultStore, words: str) -> list[tuple[str, int]]:
    return [(Path(hit.path).name, hit.line) for hit in search(store.facade, words)]


@pytest.mark.parametrize(
    ("words", "hits"),
    [
        ("monotonic", [("clocks.md", 3)]),
        ("MONOTONIC clock", [("clocks.md", 3)]),
        ("clock lock", [("both.txt", 1)]),
        ("never back", [("clocks.md", 4)]),
        ('"goes back"', [("clocks.md", 5)]),
        ('"never goes', [("clocks.md", 4)]),
        ('"back goes"', []),
        ("take_lock", [("locks.py", 4)]),
        ("take", []),
        ("tak*", [("locks.py", 4)]),
        ("os.open", [("locks.py", 5)]),
        ("", []),
        ("* ++ ()", []),
        ("++ monotonic", [("clocks.md", 3)]),
    ],
)
def test_words_phrases_and_prefixes_find_their_line(
    store: VaultStore, words: str, hits: list[tuple[str, int]]
) -> None:
    assert found(store, words) == hits


def test_the_best_hit_comes_first_with_the_higher_score(store: VaultStore) -> None:
    hits = search(store.facade, "clock")
    assert [Path(hit.path).name for hit in hits] == ["both.txt", "clocks.md"]
    assert hits[0].score > hits[1].score > 0


def test_a_hit_names_an_absolute_path_and_shows_its_line(store: VaultStore, tmp_path: Path) -> None:
    [hit] = search(store.facade, "open")
    assert (hit.path, hit.line, hit.snippet) == (str(tmp_path / "locks.py"), 5, "return os.open(path)")


def test_limit_and_root_narrow_the_answer(store: VaultStore, tmp_path: Path) -> None:
    assert len(search(store.facade, "clock", limit=1)) == 1
    assert len(search(store.facade, "clock", root=str(tmp_path))) == 2
    assert search(store.facade, "clock", root="/elsewhere") == []


def test_each_file_with_the_same_content_is_a_hit(store: VaultStore, tmp_path: Path) -> None:
    """C176."""
    (tmp_path / "copy.md").write_bytes((tmp_path / "clocks.md").read_bytes())
    store.sync(tmp_path)
    assert sorted(found(store, "monotonic")) == [("clocks.md", 3), ("copy.md", 3)]


def test_what_is_gone_or_half_landed_is_not_found(store: VaultStore, tmp_path: Path) -> None:
    """C175."""
    (tmp_path / "clocks.md").unlink()
    store.sync(tmp_path)
    assert found(store, "monotonic") == []


@settings(deadline=None)
@given(st.text(max_size=40))
@example('"')
@example('a"b"*c')
@example("NEAR(a, b) AND NOT text:c ^d -e {f} + g")
@example("\udcff a\0b")
@example("a " * 5000)
def test_nothing_that_a_person_types_is_a_syntax_error(words: str) -> None:
    store = VaultStore()
    assert search(store.facade, words) == []


def test_words_are_quoted_for_the_index() -> None:
    assert match_query('lock "time out"* OR pre* say"so"') == '"lock" "time out"* "OR" "pre"* "say" "so"'


def test_a_snippet_of_a_long_line_shows_the_match_between_dots(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("before " * 100 + "needle " + "after " * 100)
    store = VaultStore()
    store.sync(tmp_path)
    [hit] = search(store.facade, "needle")
    assert "needle" in hit.snippet
    assert hit.snippet.startswith("…")
    assert hit.snippet.endswith("…")
    assert len(hit.snippet) <= SNIPPET + 2


def test_a_snippet_holds_nothing_that_a_terminal_would_obey(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("\x1b[31m needle \x1b[0m\x07\u202e\n")
    store = VaultStore()
    store.sync(tmp_path)
    assert search(store.facade, "needle")[0].snippet.isprintable()


def test_a_text_that_holds_the_mark_itself_is_still_located(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("\ufdd0\ufdd0\n\ufdd0 needle\n")
    store = VaultStore()
    store.sync(tmp_path)
    assert search(store.facade, "needle")[0].line == 2


def test_the_index_ranks_and_only_what_is_shown_is_joined(store: VaultStore) -> None:
    plan = [row[3] for row in store.db.execute(f"EXPLAIN QUERY PLAN {SEARCH}", ("", "a", None, 10))]
    assert plan[0].startswith("SCAN vault_text VIRTUAL TABLE")
    assert not any("TEMP B-TREE" in step for step in plan)
