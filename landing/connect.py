"""Opening the one file: permissions, pragmas that are set and read back, errors translated.

`synchronous` belongs to a connection and is not stored, so every writer sets it.
The file is made by `os.open` before SQLite sees it, 0600, and is never opened by
anything but SQLite again: closing a second descriptor would drop SQLite's locks.
"""

import errno
import os
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from resource import RLIM_INFINITY, RLIMIT_FSIZE, getrlimit
from typing import Final

from landing.errors import NoStore, StoreBroken, StoreBusy, StoreError, StoreFull, StoreReadonly
from landing.guard import Guard, Writer

STORE: Final = "store.db"
TURNSTILE: Final = "turnstile"
"""The lock file of writers that wait; from the first write on it lies beside the store."""

WAIT_SECONDS: Final = 30.0
SQLITE_VERSION: Final = sqlite3.sqlite_version_info
PRAGMAS: Final = (
    ("journal_mode", "WAL", "wal"),
    ("synchronous", "FULL", 2),
    ("fullfsync", "1", 1),
    ("checkpoint_fullfsync", "1", 1),
    ("foreign_keys", "ON", 1),
    ("wal_autocheckpoint", "0", 0),
)
"""What every writer sets (CONTRACTS K8, SPEC A3), with the answer that shows that it took."""

FULL: Final = "{}: the disk is full, or the file may not grow"
READONLY: Final = "{}: the store is read-only, or the disk that holds it"
NOT_WRITTEN: Final = frozenset(
    {
        sqlite3.SQLITE_IOERR_WRITE,
        sqlite3.SQLITE_IOERR_SHMSIZE,
        sqlite3.SQLITE_IOERR_SHMMAP,
        sqlite3.SQLITE_IOERR_SHMOPEN,
        sqlite3.SQLITE_CANTOPEN,
    }
)
"""What else SQLite may call it when the disk has no room, or takes no writes any more."""


def store_path(home: Path) -> Path:
    """Return where the store of a home folder is."""
    return home / STORE


def make_home(home: Path) -> None:
    """Make the home folder (0700) and an empty store file (0600) where they are missing.

    Raises:
        StoreError: when the home is a file, or cannot be made or written.
        StoreBroken: the store is empty, but has been written to before.
    """
    path = store_path(home)
    try:
        refuse_second_name(path)
        if not home.is_dir():
            home.mkdir(mode=0o700, parents=True, exist_ok=True)
            home.chmod(0o700)
        if path.exists():
            refuse_emptied(path)
        else:
            with suppress(FileExistsError):
                os.close(open_private(path, os.O_EXCL))
    except FileExistsError:
        raise StoreError(str(home), f"the home {home} is a file; --home names a folder") from None
    except NotADirectoryError:
        raise StoreError(str(home), f"the home {home} lies below a file; --home names a folder") from None
    except OSError as error:
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            raise StoreFull(str(home), FULL.format(home)) from None
        raise StoreError(str(home), f"the home {home} cannot be written: {error.strerror}") from None
    if not os.access(home, os.W_OK | os.X_OK) or not os.access(path, os.W_OK):
        raise StoreError(str(home), f"the home {home} is read-only")


def refuse_second_name(path: Path) -> None:
    """Make sure that a store has one name: by two, two supervisors could each lock a folder of their own.

    Raises:
        StoreError: it is a symbolic link, or has a hard link somewhere.
    """
    try:
        found = path.lstat()
    except OSError:  # who opens it says what is wrong
        return
    if stat.S_ISLNK(found.st_mode):
        text = f"{path} is a link to a store; name that store's own folder with --home"
    elif stat.S_ISREG(found.st_mode) and found.st_nlink > 1:
        text = f"{path} has a second name (a hard link); remove one, and name the other's folder with --home"
    else:
        return
    raise StoreError(str(path), text)


def refuse_emptied(path: Path) -> None:
    """Tell a store whose content is lost from one that nobody has written to yet.

    Raises:
        StoreBroken: it is empty, but has been written to before.
    """
    if path.stat().st_size == 0 and path.with_name(TURNSTILE).exists():
        text = f"{path} is empty, but jobs have been here; restore it, or remove it to begin anew"
        raise StoreBroken(str(path), text)


def open_private(path: Path, flags: int = 0) -> int:
    """Open a file for reading and writing, making it 0600 whatever the umask; return the descriptor."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | flags, 0o600)
    if os.fstat(fd).st_mode & 0o777 != 0o600:
        os.fchmod(fd, 0o600)
    return fd


def keep_private(path: Path) -> None:
    """Take the store and its -wal and -shm away from everybody but their owner (SPEC A3)."""
    for one in (path, path.with_name(path.name + "-wal"), path.with_name(path.name + "-shm")):
        with suppress(FileNotFoundError):
            if one.stat().st_mode & 0o777 != 0o600:
                one.chmod(0o600)


def open_writer(path: Path, *, wait: float = WAIT_SECONDS, fresh: bool = False) -> Writer:
    """Open a connection that may write: WAL, FULL, foreign keys, a guard, no checkpoints of its own.

    Only who makes the store opens it `fresh`: setting pragmas writes into an empty file.

    Raises:
        NoStore: the file is not there.
        StoreBroken: it is empty, but has been written to before.
        StoreError: it is no database, has a second name, or a pragma did not take.
    """
    with reachable(path), translated(path):
        refuse_second_name(path)
        if not path.exists():
            raise NoStore(str(path), f"no store at {path}")
        if not fresh:
            refuse_emptied(path)
        keep_private(path)
        db = sqlite3.connect(
            path, timeout=wait, isolation_level=None, check_same_thread=False, factory=Writer
        )
        db.guard = Guard()
        db.set_authorizer(db.guard)
        try:
            if path.stat().st_size == 0:  # later it would take the write lock, and change nothing
                db.execute("PRAGMA auto_vacuum = INCREMENTAL")
            for pragma, value, wanted in PRAGMAS:
                db.execute(f"PRAGMA {pragma} = {value}")
                if (got := db.execute(f"PRAGMA {pragma}").fetchone()[0]) != wanted:
                    raise StoreError(str(path), f"{path}: PRAGMA {pragma} is {got}, {value} is needed")
            keep_private(path)
        except BaseException:
            db.close()
            raise
    return db


def open_reader(path: Path, *, wait: float = 5.0) -> sqlite3.Connection:
    """Open a connection whose file handle cannot write, whatever it is told.

    Raises:
        NoStore: the file is not there.
        StoreError: it cannot be opened.
    """
    with reachable(path), translated(path):
        if not path.exists():
            raise NoStore(str(path), f"no store at {path}")
        uri = f"{path.absolute().as_uri()}?mode=ro"
        return sqlite3.connect(uri, uri=True, timeout=wait, isolation_level=None, check_same_thread=False)


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """Turn what sqlite3 raises, also about a value that it cannot hold, into this room's errors (SPEC A4)."""
    try:
        yield
    except sqlite3.Error as error:
        raise translate(error, path) from error
    except (OverflowError, UnicodeEncodeError) as error:
        raise StoreError(str(path), f"{path}: a value cannot be stored: {error}") from error


@contextmanager
def reachable(path: Path) -> Iterator[None]:
    """Turn what the system raises about the store's files into this room's errors (SPEC A4)."""
    try:
        yield
    except OSError as error:
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            raise StoreFull(str(path), FULL.format(path)) from error
        if error.errno == errno.EROFS:
            raise StoreReadonly(str(path), READONLY.format(path)) from error
        raise StoreError(str(path), f"{path}: {error.strerror or error}") from error


def translate(error: sqlite3.Error, path: Path) -> StoreError:
    """Name a sqlite3 error by its code: busy, full, read-only, broken, or any other."""
    code = getattr(error, "sqlite_errorcode", 0)
    if code & 0xFF == sqlite3.SQLITE_BUSY:
        return StoreBusy(str(path), f"{path}: another process has kept the store locked for too long")
    if is_full(code, path):
        return StoreFull(str(path), FULL.format(path))
    if is_readonly(code, path):
        return StoreReadonly(str(path), READONLY.format(path))
    if code & 0xFF in {sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}:
        return StoreBroken(str(path), f"{path}: {error}")
    return StoreError(str(path), f"{path}: {error}")


def is_full(code: int, path: Path) -> bool:
    """Tell whether there is no room.

    SQLite calls a file at the process's size limit a write error, and a -wal or -shm for
    which the disk has no room one that cannot be opened, mapped or made longer.
    """
    if code & 0xFF == sqlite3.SQLITE_FULL:
        return True
    limited = getrlimit(RLIMIT_FSIZE)[0] != RLIM_INFINITY
    return (code == sqlite3.SQLITE_IOERR_WRITE and limited) or (code in NOT_WRITTEN and no_room(path))


def is_readonly(code: int, path: Path) -> bool:
    """Tell whether the store may not be written any more.

    A disk or a file that was made read-only while it was open (after an error, or as immutable) fails
    its writes, which SQLite calls a write error like any other. A commit whose write has failed
    has not happened.
    """
    return code & 0xFF == sqlite3.SQLITE_READONLY or (code in NOT_WRITTEN and takes_no_writes(path))


def no_room(path: Path) -> bool:
    """Tell whether the disk that holds a file has not one free block."""
    try:
        return os.statvfs(path.parent).f_bavail == 0
    except OSError:
        return False


def takes_no_writes(path: Path) -> bool:
    """Tell whether the disk that holds a store, the store, or its WAL may not be written."""
    try:
        if os.statvfs(path.parent).f_flag & os.ST_RDONLY:
            return True
    except OSError:
        return False
    files = (path, path.with_name(path.name + "-wal"))
    return any(one.exists() and not os.access(one, os.W_OK) for one in files)


def is_trouble(error: sqlite3.Error) -> bool:
    """Tell the store's own trouble (busy, full, read-only, broken) from a statement that is wrong."""
    return isinstance(translate(error, Path()), StoreBusy | StoreFull | StoreReadonly | StoreBroken)
