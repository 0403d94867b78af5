"""Which files of the applications this process has loaded, and what was in them.

    supervisor   note, Own ----.
                               +--> differing: a child that has loaded other code is not used
    child        note, pack --Ready'

Only files that both have loaded are compared: either may import what the other does not (CONTRACTS K13).
"""
# Importing pathlib or hashlib would cost every child some ms.

import os
import stat
import sys
from _blake2 import blake2b
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any, Final, NamedTuple

from ipc.appspec import OURS, split_spec
from ipc.messages import SOURCE_BYTES, SOURCES_LIMIT

SHORT: Final = SOURCE_BYTES // 2
LARGE: Final = 256 << 10
"""Bytes of a file above which its size and time stand for what is in it: a library, no source."""
PACKAGES: Final = ("/site-packages/", "/dist-packages/")
NOT_THEIRS: Final = OURS | sys.stdlib_module_names | {"__main__"}
NAMESPACE: Final = vars(ModuleType)["__dict__"]
"""A module that is loaded at the first look into it is not loaded by ours."""


class Source(NamedTuple):
    """A file as it was when it was loaded: a digest, b"" where nobody knows; its time in ns, its bytes."""

    digest: bytes
    modified: int
    size: int


Span = tuple[int, int]
"""When something began and ended, ns on the wall clock."""
NEVER: Final = (0, 0)

NOTED: Final[dict[str, Source]] = {}
"""What has been loaded, as it was when that was noted first: a process loads a file once."""


def folders_of(specs: Iterable[str], folder: str) -> list[str]:
    """Return the folders that hold the applications: where children work, and where each FILE.py is."""
    files = [source for source, _ in map(split_spec, specs) if source.endswith(".py")]
    return [folder, *(os.path.dirname(os.path.abspath(one)) for one in files)]


def note(folders: Iterable[str], during: Span = NEVER) -> dict[str, Source]:
    """Return the files in `folders` that modules have been loaded from, each by its real path.

    Args:
        folders: those of the applications, all that is below them included.
        during: when they were loaded. What changed meanwhile may have changed after it was read, so
            nobody knows what was loaded.
    """
    found: dict[str, Source] = {}
    for path in theirs(folders):
        if path not in NOTED and (source := read(path, during)) is not None:
            NOTED[path] = source
        if path in NOTED:
            found[path] = NOTED[path]
        if len(found) == SOURCES_LIMIT:
            break
    return found


def theirs(folders: Iterable[str]) -> Iterator[str]:
    """Yield the real path of each module of the user's that is loaded from `folders`."""
    roots = {one.rstrip("/") for folder in folders for one in (folder, os.path.realpath(folder))}
    inside = tuple(f"{root}/" for root in roots)
    outside = tuple(f"{one}/" for one in {sys.prefix, sys.base_prefix} if one.startswith(inside))
    places: dict[str, str] = {}
    for name, module in list(sys.modules.items()):
        file = file_of(module)
        if not file.startswith(inside) or file.startswith(outside) or name.partition(".")[0] in NOT_THEIRS:
            continue
        if not any(part in file for part in PACKAGES):
            place, _, base = file.rpartition("/")
            if place not in places:
                places[place] = os.path.realpath(place)
            yield f"{places[place]}/{base}"


def file_of(module: Any) -> str:
    """Return the file that a module was loaded from, "" for none; nothing of its own is run."""
    if not issubclass(type(module), ModuleType):
        return ""
    file = NAMESPACE.__get__(module).get("__file__")
    return file if type(file) is str else ""


def read(path: str, during: Span = NEVER) -> Source | None:
    """Return what is in a file; None where there is none, or nothing that can be read."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return None
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            return None
        is_known = not during[0] < found.st_ctime_ns <= during[1]
        return Source(digest(fd, found) if is_known else b"", found.st_mtime_ns, found.st_size)
    except OSError:
        return None
    finally:
        os.close(fd)


def digest(fd: int, found: os.stat_result) -> bytes:
    """Return a short digest of an open file."""
    if found.st_size > LARGE:
        return short(b"%d %d" % (found.st_mtime_ns, found.st_size))
    return short(os.read(fd, found.st_size))


def short(data: bytes) -> bytes:
    """Return a digest that is as good as any against chance."""
    return blake2b(data, digest_size=SHORT).digest()


def pack(found: Mapping[str, Source]) -> bytes:
    """Return sources as `Ready` tells them: 8 bytes that stand for the path, 8 for what was in the file."""
    return b"".join(short(os.fsencode(path)) + source.digest for path, source in found.items())


class Own:
    """What this process has loaded, to be compared. Args: `found` as `note` returns it."""

    def __init__(self, found: Mapping[str, Source]) -> None:
        self._found = dict(found)
        self._paths = {short(os.fsencode(path)): path for path in found}
        self._same = b""

    def differing(self, told: bytes) -> Sequence[str]:
        """Return the files of which another process, that packed `told`, has loaded something else."""
        if told == self._same:
            return ()
        pairs = ((told[at : at + SHORT], told[at + SHORT : at + SOURCE_BYTES]) for at in entries(told))
        both = ((self._paths[key], digest) for key, digest in pairs if key in self._paths)
        if not (files := [path for path, digest in both if digest != self._found[path].digest]):
            self._same = told
        return files

    def changed(self) -> Sequence[str]:
        """Return the files in which there is something else now; one that is gone is about to come back."""
        return [path for path, source in self._found.items() if self._is_other(path, source)]

    def _is_other(self, path: str, source: Source) -> bool:
        try:
            now = os.stat(path)
        except OSError:
            return False
        if (now.st_mtime_ns, now.st_size) == source[1:] or (found := read(path)) is None:
            return False
        if found.digest == source.digest:  # touched: not to be read again at every look
            self._found[path] = found
        return found.digest != source.digest


def entries(told: bytes) -> range:
    """Return where each entry of packed sources begins; a torn one is none."""
    return range(0, len(told) - SOURCE_BYTES + 1, SOURCE_BYTES)
