"""The vault lane: its compute half over real folders, its lander on a real store."""

import os
from pathlib import Path
from typing import Any

import pytest

from supervisor import Fail
from supervisor.lanes import app
from supervisor.lanes.vault import PAGE
from tests.lanes.vault_store import Pass, VaultStore, no_privileges

PAGES = "".join(f"line {n} of a text that is long enough to be cut\n" for n in range(200))
NOTHING = {"indexed": 0, "unchanged": 0, "tombstoned": 0, "chunks": 0, "bytes": 0, "skipped": {}}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "notes").mkdir()
    return tmp_path / "notes"


def rescan(store: VaultStore, root: Path) -> Pass:
    scan = store.sync(root)
    store.check()
    return scan


def test_the_lane_is_background_work_that_starts_over() -> None:
    """C171."""
    options = app.lanes["vault_sync"].options
    assert (options.priority, options.resume, options.retry_safe) == (100, "restart", True)


def test_a_folder_is_read_cut_landed_and_counted(root: Path) -> None:
    store = VaultStore()
    (root / "sub").mkdir()
    (root / "sub" / "pages.txt").write_text(PAGES)
    (root / "empty.md").write_text("")
    (root / "photo.png").write_bytes(b"\x89PNG")
    scan = store.sync(root)
    assert store.text_of("sub/pages.txt") == PAGES
    assert store.documents()["sub/pages.txt"][2:] == (len(PAGES), 200, 7, None)
    assert store.documents()["empty.md"][2:] == (0, 0, 0, None)
    assert store.documents()["photo.png"] == (None, None, None, None, None, "binary")
    assert scan.result == NOTHING | {
        "files": 3, "indexed": 2, "chunks": 7, "bytes": len(PAGES), "skipped": {"binary": 1},
    }  # fmt: skip
    assert scan.ctx.log_lines == ["passed over photo.png: binary"]
    assert scan.ctx.steps == [(1, 3), (2, 3), (3, 3)]
    assert scan.ctx.marks == ["empty.md", "photo.png", "sub/pages.txt"]


def test_a_second_rescan_finds_nothing_to_do(root: Path) -> None:
    """C175."""
    store = VaultStore()
    (root / "a.md").write_text("# One\n")
    (root / "b.bin").write_bytes(b"\0")
    store.sync(root)
    (root / "a.md").touch()
    scan = rescan(store, root)
    assert scan.rows == []
    assert scan.ctx.log_lines == []
    assert scan.result == NOTHING | {"files": 2, "unchanged": 1, "skipped": {"binary": 1}}


def test_a_changed_file_is_indexed_anew_and_its_old_rows_are_dropped(root: Path) -> None:
    """C175."""
    store = VaultStore()
    (root / "a.txt").write_text(PAGES)
    store.sync(root)
    (root / "a.txt").write_text("short\n")
    assert rescan(store, root).result["indexed"] == 1
    assert {chunk[4] for chunk in store.chunks()} == {"short\n"}


def test_a_vanished_file_leaves_a_tombstone_and_no_chunks(root: Path) -> None:
    """C175."""
    store = VaultStore()
    (root / "a.txt").write_text("here\n")
    store.sync(root)
    (root / "a.txt").unlink()
    assert rescan(store, root).result["tombstoned"] == 1
    assert (store.documents(), store.tombstones(), store.chunks()) == ({}, {"a.txt"}, set())
    assert rescan(store, root).result["tombstoned"] == 0


def test_a_file_that_is_excluded_now_is_treated_as_gone(root: Path) -> None:
    store = VaultStore()
    (root / "a.txt").write_text("here\n")
    store.sync(root)
    assert store.sync(root, exclude=["*.txt"]).result["tombstoned"] == 1


def test_shared_content_survives_the_deletion_of_one_file(root: Path) -> None:
    """C176."""
    store = VaultStore()
    for name in ("a.txt", "b.txt"):
        (root / name).write_text(PAGES)
    store.sync(root)
    before = store.chunks()
    assert len(before) == 7
    (root / "a.txt").unlink()
    rescan(store, root)
    assert store.chunks() == before
    assert store.text_of("b.txt") == PAGES


def test_adding_the_same_content_back_makes_its_tombstone_live_again(root: Path) -> None:
    """C176."""
    store = VaultStore()
    (root / "a.txt").write_text(PAGES)
    store.sync(root)
    before = (store.documents(), store.chunks())
    (root / "a.txt").unlink()
    store.sync(root)
    (root / "a.txt").write_text(PAGES)
    assert rescan(store, root).result["indexed"] == 1
    assert (store.documents(), store.chunks(), store.tombstones()) == (*before, set())


def test_content_that_moves_from_one_file_to_another_is_there_afterwards(root: Path) -> None:
    """C176."""
    store = VaultStore()
    (root / "a.txt").write_text(PAGES)
    store.sync(root)
    (root / "a.txt").rename(root / "z.txt")
    store.sync(root, batch=1)
    store.check()
    assert store.text_of("z.txt") == PAGES


def test_the_same_content_under_two_roots_is_kept_once_and_outlives_one(tmp_path: Path) -> None:
    """C176."""
    store = VaultStore()
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.txt").write_text(PAGES)
        store.sync(tmp_path / name)
    assert len(store.chunks()) == 7
    (tmp_path / "one" / "a.txt").unlink()
    rescan(store, tmp_path / "one")
    assert len(store.chunks()) == 7


def test_files_that_cannot_be_read_are_reported_and_stop_no_other(root: Path) -> None:
    """C177."""
    store = VaultStore()
    (root / "latin.txt").write_bytes(b"caf\xe9")
    (root / "nowhere.md").symlink_to("missing")
    (root / "z.md").write_text("fine\n")
    scan = store.sync(root)
    assert store.text_of("z.md") == "fine\n"
    assert scan.result["skipped"] == {"not UTF-8": 1, "unreadable: No such file or directory": 1}


def test_a_name_that_is_not_utf8_is_reported_escaped(root: Path) -> None:
    """C177."""
    store = VaultStore()
    try:
        (root / os.fsdecode(b"caf\xe9.md")).write_text("text\n")
    except OSError:
        pytest.skip("this file system keeps UTF-8 names only")
    scan = store.sync(root)
    assert scan.ctx.marks == [r"caf\udce9.md"]
    assert store.documents()[r"caf\udce9.md"][-1] == "name is not UTF-8"
    assert rescan(store, root).rows == []


def test_a_text_that_turns_binary_loses_its_chunks_and_comes_back(root: Path) -> None:
    store = VaultStore()
    for data, chunks in ((b"text\n", 1), (b"\0", 0), (b"text\n", 1)):
        (root / "a").write_bytes(data)
        rescan(store, root)
        assert len(store.chunks()) == chunks


def test_files_in_a_folder_that_is_shut_for_now_are_not_taken_for_gone(open_folder: Path) -> None:
    """C177."""
    store, sub = VaultStore(), open_folder / "sub"
    sub.mkdir()
    (sub / "a.txt").write_text("here\n")
    store.sync(open_folder)
    sub.chmod(0)
    with no_privileges():
        scan = store.sync(open_folder)
    assert (scan.result["tombstoned"], scan.result["skipped"]) == (0, {"unreadable: Permission denied": 1})
    assert store.text_of("sub/a.txt") == "here\n"
    sub.chmod(0o755)
    assert (store.sync(open_folder).result["tombstoned"], set(store.documents())) == (1, {"sub/a.txt"})


def test_what_is_known_is_asked_in_pages(root: Path) -> None:
    store = VaultStore()
    for n in range(PAGE + 1):
        (root / f"{n}.txt").write_text(f"{n}\n")
    store.sync(root)
    assert rescan(store, root).result["unchanged"] == PAGE + 1


def test_a_batch_that_lands_twice_changes_nothing(root: Path) -> None:
    """K1, K4."""
    store = VaultStore()
    (root / "a.txt").write_text(PAGES)
    scan = Pass(store, root)
    store.land(scan, scan.rows)
    once = (store.documents(), store.chunks())
    store.land(scan, scan.rows)
    store.check()
    assert (store.documents(), store.chunks()) == once


def test_a_document_that_was_cut_off_is_not_known_and_indexed_by_the_next_attempt(root: Path) -> None:
    """K4."""
    store = VaultStore()
    (root / "a.txt").write_text(PAGES)
    scan = Pass(store, root)
    store.land(scan, scan.rows[:4])
    store.check()
    assert store.documents()["a.txt"][0] is None
    assert rescan(store, root).result["indexed"] == 1
    assert store.text_of("a.txt") == PAGES


@pytest.mark.parametrize(
    ("payload", "complaint"),
    [
        ("notes", "a vault_sync payload is"),
        ({"root": "/", "exlude": []}, "a vault_sync payload is"),
        ({}, "root must be the absolute path of a folder, not None"),
        ({"root": "notes"}, "root must be the absolute path of a folder, not 'notes'"),
        ({"root": "/a\0b"}, "root must be the absolute path of a folder"),
        ({"root": "/", "exclude": "drafts"}, "exclude must be a list of names or patterns, not 'drafts'"),
        ({"root": "/missing/folder"}, "cannot index /missing/folder: No such file or directory"),
        ({"root": __file__}, f"cannot index {__file__}: Not a directory"),
    ],
)
def test_a_payload_that_names_no_folder_fails_in_one_line(payload: Any, complaint: str, root: Path) -> None:
    scan = Pass(VaultStore(), root)
    scan.job.payload = payload
    with pytest.raises(Fail) as caught:
        list(app.lanes["vault_sync"].compute(scan.job, scan.ctx) or ())
    assert str(caught.value).startswith(complaint)
    assert "\n" not in str(caught.value)
