"""Whatever happened to folder, batches and attempts, a whole pass gives the tables of a fresh index."""

import tempfile
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.lanes.vault_store import Pass, VaultStore

PATHS = ("a.md", "b.md", "c.txt", "sub/a.py", "sub/z.md")
CONTENTS = (
    b"",
    b"one line",
    b"# Title\n\ntext\n" * 9,
    b"".join(b"line %d\n" % n for n in range(130)),
    b"".join(b"line %d\n" % n for n in range(90)),
    b"\0",
    b"caf\xe9",
)

Changes = st.dictionaries(st.sampled_from(PATHS), st.sampled_from((*CONTENTS, None)), max_size=4)
Cuts = st.lists(st.integers(1, 9), min_size=1, max_size=5)
Step = st.fixed_dictionaries(
    {
        "changes": Changes,
        "cuts": Cuts,  # rows in each batch, over and over
        "batches": st.integers(0, 12),  # how many land before the attempt ends
        "twice": st.booleans(),  # each of them is landed twice
        "late": st.booleans(),  # the others land after the next attempt, as another job's would
    }
)


def change(root: Path, changes: dict[str, bytes | None]) -> None:
    for name, content in changes.items():
        path = root / name
        if content is None:
            path.unlink(missing_ok=True)
        else:
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(content)


def batches(scan: Pass, cuts: list[int]) -> list[list[Any]]:
    rows = iter(scan.rows)
    parts: list[list[Any]] = []
    while part := list(islice(rows, cuts[len(parts) % len(cuts)])):
        parts.append(part)
    return parts


@settings(deadline=None)
@given(st.lists(Step, min_size=1, max_size=5))
def test_any_order_of_changes_cuts_and_restarts_converges_to_a_fresh_index(
    steps: list[dict[str, Any]],
) -> None:
    """C175, C176, K4."""
    with tempfile.TemporaryDirectory() as folder:
        root, store = Path(folder), VaultStore()
        late: list[tuple[Pass, list[Any]]] = []
        for step in steps:
            change(root, step["changes"])
            scan = Pass(store, root)
            parts = batches(scan, step["cuts"])
            landed, rest = parts[: step["batches"]], parts[step["batches"] :]
            for part in landed:
                for _ in range(1 + step["twice"]):
                    store.land(scan, part)
                    store.check()
            for other, part in late:
                store.land(other, part)
                store.check()
            late = [(scan, part) for part in rest] if step["late"] else []
        store.sync(root, batch=3)
        assert_fresh(store, root)


def assert_fresh(store: VaultStore, root: Path) -> None:
    store.check()
    fresh = VaultStore()
    fresh.sync(root)
    assert store.documents() == fresh.documents()
    assert store.chunks() == fresh.chunks()
    assert Pass(store, root).rows == []


ONE, TWO = CONTENTS[3], CONTENTS[4]


@pytest.mark.parametrize("first", [None, ONE, TWO, b"\0"])
@pytest.mark.parametrize("cut_off", [None, ONE, TWO, b"\0"])
@pytest.mark.parametrize("last", [None, ONE, TWO, b"\0"])
def test_an_attempt_that_was_cut_off_leaves_nothing_behind(
    first: bytes | None, cut_off: bytes | None, last: bytes | None, tmp_path: Path
) -> None:
    """C175, K4."""
    store = VaultStore()
    change(tmp_path, {"a.txt": ONE})
    store.sync(tmp_path)
    change(tmp_path, {"a.txt": first})
    store.sync(tmp_path)
    change(tmp_path, {"a.txt": cut_off})
    scan = Pass(store, tmp_path)
    store.land(scan, scan.rows[:2])
    change(tmp_path, {"a.txt": last})
    store.sync(tmp_path, batch=1)
    assert_fresh(store, tmp_path)


def test_a_late_row_completes_no_content_but_its_own(tmp_path: Path) -> None:
    """K4."""
    store = VaultStore()
    change(tmp_path, {"a.txt": b"one\n"})
    late = Pass(store, tmp_path)
    change(tmp_path, {"a.txt": b"three\n"})
    scan = Pass(store, tmp_path)
    store.land(scan, scan.rows[:-1])
    store.land(late, late.rows[-1:])
    assert store.documents()["a.txt"][0] is None


def test_a_late_row_makes_no_document_known_whose_first_chunks_are_missing(tmp_path: Path) -> None:
    """K4."""
    store = VaultStore()
    change(tmp_path, {"a.txt": ONE})
    late = Pass(store, tmp_path)
    store.land(late, late.rows[:2])
    for content in (TWO, ONE):
        change(tmp_path, {"a.txt": content})
        scan = Pass(store, tmp_path)
        store.land(scan, scan.rows[:1])
    store.land(late, late.rows[2:])
    assert store.documents()["a.txt"][0] is None
    store.sync(tmp_path)
    assert_fresh(store, tmp_path)


def test_late_chunks_of_a_content_that_nobody_holds_are_not_kept(tmp_path: Path) -> None:
    """C175, K4."""
    store = VaultStore()
    change(tmp_path, {"a.txt": ONE})
    late = Pass(store, tmp_path)
    store.land(late, late.rows[:2])
    change(tmp_path, {"a.txt": TWO})
    store.sync(tmp_path)
    store.land(late, late.rows[2:])
    assert_fresh(store, tmp_path)
