"""The folder and its files: made private, and refused with one line where they cannot be made."""

import os
import sqlite3
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from landing.connect import open_writer, store_path
from landing.enqueue import Register
from landing.errors import NoStore, StoreBroken, StoreError
from landing.lander import Clocks, Lander
from landing.migrate import create, upgrade
from landing.snapshot import same_store, snapshot, store_identity, store_size
from landing.store import Store
from tests.landing.stand import START, Stand

ROOT = Path(__file__).resolve().parent.parent.parent
NOBODY = 65534


def modes(folder: Path) -> dict[str, str]:
    return {file.name: oct(stat.S_IMODE(file.stat().st_mode)) for file in folder.iterdir()}


@pytest.fixture(params=[0o000, 0o022, 0o077, 0o277], ids=oct)
def umask(request: pytest.FixtureRequest, home: Path) -> Iterator[None]:
    """A mask for what is made in `home`, whose parent was made before it."""
    before = os.umask(request.param)
    yield
    os.umask(before)


@pytest.mark.usefixtures("umask")
def test_folder_and_files_are_private_whatever_the_umask(home: Path) -> None:
    """A3."""
    stand = Stand(home).furnish()
    with closing(open_writer(store_path(home))) as held:
        held.execute("SELECT 1 FROM laneway_jobs")
        stand.enqueue()
        assert oct(stat.S_IMODE(home.stat().st_mode)) == "0o700"
        names = ["init.lock", "store.db", "store.db-shm", "store.db-wal", "turnstile"]
        assert modes(home) == dict.fromkeys(names, "0o600")


def test_files_that_others_can_read_are_taken_away_from_them(stand: Stand) -> None:
    """A3."""
    with closing(open_writer(store_path(stand.home))) as held:
        held.execute("SELECT 1 FROM laneway_jobs")
        for file in stand.home.iterdir():
            file.chmod(0o644)
        stand.enqueue()
        stand.store = Store(stand.home, lambda: START, create_missing=True)
        assert set(modes(stand.home).values()) == {"0o600"}


def test_a_folder_that_was_there_keeps_its_mode(home: Path) -> None:
    """K15: `--home DIR` may be a folder of the user's own."""
    home.mkdir()
    home.chmod(0o755)
    create(home, START)
    assert oct(stat.S_IMODE(home.stat().st_mode)) == "0o755"


def test_missing_parents_are_made(tmp_path: Path) -> None:
    """A3."""
    create(tmp_path / "a" / "b" / "home", START)
    assert store_path(tmp_path / "a" / "b" / "home").is_file()


def test_a_store_that_has_lost_its_content_is_not_taken_for_a_new_one(stand: Stand) -> None:
    """K9: its jobs would be gone, and nobody would have said so."""
    stand.enqueue()
    path = store_path(stand.home)
    path.write_bytes(b"")
    clocks = Clocks(lambda: START, lambda: 0.0)
    assert "is empty, but jobs have been here; restore it, or remove it to begin anew" in refusal(stand.home)
    for act in (
        stand.enqueue,
        lambda: Lander(stand.home, clocks, print, print),
        lambda: upgrade(stand.home, 1),
    ):
        with pytest.raises(StoreBroken, match="is empty, but jobs have been here"):
            act()
        assert path.read_bytes() == b"", "pragmas write, too"
    path.unlink()
    create(stand.home, START)
    assert path.stat().st_size > 0


def refusal(home: Path) -> str:
    with pytest.raises(StoreError) as refused:
        create(home, START)
    assert refused.value.code == "database_error"
    assert str(home) in refused.value.subject
    assert "\n" not in str(refused.value)
    return str(refused.value)


def link_to(kind: str, stand: Stand, tmp_path: Path) -> Path:
    """Return another home, whose store is a second name of the stand's."""
    other = tmp_path / "other"
    other.mkdir()
    path = store_path(other)
    if kind == "hard":
        path.hardlink_to(store_path(stand.home))
    else:
        path.symlink_to("../nowhere" if kind == "dangling" else store_path(stand.home))
    return other


@pytest.mark.parametrize("kind", ["symbolic", "hard", "dangling"])
def test_a_store_by_a_second_name_is_refused_to_whoever_would_write(
    kind: str, stand: Stand, tmp_path: Path
) -> None:
    """C190, K9: the lock lies beside the name, so two supervisors could have the one store."""
    other = link_to(kind, stand, tmp_path)
    said = refusal(other)
    assert said.endswith("with --home")
    assert "is a link to a store" in said or ("has a second name (a hard link)" in said and kind == "hard")
    for act in (
        lambda: Store(other, lambda: START, create_missing=True),
        lambda: Store(other, lambda: START).write(Register("app", {})),
        lambda: open_writer(store_path(other)),
        lambda: upgrade(other, START),
    ):
        with pytest.raises(StoreError):
            act()
    assert not (tmp_path / "nowhere").exists()


def test_a_hard_link_is_refused_by_both_its_names_until_one_is_gone(stand: Stand, tmp_path: Path) -> None:
    """C190."""
    other = link_to("hard", stand, tmp_path)
    refusal(stand.home)
    store_path(other).unlink()
    assert stand.enqueue() > 0


def test_a_linked_store_can_be_read(stand: Stand, tmp_path: Path) -> None:
    job = stand.enqueue()
    with snapshot(link_to("symbolic", stand, tmp_path)) as db:
        assert db.execute("SELECT id FROM laneway_jobs").fetchall() == [(job,)]


def test_a_home_may_be_a_link_itself(stand: Stand, tmp_path: Path) -> None:
    """K15: its lock is the same file by either name."""
    (tmp_path / "link").symlink_to(stand.home)
    create(tmp_path / "link", START)
    assert Stand(tmp_path / "link").enqueue() == 1


def test_a_home_that_is_a_file_is_refused(tmp_path: Path) -> None:
    """A4."""
    (tmp_path / "home").write_text("")
    assert "is a file; --home names a folder" in refusal(tmp_path / "home")


def test_a_home_below_a_file_is_refused(tmp_path: Path) -> None:
    """A4."""
    (tmp_path / "file").write_text("")
    assert "lies below a file" in refusal(tmp_path / "file" / "home")


def test_a_store_that_is_a_folder_is_refused(home: Path) -> None:
    """A4."""
    store_path(home).mkdir(parents=True)
    assert "unable to open" in refusal(home)


def test_a_file_that_is_no_database_is_refused_and_left_alone(home: Path) -> None:
    """A4."""
    home.mkdir()
    store_path(home).write_text("these are my notes, " * 100)
    assert "not a database" in refusal(home)
    assert store_path(home).read_text().startswith("these are my notes")


AS_NOBODY = """
import os, sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from landing.errors import StoreError
from landing.migrate import create
from landing.snapshot import snapshot
from landing.store import Store
Path("/").as_uri()  # loads what it needs while Python's own folder may be read
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
home = Path(sys.argv[2])
for act in (
    lambda: create(home, 1),
    lambda: Store(home, lambda: 1, create_missing=True),
    lambda: Store(home, lambda: 1).write(None),
    lambda: snapshot(home).__enter__(),
):
    try:
        act()
    except StoreError as error:
        print(error.code, error)
"""


def as_somebody_else(home: Path) -> list[str]:
    """What a user who does not own `home` is told when he makes, writes and reads it."""
    command = [sys.executable, "-c", AS_NOBODY, str(ROOT), str(home)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False, env={})
    assert done.stderr == ""
    return done.stdout.splitlines()


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that others may enter and not write."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o555)
        yield Path(folder)
        Path(folder).chmod(0o755)


def test_a_read_only_home_is_refused_in_one_line_each(open_folder: Path) -> None:
    """A4."""
    told = as_somebody_else(open_folder)
    assert told[0] == f"database_error the home {open_folder} cannot be written: Permission denied"
    assert [line.split()[0] for line in told] == ["database_error", "database_error", "no_store", "no_store"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a store to somebody else")
def test_a_store_of_somebody_else_is_refused_in_one_line_each(open_folder: Path) -> None:
    """A3, A4."""
    home = open_folder / "home"
    Stand(home).furnish()
    told = as_somebody_else(home)
    assert len(told) == 4
    assert {line.split()[0] for line in told} == {"database_error"}
    home.chmod(0o755)
    told = as_somebody_else(home)
    assert f"database_error the home {home} is read-only" in told
    assert len(told) == 4


def test_reading_and_writing_make_no_store(home: Path) -> None:
    home.mkdir()
    for act in (lambda: Store(home, lambda: START), lambda: snapshot(home).__enter__()):
        with pytest.raises(NoStore, match="no store in"):
            act()
    with pytest.raises(StoreError):
        store_size(home)
    with pytest.raises(NoStore):
        open_writer(store_path(home))
    assert list(home.iterdir()) == []


def test_the_sizes_are_those_of_the_store_and_its_wal(stand: Stand) -> None:
    """K8."""
    assert store_size(stand.home) == (store_path(stand.home).stat().st_size, 0)
    with closing(open_writer(store_path(stand.home))) as held:
        held.execute("SELECT 1 FROM laneway_jobs")
        stand.enqueue()
        assert store_size(stand.home)[1] > 0


def test_a_store_that_was_removed_or_replaced_is_not_the_same(stand: Stand) -> None:
    """A4: told by stat alone, once a second."""
    known = store_identity(stand.home)
    assert known is not None
    stand.enqueue()
    assert same_store(stand.home, known)
    path = store_path(stand.home)
    path.rename(path.with_name("kept"))
    assert not same_store(stand.home, known)
    assert store_identity(stand.home) is None
    assert not same_store(stand.home, None)
    path.write_bytes(b"")
    assert not same_store(stand.home, known)


def test_a_schema_number_that_is_none_is_a_broken_store(stand: Stand) -> None:
    """A4, U32."""
    with closing(sqlite3.connect(store_path(stand.home))) as db, db:
        db.execute("UPDATE laneway_meta SET value = 'abc' WHERE name = 'schema'")
    with pytest.raises(StoreBroken, match="schema number is 'abc'"), snapshot(stand.home):
        pass
