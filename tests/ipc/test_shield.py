"""The shield, tried from behind it: real processes that were forked, closed off and exec'd."""

import errno
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ipc.guardian import shield
from tests.ipc.behind import MOUNTS, ORDINARY, SIGNALS, TRICKS, WORK, Scene, reachable

AS_ROOT = os.geteuid() == 0
USERS = ("root", "ordinary") if AS_ROOT else ("ordinary",)
VERSION = shield.abi()
behind = pytest.mark.skipif(VERSION < 3, reason="this kernel has no Landlock that keeps a file whole")
scoped = pytest.mark.skipif(VERSION < 6, reason="this kernel's Landlock has no scopes")


@pytest.fixture(params=USERS, scope="module")
def scene(request: pytest.FixtureRequest) -> Iterator[Scene]:
    """A scene in a folder that every user can reach, unlike those that pytest makes."""
    python: str | None = sys.executable
    changes = AS_ROOT and request.param == "ordinary"
    if changes:
        python = next(filter(reachable, (sys.executable, "/usr/bin/python3")), None)
    if python is None:
        pytest.skip("no Python here that an ordinary user may run")
    top = tempfile.mkdtemp(prefix="shield-")
    yield Scene(Path(top), python, ORDINARY if changes else None)
    shutil.rmtree(top)


@pytest.fixture(scope="module")
def outcomes(scene: Scene) -> dict[bool, dict[str, str]]:
    """What came of all tricks and all work, with the shield and without it."""
    return {
        shielded: scene.attempts(TRICKS | SIGNALS | WORK, shielded=shielded) for shielded in (False, True)
    }


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "notes" / ".supervisor").mkdir(parents=True)
    (tmp_path / "notes" / ".supervisor" / "store.db").write_text("kept")
    return tmp_path / "notes" / ".supervisor"


def in_a_copy(act: Callable[[], str]) -> str:
    """Return what a function returns, or raises, in a forked copy of this process."""
    told, tell = os.pipe()
    if (pid := os.fork()) == 0:
        try:
            said = act()
        except BaseException as error:
            said = f"{type(error).__name__}: {error}"
        os.write(tell, said.encode())
        os._exit(0)
    os.close(tell)
    with open(told, encoding="utf-8") as pipe:
        said = pipe.read()
    os.waitpid(pid, 0)
    return said


# --- what is refused; it works where the shield is off

REFUSED = (
    "PermissionError",
    f"OSError: [Errno {errno.EXDEV}]",
    "OperationalError: unable to open database file",
)


@behind
@pytest.mark.parametrize("trick", TRICKS)
def test_behind_the_shield_the_store_cannot_be_reached(
    scene: Scene, outcomes: dict[bool, dict[str, str]], trick: str
) -> None:
    """C127, U14: it is not only not handed."""
    assert outcomes[False][trick] == "done"
    assert outcomes[True][trick].startswith(REFUSED)
    assert scene.kept()


@scoped
@pytest.mark.parametrize("trick", SIGNALS)
def test_behind_the_shield_nobody_outside_can_be_signalled(
    outcomes: dict[bool, dict[str, str]], trick: str
) -> None:
    """U14."""
    assert outcomes[False][trick] == "done"
    assert outcomes[True][trick].startswith("PermissionError")


@behind
def test_behind_the_shield_the_environment_of_the_supervisor_cannot_be_read(scene: Scene) -> None:
    if os.geteuid() == 0 and scene.user is None:
        pytest.skip("the kernel shows it to whoever may measure all processes")
    read = "open(f'/proc/{parent}/environ').read()"
    assert scene.attempt(read, shielded=False) == "done"
    assert scene.attempt(read).startswith("PermissionError")


@behind
def test_behind_the_shield_nothing_can_be_mounted(scene: Scene) -> None:
    if os.geteuid() != 0 or scene.user is not None:
        pytest.skip("mounting needs root")
    bind = f"{MOUNTS}mount(os.fsencode(folder), os.fsencode(pages), None, 0x1000); open(pages + '/store.db')"
    assert scene.attempt(bind, shielded=False) == "done"
    assert scene.attempt(bind).startswith("PermissionError")


@behind
def test_a_second_mount_that_shows_the_store_is_closed_too(scene: Scene) -> None:
    """One of a folder above the store, one of the store alone, on a file, and one that is hidden."""
    if os.geteuid() != 0 or scene.user is not None:
        pytest.skip("mounting needs root")
    bound, hidden = scene.elsewhere / "b\\o und", scene.elsewhere / "hidden"
    store, alone = scene.folder / "store.db", scene.elsewhere / "alone.db"
    bound.mkdir()
    hidden.mkdir()
    alone.touch()
    before = MOUNTS + "".join(
        f"mount({os.fsencode(what)!r}, {os.fsencode(where)!r}, {how!r}, {flags})\n"
        for what, where, how, flags in (
            (scene.top, bound, None, 0x1000),
            (store, alone, None, 0x1000),
            (scene.top, hidden, None, 0x1000),
            ("tmpfs", hidden, b"tmpfs", 0),
        )
    )
    ways = (bound / "my notes/.supervisor/store.db", alone, store)
    tries = {str(way): f"open({str(way)!r})" for way in (*ways, bound / "my notes/pages/one.txt")}
    assert [*scene.attempts(tries, shielded=False, before=before).values()] == ["done"] * 4
    *refused, beside = scene.attempts(tries, before=before).values()
    assert [one.split(":")[0] for one in refused] == ["PermissionError"] * 3
    assert beside == "done"


# --- what goes on as ever


@behind
@pytest.mark.parametrize("work", WORK)
def test_behind_the_shield_ordinary_work_goes_on(outcomes: dict[bool, dict[str, str]], work: str) -> None:
    assert outcomes[True][work] == "done"


@behind
def test_on_the_way_to_the_store_nothing_can_be_made_or_removed(scene: Scene) -> None:
    """The price, as the module tells it."""
    tries = {"make": "open(project + '/new.txt', 'w')", "remove": "os.remove(project + '/app.py')"}
    assert [one.split(":")[0] for one in scene.attempts(tries).values()] == ["PermissionError"] * 2


@behind
def test_a_directory_that_cannot_be_listed_stays_closed_but_for_the_way(scene: Scene) -> None:
    if os.geteuid() == 0 and scene.user is None:
        pytest.skip("root may list everything")
    tries = {"beside": "os.mkdir(elsewhere + '/new')", "way": "open(pages + '/one.txt')", "in": "open(store)"}
    scene.top.chmod(0o311)
    try:
        outcome = scene.attempts(tries)
    finally:
        scene.top.chmod(0o755)
    assert outcome["beside"].startswith("PermissionError")
    assert outcome["way"] == "done"
    assert outcome["in"].startswith("PermissionError")


# --- putting it up


@behind
def test_the_shield_says_what_it_keeps_off_and_leaves_no_descriptor(folder: Path) -> None:
    def act() -> str:
        before = os.listdir("/proc/self/fd")
        said = shield.close_off(str(folder))
        assert os.listdir("/proc/self/fd") == before
        assert "NoNewPrivs:\t1\n" in Path("/proc/self/status").read_text()
        with pytest.raises(PermissionError):
            os.truncate(folder / "store.db", 0)
        return said

    assert in_a_copy(act) == shield.described(VERSION)


@behind
def test_the_supervisor_can_still_signal_whom_it_closed_off(folder: Path) -> None:
    """LESSONS 12: the kill must go through."""
    told, tell = os.pipe()
    if (pid := os.fork()) == 0:
        try:
            shield.close_off(str(folder))
            os.write(tell, b"up")
            signal.pause()
        finally:
            os._exit(1)
    os.close(tell)
    said = os.read(told, 2)
    os.close(told)
    os.kill(pid, signal.SIGTERM)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGTERM
    assert said == b"up"


@behind
def test_a_folder_named_by_a_link_is_closed_where_it_is(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "by-link").symlink_to(folder)

    def act() -> str:
        shield.close_off(str(tmp_path / "by-link"))
        return (folder / "store.db").read_text()

    assert in_a_copy(act).startswith("PermissionError")


@behind
def test_thousands_of_files_beside_the_way_stay_open(folder: Path) -> None:
    files = [folder.parent / f"{n}.txt" for n in range(2000)]
    for file in files:
        file.touch()

    def act() -> str:
        shield.close_off(str(folder))
        for file in files:
            os.truncate(file, 1)
        return "all"

    assert in_a_copy(act) == "all"


@behind
def test_a_file_that_is_written_anew_is_closed_and_the_places_tell(folder: Path) -> None:
    """The price of rules by inode: an editor that renames its new file into place makes one."""
    page, later = folder.parent / "page.txt", folder.parent / "later.txt"
    page.write_text("old")
    before = shield.places(str(folder))

    def act() -> str:
        told, tell = os.pipe()
        if os.fork() == 0:  # this one is not behind the shield
            os.close(tell)
            os.read(told, 1)
            later.write_text("new")
            later.replace(page)
            os._exit(0)
        shield.close_off(str(folder))
        assert page.read_text() == "old"
        os.write(tell, b"x")
        os.wait()
        return page.read_text()

    assert in_a_copy(act).startswith("PermissionError")
    assert page.read_text() == "new"
    assert shield.places(str(folder)) != before


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has places")
def test_places_are_those_on_the_way_and_change_with_its_entries_only(folder: Path) -> None:
    before = shield.places(str(folder))
    assert {(one.st_dev, one.st_ino) for one in map(os.stat, folder.parents)} <= {one[:2] for one in before}
    assert (folder.stat().st_dev, folder.stat().st_ino) not in {one[:2] for one in before}
    (folder / "store.db-wal").write_text("the store lives")
    (folder / "store.db").write_text("changed where it is")
    here = folder.parent.stat()
    assert (here.st_dev, here.st_ino, here.st_mtime_ns) in before
    (folder.parent / "new.txt").touch()
    assert shield.places(str(folder)) != before
    assert shield.places(str(folder / "missing")) == ()


@behind
def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    assert in_a_copy(lambda: shield.close_off(str(tmp_path / "missing"))).startswith("FileNotFoundError")


@behind
def test_what_the_kernel_refuses_is_an_error_that_names_the_call(folder: Path) -> None:
    """It stacks 16 of them."""

    def act() -> str:
        for _ in range(17):
            shield.close_off(str(folder))
        return "no limit"

    said = in_a_copy(act)
    assert said == f"OSError: [Errno {errno.E2BIG}] landlock_restrict_self: {os.strerror(errno.E2BIG)}"


def test_where_there_is_no_landlock_that_is_said(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel without it cannot be had here: another system's name, and a Python without ctypes."""
    monkeypatch.setitem(sys.modules, "ctypes", None)
    assert shield.abi() == 0
    monkeypatch.undo()
    monkeypatch.setattr(sys, "platform", "darwin")
    assert shield.abi() == 0
    assert shield.places(str(folder)) == ()
    assert in_a_copy(lambda: shield.close_off(str(folder))).endswith("no Landlock, or it is switched off")


# --- pure


@pytest.mark.parametrize(
    ("version", "highest"),
    [
        (1, "make a link"),
        (2, "move"),
        (3, "truncate"),
        (4, "truncate"),
        (5, "ioctl"),
        (7, "ioctl"),
        (9, "socket"),
        (12, "socket"),
    ],
)
def test_an_abi_has_the_rights_that_came_with_it(version: int, highest: str) -> None:
    bits = ("make a link", "move", "truncate", "ioctl", "socket")
    assert shield.rights(version) == 2 ** (12 + bits.index(highest) + 1) - 1


def test_what_is_kept_off_is_told_without_claiming_more() -> None:
    assert shield.described(1) == "landlock 1: store (but it can be truncated)"
    assert shield.described(3) == "landlock 3: store"
    assert shield.described(7) == "landlock 7: store, signals"


TABLE = rb"""22 27 0:21 / /proc rw - proc proc rw
27 1 0:30 /system / rw - btrfs /dev/sda rw
40 27 0:30 /people /srv/us\0401 rw - btrfs /dev/sda rw
41 27 0:30 / /mnt/all rw - btrfs /dev/sda rw
42 27 0:30 /people/p /mnt/p rw - btrfs /dev/sda rw
43 27 0:30 /people/p/.s/part /mnt/part rw - btrfs /dev/sda rw
44 27 0:30 /people/p2 /mnt/p2 rw - btrfs /dev/sda rw
45 27 0:31 /people /mnt/other rw - ext4 /dev/sdb rw
"""


def test_a_folder_is_shown_by_every_mount_of_its_file_system_that_leads_to_it() -> None:
    assert shield.shown_at("/srv/us 1/p/.s", b"40", TABLE) == {
        "/srv/us 1/p/.s",
        "/mnt/all/people/p/.s",
        "/mnt/p/.s",
        "/mnt/part",
    }
    assert shield.shown_at("/etc/s", b"27", TABLE) == {"/etc/s", "/mnt/all/system/etc/s"}
    assert shield.shown_at("/etc/s", b"99", TABLE) == {"/etc/s"}


def test_a_command_on_macos_is_closed_off_where_the_folder_really_is(tmp_path: Path) -> None:
    """OS.md 5: what is denied there is denied by path, so nothing above may be renamed."""
    real = tmp_path / 'a "b" \\c'
    real.mkdir()
    (tmp_path / "link").symlink_to(real)
    path = str(tmp_path.resolve()) + '/a \\"b\\" \\\\c'
    program, option, profile, *argv = shield.sandboxed(["python", "-m", "worker"], str(tmp_path / "link"))
    assert (program, option, argv) == ("/usr/bin/sandbox-exec", "-p", ["python", "-m", "worker"])
    assert profile.startswith(
        f'(version 1)(allow default)(deny file* (subpath "{path}"))(deny file-write-unlink (literal "/")'
    )
    assert f'(literal "{tmp_path.resolve()}")' in profile
