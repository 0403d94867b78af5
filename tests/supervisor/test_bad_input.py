"""A store that goes bad under a real supervisor: one warning that names it, nothing lost, and it goes on."""

import os
import resource
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest

from landing.connect import open_reader, open_writer, store_path
from landing.errors import StoreBroken
from landing.snapshot import store_size
from tests.landing.test_full import MOUNT, ROOT, can_mount
from tests.supervisor.serving import House, wait_for

ROWS = 30_000


class Run:
    """A supervisor process under which something goes wrong, and a job whose rows keep landing."""

    def __init__(self, house: House) -> None:
        self.house = house
        self.job = house.enqueue("paced", {"rows": ROWS})
        self.process = house.start("--until-idle")
        self.said: list[str] = []
        self.errors: list[str] = []
        self.threads = [
            threading.Thread(target=lines.extend, args=(stream,))
            for lines, stream in ((self.said, self.process.stdout), (self.errors, self.process.stderr))
        ]
        for thread in self.threads:
            thread.start()

    def landed(self) -> int:
        return int(self.house.job(self.job)["landed_seq"])

    def goes_on(self, batches: int = 20) -> None:
        """Wait until so many more batches have landed."""
        landed = self.landed()
        wait_for(lambda: self.landed() >= landed + batches)

    def warnings(self) -> list[str]:
        return [line for line in self.said if "  warning: " in line]

    def warned(self) -> str:
        """Wait for the one warning."""
        wait_for(self.warnings)
        (warning,) = self.warnings()
        return warning

    def ends(self) -> int:
        code = self.process.wait(40)
        for thread in self.threads:
            thread.join()
        return code


@contextmanager
def running(house: House) -> Iterator[Run]:
    """Start a supervisor and lend it once rows land."""
    run = Run(house)
    try:
        wait_for(lambda: run.landed() > 5)
        yield run
    finally:
        if run.process.poll() is None:
            os.kill(run.process.pid, 9)
        run.ends()
        run.process.communicate()


def nothing_is_lost(run: Run, *, warnings: int) -> None:
    """Let the run come to its end: every row once, one attempt, no further word, a sound file."""
    house = run.house
    assert run.ends() == 0
    assert [n for n, _ in house.items(run.job)] == list(range(ROWS))
    assert [one["outcome"] for one in house.attempts(run.job)] == ["done"]
    assert (len(run.warnings()), run.errors) == (warnings, [])
    assert house.query("PRAGMA integrity_check") == [("ok",)]


def fills_up(house: House, fill: Callable[[Run], object], make_room: Callable[[Run], object]) -> None:
    """Let there be no room for a while."""
    with running(house) as run:
        fill(run)
        warning = run.warned()
        assert str(store_path(house.home)) in warning
        assert "the disk is full" in warning
        assert "going on by itself when it can" in warning
        assert house.attempts(run.job)[0]["outcome"] is None, "it waits, and nothing has failed"
        make_room(run)
        run.goes_on()
        nothing_is_lost(run, warnings=1)


def limit(run: Run, size: int) -> None:
    """Say how large a file the supervisor may write."""
    resource.prlimit(run.process.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="no limits for other processes here")
def test_a_file_that_may_not_grow_under_way_is_waited_for(house: House) -> None:
    """K1, FIELD E5."""
    fills_up(
        house,
        lambda run: limit(run, max(store_size(house.home)) + 20_000),
        lambda run: limit(run, resource.RLIM_INFINITY),
    )


def can_freeze(folder: Path) -> bool:
    """Tell whether files can be made immutable here: as root, on a file system that knows how."""
    probe = folder / "probe"
    probe.touch()
    frozen = freeze("+i", probe)
    freeze("-i", probe)
    return frozen


def freeze(how: str, *files: Path) -> bool:
    chattr = shutil.which("chattr")
    if chattr is None:
        return False
    return subprocess.run([chattr, how, *files], check=False, capture_output=True).returncode == 0


def test_a_store_that_becomes_immutable_under_way_is_waited_for(house: House) -> None:
    """K1: read-only, however SQLite calls it."""
    if not can_freeze(house.home.parent):
        pytest.skip("no immutable files here")
    store = store_path(house.home)
    files = [store, store.with_name("store.db-wal")]
    with running(house) as run:
        try:
            assert freeze("+i", *files)
            assert "is read-only" in run.warned()
        finally:
            freeze("-i", *files)
        run.goes_on()
        nothing_is_lost(run, warnings=1)


def fill_disk(folder: Path) -> None:
    """Take all room but a little."""
    with (folder / "plug").open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(4096))


def on_a_small_disk(folder: str) -> None:
    """What runs where `folder` is a small disk."""
    room = Path(folder)
    fills_up(House(room), lambda run: fill_disk(room), lambda run: (room / "plug").unlink())


def test_a_disk_that_fills_under_way_is_waited_for(tmp_path: Path) -> None:
    """K1, FIELD E5."""
    room = tmp_path / "room"
    room.mkdir()
    if not can_mount(room):
        pytest.skip("no small disk can be mounted here")
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r})\n"
    code += f"from tests.supervisor.test_bad_input import on_a_small_disk; on_a_small_disk({str(room)!r})"
    mounted = ["unshare", "-rm", "sh", "-c", MOUNT.replace("3m", "16m"), str(room)]
    done = subprocess.run(
        [*mounted, sys.executable, "-c", code], capture_output=True, timeout=50, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_store_that_another_process_keeps_locked_is_waited_for(house: House) -> None:
    """K1, K7, U38, FIELD E1: no crash, no lost claim."""
    with running(house) as run, closing(open_writer(store_path(house.home))) as other:
        other.execute("BEGIN IMMEDIATE")
        began = time.monotonic()
        assert "another process has kept the store locked" in run.warned()
        landed = run.landed()
        wait_for(lambda: time.monotonic() > began + 3)
        assert run.landed() == landed
        other.execute("ROLLBACK")
        run.goes_on()
        nothing_is_lost(run, warnings=1)


def test_a_reader_that_keeps_its_snapshot_holds_nobody_up(house: House) -> None:
    """K8: it sees what it saw, whatever lands meanwhile."""
    count = "SELECT COUNT(*) FROM items"
    with running(house) as run:
        with closing(open_reader(store_path(house.home))) as reader:
            reader.execute("BEGIN")
            seen = reader.execute(count).fetchone()
            run.goes_on(300)
            assert reader.execute(count).fetchone() == seen
        nothing_is_lost(run, warnings=0)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_store_that_is_made_read_only_under_way_is_taken_back(house: House) -> None:
    """A3: by its owner; whoever has it open goes on, and its folder need not be writable."""
    path = store_path(house.home)
    with running(house) as run:
        path.chmod(0o400)
        house.home.chmod(0o500)
        run.goes_on()
        house.enqueue("quick")
        assert path.stat().st_mode & 0o777 == 0o600
        house.home.chmod(0o700)
        nothing_is_lost(run, warnings=0)


SPOILT = {
    "half": lambda file: file.truncate(os.path.getsize(file.name) // 2),
    "torn": lambda file: file.truncate(os.path.getsize(file.name) // 2 + 99),
    "stump": lambda file: file.truncate(50),
    "garbage": lambda file: file.write(os.urandom(os.path.getsize(file.name))),
    "no header": lambda file: file.write(os.urandom(100)),
    "no pages": lambda file: file.seek(4096) and file.write(os.urandom(os.path.getsize(file.name) - 4096)),
}


@pytest.mark.parametrize("how", SPOILT)
def test_a_spoilt_store_is_refused_in_one_line_and_left_as_it_is(house: House, how: str) -> None:
    """A4, C98."""
    house.enqueue("quick")
    path = store_path(house.home)
    with path.open("r+b") as file:
        SPOILT[how](file)
    before = path.read_bytes()
    process = house.start("--until-idle")
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err.count("\n")) == (4, "", 1)
    assert err.startswith(f"error: {path}: ")
    assert path.read_bytes() == before


def test_a_store_that_is_overwritten_under_way_ends_the_run_with_one_line(house: House) -> None:
    """K1: nobody is given a wrong answer."""
    path = store_path(house.home)
    with running(house) as run:
        with path.open("r+b") as file:
            file.write(os.urandom(path.stat().st_size))
        with pytest.raises(StoreBroken, match=r"not a database|malformed"):
            house.enqueue("quick")
        ends_with_one_line(run, "not a database", "malformed")


@pytest.mark.parametrize("how", ["removed", "moved away"])
def test_a_home_that_goes_away_under_way_ends_the_run_with_one_line(house: House, how: str) -> None:
    """K1."""
    with running(house) as run:
        if how == "removed":
            shutil.rmtree(house.home)
        else:
            house.home.rename(house.home.with_name("elsewhere"))
        ends_with_one_line(run, "was removed or replaced while this run used it")


def ends_with_one_line(run: Run, *words: str) -> None:
    """Exit code 4, one warning when it was met, one line on stderr at the end."""
    assert run.ends() == 4
    (warning,), (error,) = run.warnings(), run.errors
    for line in (warning, error):
        assert str(store_path(run.house.home)) in line
        assert any(word in line for word in words)
