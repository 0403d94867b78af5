"""What a walk meets and how a file is read."""

import os
import socket
from pathlib import Path

import pytest

from supervisor.lanes.folder import SIZE_LIMIT, Unreadable, find, load
from tests.lanes.vault_store import no_privileges


def write(root: Path, *paths: str, data: bytes = b"text\n") -> None:
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(data)


def reason(path: Path) -> str:
    with pytest.raises(Unreadable) as caught:
        load(str(path))
    return str(caught.value)


def test_files_come_sorted_and_relative(tmp_path: Path) -> None:
    write(tmp_path, "b.md", "a/z.py", "a.txt", "a/b/c")
    assert find(str(tmp_path)).files == ["a.txt", "a/b/c", "a/z.py", "b.md"]


def test_hidden_things_and_what_other_programs_fill_are_passed_by(tmp_path: Path) -> None:
    write(
        tmp_path, ".git/config", ".env", ".supervisor/x", "node_modules/a.js", "sub/__pycache__/a", "sub/.b/c"
    )
    write(tmp_path, "lib/site-packages/a.py", "sub/kept.py")
    assert find(str(tmp_path)).files == ["sub/kept.py"]


def test_a_name_or_a_pattern_or_a_path_excludes(tmp_path: Path) -> None:
    write(tmp_path, "drafts/a.md", "b/drafts/c.md", "x.log", "docs/old/d.md", "docs/new.md", "x.logs")
    assert find(str(tmp_path), ["drafts/", "*.log", "docs/old"]).files == ["docs/new.md", "x.logs"]


def test_links_to_folders_are_not_followed_so_that_loops_end(tmp_path: Path) -> None:
    write(tmp_path, "a/b.md")
    (tmp_path / "a" / "up").symlink_to(tmp_path)
    (tmp_path / "self").symlink_to("self")
    (tmp_path / "nowhere").symlink_to("missing")
    (tmp_path / "link.md").symlink_to("a/b.md")
    assert find(str(tmp_path)).files == ["a/b.md", "link.md", "nowhere", "self"]
    assert reason(tmp_path / "nowhere") == "unreadable: No such file or directory"
    assert reason(tmp_path / "self").startswith("unreadable: Too many levels of symbolic links")


def test_what_is_no_file_is_never_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.md")
    (tmp_path / "device").symlink_to("/dev/zero")
    with socket.socket(socket.AF_UNIX) as bell:
        bell.bind(str(tmp_path / "bell.sock"))
        assert find(str(tmp_path)).files == []


def test_a_root_that_cannot_be_listed_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        find(str(tmp_path / "missing"))


def test_what_may_not_be_read_is_named_and_the_rest_is_found(open_folder: Path) -> None:
    """C177."""
    write(open_folder, "shut/a.md", "open.md", "shut.md")
    (open_folder / "shut").chmod(0)
    (open_folder / "shut.md").chmod(0)
    with no_privileges():
        assert find(str(open_folder)) == (["open.md", "shut.md"], {"shut": "unreadable: Permission denied"})
        assert reason(open_folder / "shut.md") == "unreadable: Permission denied"


@pytest.mark.parametrize(
    ("name", "data", "why"),
    [
        ("photo.PNG", b"text", "binary"),
        ("nul.txt", b"a\0b", "binary"),
        ("latin.txt", "é".encode("latin-1"), "not UTF-8"),
        ("big.txt", b"x" * (SIZE_LIMIT + 1), "larger than 4 MiB"),
    ],
)
def test_what_is_no_text_says_why(tmp_path: Path, name: str, data: bytes, why: str) -> None:
    write(tmp_path, name, data=data)
    assert reason(tmp_path / name) == why


def test_a_text_of_just_the_limit_is_read(tmp_path: Path) -> None:
    write(tmp_path, "big.txt", data=b"x" * SIZE_LIMIT)
    assert load(str(tmp_path / "big.txt")).size == SIZE_LIMIT


def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path: Path) -> None:
    write(tmp_path, "bom.txt", data=b"\xef\xbb\xbfhello")
    assert load(str(tmp_path / "bom.txt")).text == "hello"


def test_the_digest_names_the_content_and_how_it_is_cut(tmp_path: Path) -> None:
    write(tmp_path, "a.py", "b.txt", "c.md", "D.MD")
    digest = {path.name: load(str(path)).digest for path in tmp_path.iterdir()}
    assert digest["a.py"] == digest["b.txt"] != digest["c.md"] == digest["D.MD"]
    assert len(digest["a.py"]) == 32
