"""The store's files under a run: this process opens them by SQLite only, and nobody takes them away.

The system forgets all locks of a process on a file as soon as any descriptor of it is closed there. Another
process then takes itself for the last one at the store, folds the WAL back, and unlinks it under the run.
"""

import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from supervisor.descriptors import Identity, identity


class Guarded(NamedTuple):
    """A file that only SQLite may open, and the process that runs over it: its forks hold no locks."""

    file: Path
    pid: int


_guarded: Final[dict[Identity, Guarded]] = {}
_watching: Final[list[bool]] = []


def guard(files: Iterable[Path]) -> list[Identity]:
    """Have Python code in this process open none of `files` from now on; return what `release` takes.

    Who tries gets a PermissionError of one line. Not seen: a name that is relative to a folder's
    descriptor (`dir_fd`), and what opens files without Python.
    """
    found = {one: Guarded(file, os.getpid()) for file in files if (one := identity(file)) is not None}
    _guarded.update(found)
    if not _watching:  # a hook cannot be taken away again
        _watching.append(True)
        sys.addaudithook(_watch)
    return list(found)


def release(guarded: Iterable[Identity]) -> None:
    """Let anybody open them again."""
    for one in guarded:
        _guarded.pop(one, None)


def _watch(event: str, args: tuple[Any, ...]) -> None:
    """Look at what is about to be opened; called at every audited event of the process."""
    if event == "open" and _guarded:
        refuse(args[0])


def refuse(opened: Any) -> None:
    """Refuse to open a guarded file, by whatever name: a link, or a descriptor's number.

    Raises:
        PermissionError: it is one.
    """
    try:
        found = os.stat(opened)  # noqa: PTH116 - a path of any kind, or a number
    except (OSError, TypeError, ValueError):  # who opens it says what is wrong
        return
    one = found.st_dev, found.st_ino
    guarded = _guarded.get(one)
    if guarded is None or guarded.pid != os.getpid() or identity(guarded.file) != one:
        return
    raise PermissionError(
        f"{guarded.file} must not be opened in the supervisor's process: closing it would drop the store's"
        " locks; use db.query in a lander, ctx.read elsewhere,"
        " and for a copy `sqlite3 store.db \".backup 'copy.db'\"` in another process"
    )


def torn(store: Path, held: Mapping[int, Path]) -> str:
    """Say which of the files that SQLite holds open beside `store` is not at its place any more, "" for none.

    SQLite unlinks them only when nobody has the store open. A store that is not there either, and a
    descriptor that was closed, are for others to tell.
    """
    for fd, file in held.items():
        ours, there = identity(fd), identity(file)
        if ours is None or there == ours or identity(store) is None:
            continue
        return f"{file} was removed or replaced while this run used it"
    return ""
