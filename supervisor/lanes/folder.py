"""Find and read the files of a folder: what is text, what is passed over, and why."""

import os
import re
from collections.abc import Sequence
from fnmatch import translate
from hashlib import blake2b
from stat import S_ISREG
from typing import Final, NamedTuple

SIZE_LIMIT: Final = 4 << 20
"""Bytes in a file that is read; anything larger is data, not notes."""

PASSED_BY: Final = frozenset({"node_modules", "__pycache__", "site-packages", "dist-packages"})
"""Folders that other programs fill. Hidden ones (.git, .venv, .supervisor) and hidden files go with them."""

MARKDOWN: Final = (".md", ".markdown", ".mdx", ".qmd", ".rmd")

# Only what is never text: everything else is opened and judged by its bytes.
BINARY: Final = re.compile(
    r"""\.(?: 7z | a | avi | bin | bmp | bz2 | class | db | dll | docx | dylib | eot | exe | flac | gif | gz
      | ico | jar | jpeg | jpg | mkv | mov | mp3 | mp4 | o | odt | ogg | otf | parquet | pdf | png | pptx
      | pyc | pyd | so | sqlite | tar | tgz | tiff | ttf | wasm | wav | webm | webp | whl | woff | woff2
      | xlsx | xz | zip | zst )\Z""",
    re.IGNORECASE | re.VERBOSE,
)


class Unreadable(Exception):
    """A file that is passed over; the message is the reason, one of few."""


class Found(NamedTuple):
    """Paths relative to the root: files, sorted, and folders that could not be listed, with reasons."""

    files: list[str]
    closed: dict[str, str]


class Document(NamedTuple):
    """A text file as read. `digest` names its content and the way that is cut; `size` is in bytes."""

    text: str
    digest: str
    size: int
    markdown: bool


def find(root: str, exclude: Sequence[str] = ()) -> Found:
    """Walk `root` without following links to folders.

    Args:
        root: an absolute path.
        exclude: names or glob patterns; each is tried on the name and on the relative path.

    Raises:
        OSError: `root` itself cannot be listed.
    """
    excluded = re.compile("|".join(translate(each.rstrip("/")) for each in exclude) or r"(?!)").match
    found = Found([], {})
    folders = [""]
    while folders:
        inside = folders.pop()
        try:
            with os.scandir(f"{root}/{inside}") as entries:
                kept = [entry for entry in entries if entry.name[0] != "." and not excluded(entry.name)]
        except OSError as error:
            if not inside:
                raise
            found.closed[inside[:-1]] = reason_of(error)
            continue
        for entry in kept:
            path = inside + entry.name
            if excluded(path):
                continue
            if entry.is_dir(follow_symlinks=False):
                if entry.name not in PASSED_BY:
                    folders.append(path + "/")
            elif is_file(entry):
                found.files.append(path)
    found.files.sort()
    return found


def is_file(entry: os.DirEntry[str]) -> bool:
    """Tell files, and links to files, from links to folders, pipes, sockets and devices."""
    if not entry.is_symlink():
        return entry.is_file()
    try:
        return S_ISREG(entry.stat().st_mode)
    except OSError:  # it leads nowhere, or to itself; reading it will say so
        return True


def load(path: str) -> Document:
    """Read the file at `path` once.

    Raises:
        Unreadable: it is binary, too large, has no name that can be written down, or cannot be opened.
    """
    if printable(path) != path:
        raise Unreadable("name is not UTF-8")
    data = read_bytes(path)
    if b"\0" in data:
        raise Unreadable("binary")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise Unreadable("not UTF-8") from None
    markdown = path.lower().endswith(MARKDOWN)
    # The same bytes are cut in two ways, so they are two contents.
    digest = blake2b(data, digest_size=16, person=b"markdown" if markdown else b"").hexdigest()
    return Document(text, digest, len(data), markdown)


def read_bytes(path: str) -> bytes:
    """Return the whole content of a file that may be text."""
    if BINARY.search(path):
        raise Unreadable("binary")
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - every child would pay for importing pathlib
            data = file.read(SIZE_LIMIT + 1)
    except OSError as error:
        raise Unreadable(reason_of(error)) from None
    if len(data) > SIZE_LIMIT:
        raise Unreadable("larger than 4 MiB")
    return data


def reason_of(error: OSError) -> str:
    """Say in the system's words why a file or folder cannot be read."""
    return f"unreadable: {error.strerror or type(error).__name__}"


def printable(path: str) -> str:
    """Return `path` with bytes that are not UTF-8 escaped, fit for a row and a screen."""
    return path.encode("utf-8", "backslashreplace").decode()
