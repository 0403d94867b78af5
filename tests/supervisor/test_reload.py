"""`supervisor run --reload`: a change of the application ends the run and begins another, in one process."""

import json
import os
import pty
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from supervisor.lock import SupervisorLock, is_live
from tests.supervisor.changing import NEWER, OLD, change, running, told, write_app
from tests.supervisor.serving import GALLERY, House, wait_for
from tests.supervisor.test_older_store import older_store


def runs(house: House) -> list[tuple[Any, ...]]:
    """Return (pid, clean) of each run."""
    return house.query("SELECT pid, clean FROM laneway_runs ORDER BY id")


def done(house: House, job: int) -> bool:
    return bool(house.job(job)["state"] == "done")


def outcomes(house: House, job: int) -> list[str]:
    return [one["outcome"] for one in house.attempts(job)]


def work(house: House) -> None:
    """Have a job done: then the run has begun for certain."""
    job = house.enqueue("tell")
    wait_for(lambda: done(house, job))


def test_a_change_ends_the_run_cleanly_and_begins_another_in_the_same_process(tmp_path: Path) -> None:
    """K13: the process id stays, the streams go on, the code is new, and it can be stopped as before."""
    source = write_app(tmp_path, "reloaded")
    house = House(tmp_path, app=str(source))
    with running(house, "--reload") as run:
        first = house.enqueue("tell")
        wait_for(lambda: done(house, first))
        change(source)
        wait_for(lambda: len(runs(house)) == 2)
        second = house.enqueue("tell")
        wait_for(lambda: done(house, second))
        assert run.end() == 0
    assert [text for job in (first, second) for _, text in told(house, job)] == [OLD, NEWER]
    assert runs(house) == [(run.process.pid, 1)] * 2
    assert run.err == []
    said = "\n".join(run.out)
    assert (
        f"{source.resolve()} changed since this run loaded the application; the run ends and starts anew"
        in said
    )
    assert "app changed: 1 done" in said
    assert [line.split("laneway up: ")[1][:6] for line in run.out if "laneway up" in line] == [
        "run 1,",
        "run 2,",
    ]
    assert run.out[-1] == "stopped: 1 done, 0 failed"


def test_a_job_under_way_yields_and_goes_on_with_the_new_code(tmp_path: Path) -> None:
    """K13, K4: no failure is counted, every row lands once."""
    source = write_app(tmp_path, "reloaded_busy")
    house = House(tmp_path, app=str(source))
    go = tmp_path / "go"
    with running(house, "--reload") as run:
        job = house.enqueue("count", {"until": str(go)})
        wait_for(lambda: house.job(job)["landed_rows"])
        change(source)
        wait_for(lambda: (NEWER,) in house.query("SELECT text FROM told WHERE job = ?", job))
        go.touch()
        wait_for(lambda: done(house, job))
        assert run.end() == 0
    rows = told(house, job)
    assert [n for n, _ in rows] == list(range(len(rows)))
    assert [text for _, text in rows] == sorted((text for _, text in rows), key=[OLD, NEWER].index)
    assert [one["outcome"] for one in house.attempts(job)] == ["yielded", "done"]
    assert house.job(job)["failures"] == 0


def test_a_child_that_differs_is_enough(tmp_path: Path) -> None:
    """K13: also where the file's time and length tell nothing."""
    source = write_app(tmp_path, "reloaded_unseen", options='spawn="cold"')
    house = House(tmp_path, app=str(source))
    with running(house, "--reload") as run:
        first = house.enqueue("tell")
        wait_for(lambda: done(house, first))
        before = source.stat()
        new = tmp_path / "new"
        new.write_text(source.read_text().replace("1_000_000", "1_000_001"))
        os.utime(new, ns=(before.st_atime_ns, before.st_mtime_ns))
        new.replace(source)
        jobs = [house.enqueue("tell") for _ in range(4)]
        wait_for(lambda: len(runs(house)) == 2)
        wait_for(lambda: all(done(house, job) for job in jobs))
        assert run.end() == 0
    assert len(runs(house)) == 2


def test_a_stop_is_stronger_than_a_change(tmp_path: Path) -> None:
    """K13: whoever asks for a stop while the run ends for a change gets one."""
    source = write_app(tmp_path, "reloaded_stopped")
    house = House(tmp_path, app=str(source))
    go = tmp_path / "go"
    with running(house, "--reload") as run:
        job = house.enqueue("wait", {"until": str(go)})
        wait_for(lambda: house.job(job)["landed_rows"])
        change(source)
        wait_for(lambda: "the run ends" in run.out_file.read_text())
        run.process.send_signal(signal.SIGTERM)
        wait_for(lambda: "stopping: " in run.out_file.read_text())
        go.touch()
        assert run.process.wait(30) == 0
    assert run.out[-1].startswith("stopped: ")
    assert runs(house) == [(run.process.pid, 1)]


def test_until_idle_holds_over_a_change(tmp_path: Path) -> None:
    """K13: the next image was asked for the same."""
    source = write_app(tmp_path, "reloaded_idle", options='spawn="cold"')
    house = House(tmp_path, workers=1, app=str(source))
    go = tmp_path / "go"
    job = house.enqueue("count", {"until": str(go)})
    jobs = [house.enqueue("tell") for _ in range(3)]
    with running(house, "--reload", "--until-idle") as run:
        wait_for(lambda: house.job(job)["landed_rows"])
        change(source)
        wait_for(lambda: len(runs(house)) == 2)
        go.touch()
        assert run.process.wait(30) == 0
    assert all(done(house, one) for one in (job, *jobs))
    assert run.out[-1].startswith("idle: ")


def test_what_is_broken_is_said_once_and_mended_by_the_next_change(tmp_path: Path) -> None:
    """K13: no loop of crashes; in between there is no run, and jobs wait."""
    source = write_app(tmp_path, "reloaded_broken")
    house = House(tmp_path, app=str(source))
    good = source.read_text()
    with running(house, "--reload") as run:
        wait_for(lambda: runs(house))
        source.write_text(f"{good}\nno python\n")
        wait_for(lambda: run.err)
        job = house.enqueue("tell")
        (tmp_path / "unrelated.txt").write_text("no source of anything")
        source.write_text(f"{good}\nraise RuntimeError('still not')\n")
        wait_for(lambda: len(run.err) == 2)
        assert len(runs(house)) == 1
        source.write_text(good.replace(f'"{OLD}"', f'"{NEWER}"'))
        wait_for(lambda: done(house, job))
        assert run.end() == 0
    syntax, error = run.err
    lines = good.count("\n")
    place = f"({source}:{lines + 2}); waits for a change"
    assert syntax == f"error: {source}:app: SyntaxError: invalid syntax {place}"
    assert error == f"error: {source}:app: RuntimeError: still not {place}"
    assert told(house, job)[0][1] == NEWER
    assert runs(house) == [(run.process.pid, 1)] * 2


def test_what_was_mended_while_it_was_read_is_read_again(tmp_path: Path) -> None:
    """K13: the change that would be waited for has been."""
    source = write_app(tmp_path, "mended_meanwhile")
    house = House(tmp_path, app=str(source))
    good = tmp_path / "good.txt"
    good.write_text(source.read_text())
    source.write_text(
        "import shutil, time\n"
        "time.sleep(0.02)  # longer than a tick of the clock that files are stamped by\n"
        f"shutil.copyfile({str(good)!r}, __file__)\n"
        "raise RuntimeError('not yet')\n"
    )
    with running(house, "--reload") as run:
        work(house)
        assert run.end() == 0
    assert run.err == []


def test_a_migration_that_does_not_run_is_mended_by_the_next_change(tmp_path: Path) -> None:
    """K13: it is as broken as an import that fails."""
    source = write_app(tmp_path, "reloaded_migration")
    house = House(tmp_path, app=str(source))
    good = source.read_text()
    with running(house, "--reload") as run:
        work(house)
        source.write_text(f"{good}\napp.migration(2, 'CREATE TABLE')\n")
        wait_for(lambda: run.err)
        source.write_text(f"{good}\napp.migration(2, 'CREATE TABLE more (n INTEGER)')\n")
        wait_for(lambda: house.query("SELECT 1 FROM sqlite_master WHERE name = 'more'"))
        work(house)
        assert run.end() == 0
    [error] = run.err
    assert "migration 2" in error
    assert error.endswith("; waits for a change")


def test_a_store_that_cannot_be_used_is_no_matter_of_the_application(tmp_path: Path) -> None:
    """DESIGN 7: exit 4, as ever."""
    source = write_app(tmp_path, "reloaded_no_store")
    house = House(tmp_path, app=str(source))
    (house.home / "store.db").write_text("no store")
    with running(house, "--reload") as run:
        assert run.process.wait(30) == 4
    assert len(run.err) == 1


def test_a_module_that_was_missing_may_come(tmp_path: Path) -> None:
    """K13: a file that is not there yet is waited for, too, in whichever folder it is missing."""
    more = "\nimport comes_later.part\n"
    (tmp_path / "comes_later").mkdir()
    (tmp_path / "comes_later" / "__init__.py").touch()
    (tmp_path / "comes_later" / "part.py").touch()
    source = write_app(tmp_path, "misses_a_module", more=more)
    house = House(tmp_path, app=str(source))
    (tmp_path / "comes_later" / "part.py").unlink()
    with running(house, "--reload") as run:
        wait_for(lambda: run.err)
        assert "ModuleNotFoundError: No module named 'comes_later.part'" in run.err[0]
        (tmp_path / "comes_later" / "part.py").touch()
        work(house)
        assert run.end() == 0
    assert len(run.err) == 1


@pytest.mark.parametrize(
    ("flags", "number", "code"),
    [((), signal.SIGTERM, 0), ((), signal.SIGINT, 0), (("--until-idle",), signal.SIGINT, 130)],
)
def test_a_process_that_waits_for_a_change_can_be_stopped(
    tmp_path: Path, flags: tuple[str, ...], number: int, code: int
) -> None:
    """K13: with the exit codes of a run that is stopped."""
    source = write_app(tmp_path, f"broken_{len(flags)}_{number}")
    house = House(tmp_path, app=str(source))
    source.write_text("import no_such_module_anywhere\n")
    with running(house, "--reload", *flags) as run:
        wait_for(lambda: run.err)
        assert run.end(number) == code
    assert runs(house) == []
    assert len(run.err) == 1


def command(house: House, *words: str) -> tuple[int, str, str]:
    """Call another command on the same home; return its exit code, stdout and stderr."""
    argv = [sys.executable, "-m", "supervisor", *words, "--home", str(house.home)]
    done = subprocess.run(argv, check=False, cwd=house.settings.folder, capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def broken(tmp_path: Path, request: pytest.FixtureRequest) -> House:
    """A home whose application does not load any more; the kinds of it are known."""
    source = write_app(tmp_path, request.node.name)
    house = House(tmp_path, app=str(source))
    source.write_text("import no_such_module_anywhere\n")
    return house


def test_who_waits_for_a_change_is_a_supervisor_to_everybody_else(broken: House) -> None:
    """K6, K9, C194: `status` sees that one starts, `enqueue` asks for no other, `down` finds and ends it."""
    with running(broken, "--reload") as run:
        wait_for(lambda: run.err)
        code, out, _ = command(broken, "status")
        assert (code, out.split()[:2]) == (0, ["laneway", "starting"])
        assert command(broken, "enqueue", "tell") == (0, "1\n", "")
        assert command(broken, "run", "--app", GALLERY)[0] == 3
        assert command(broken, "down") == (0, f"supervisor (pid {run.process.pid}) stopped\n", "")
        assert run.process.wait(30) == 0
    assert not is_live(broken.home)
    assert len(run.err) == 1


def test_who_would_wait_beside_a_supervisor_is_refused_as_ever(broken: House) -> None:
    """DESIGN 7: exit 3."""
    lock = SupervisorLock(broken.home, time.monotonic, time.sleep)
    try:
        with running(broken, "--reload") as run:
            assert run.process.wait(30) == 3
    finally:
        lock.release()
    [error] = run.err
    assert error.startswith(f"error: another supervisor holds {broken.home}; ")


def test_a_home_that_comes_while_a_change_is_waited_for_is_held_from_then_on(broken: House) -> None:
    """K9."""
    away = broken.home.rename(broken.home.with_name("away"))
    with running(broken, "--reload") as run:
        wait_for(lambda: run.err)
        away.rename(broken.home)
        wait_for(lambda: is_live(broken.home))
        assert run.end() == 0


def test_who_waits_for_a_change_upgrades_an_older_store_for_those_that_write_to_it(broken: House) -> None:
    """K7: while it holds the lock, nobody else may."""
    shutil.rmtree(broken.home)
    older_store(broken.home, 1)
    with running(broken, "--reload") as run:
        wait_for(lambda: run.err)
        assert command(broken, "enqueue", "vault_sync", json.dumps({"root": "."}))[::2] == (0, "")
        assert run.end() == 0


def test_without_it_a_broken_application_is_exit_2(tmp_path: Path) -> None:
    """DESIGN 7."""
    source = write_app(tmp_path, "broken_for_good")
    house = House(tmp_path, app=str(source))
    source.write_text("import no_such_module_anywhere\n")
    with running(house) as run:
        assert run.process.wait(30) == 2
    assert len(run.err) == 1
    assert "waits" not in run.err[0]


def test_the_environment_and_the_folder_are_those_of_the_start(tmp_path: Path) -> None:
    """K13: whatever the application did to its process before; what it left for the exit has been done."""
    seen = tmp_path / "seen.txt"
    more = f"""
import atexit
if "LANEWAY_MARKER" not in os.environ and "MINE" in os.environ:
    with open({str(seen)!r}, "a") as file:
        print(os.environ["MINE"], os.getcwd(), file=file)
    os.environ["MINE"] = "changed"
    os.chdir("/")
    atexit.register(lambda: os.mkdir({str(tmp_path)!r} + f"/left_{{VERSION}}"))
"""
    source = write_app(tmp_path, "reloaded_elsewhere", more=more)
    house = House(tmp_path, app=str(source))
    with running(house, "--reload", MINE="as it was") as run:
        work(house)
        change(source)
        wait_for(lambda: len(runs(house)) == 2)
        work(house)
        assert run.end() == 0
    assert seen.read_text().splitlines() == [f"as it was {tmp_path.resolve()}"] * 2
    assert (tmp_path / f"left_{OLD}").is_dir()


def test_json_stays_json_over_a_change(tmp_path: Path) -> None:
    """U31: what the application prints while it loads goes to stderr in both images."""
    source = write_app(tmp_path, "reloaded_json", more='\nprint("hello from", VERSION)\n')
    house = House(tmp_path, app=str(source))
    with running(house, "--reload", "--json") as run:
        work(house)
        change(source)
        wait_for(lambda: len(runs(house)) == 2)
        work(house)
        assert run.end() == 0
    lines = [json.loads(line) for line in run.out]
    assert [one["run"] for one in lines if one["event"] == "RunStarted"] == [1, 2]
    assert [one["ended"] for one in lines if one["event"] == "RunEnded"] == ["app_changed", "stopped"]
    assert [one["code"] for one in lines if one["event"] == "Warned"] == ["app_changed"]
    assert run.err == [f"hello from {OLD}", f"hello from {NEWER}"]


def test_a_terminal_is_given_back_before_the_next_image_takes_it(tmp_path: Path) -> None:
    """K13: the cursor that the bars hide is shown again, each time."""
    source = write_app(tmp_path, "reloaded_live")
    house = House(tmp_path, app=str(source))
    go = tmp_path / "go"
    job = house.enqueue("count", {"until": str(go)})
    ours, theirs = pty.openpty()
    said = bytearray()

    def listen() -> None:
        while True:
            try:
                said.extend(os.read(ours, 4096))
            except OSError:  # its last writer is gone
                return

    thread = threading.Thread(target=listen)
    thread.start()
    try:
        with running(house, "--reload", terminal=theirs, TERM="xterm") as run:
            os.close(theirs)
            wait_for(lambda: house.job(job)["landed_rows"])
            change(source)
            wait_for(lambda: b"run 2" in said)
            go.touch()
            wait_for(lambda: done(house, job))
            assert run.end() == 0
    finally:
        thread.join()
        os.close(ours)
    hide, show = b"\x1b[?25l", b"\x1b[?25h"
    assert said.count(hide) == 2
    assert said.count(show) == 2
    assert said.index(show) < said.index(b"run 2") < said.rindex(show)
