"""`supervisor down`: ends the one that holds the lock, and nobody else; says what was verified."""

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from landing.connect import open_writer, store_path
from supervisor.cli import down
from supervisor.client import Client
from supervisor.lock import is_live
from tests.cli.shell import SQUARES, Shell
from tests.supervisor.serving import wait_for

STUBBORN = """

@app.lane("stubborn", grace=60)
def stubborn(job, ctx):
    import time

    yield 1, 1
    time.sleep(600)


@stubborn.lander
def land_stubborn(db, job, rows):
    pass
"""


@pytest.fixture
def stubborn(project: Shell) -> Shell:
    """A project with a lane that yields only when it must."""
    project.write("squares.py", SQUARES + STUBBORN)
    return project


@contextmanager
def supervising(shell: Shell, kind: str = "", payload: str = "{}") -> Iterator[subprocess.Popen[bytes]]:
    """Start a supervisor and wait until it is up, and a job of a kind has landed its first row."""
    if kind:
        assert shell("enqueue", kind, payload).code == 0
    with shell.start("run", stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            wait_for(lambda: shell("status", "--json").out.count('"state": "up"'))
            if kind:
                wait_for(lambda: Client(shell.home).job(1)["landed_rows"])
            yield process
        finally:
            process.kill()
            process.communicate()


def test_the_one_that_runs_here_is_stopped_and_its_jobs_are_given_back(project: Shell) -> None:
    """C194, U31, K9: verified by the lock, the process and the run's row."""
    with supervising(project, "sleepy", '{"seconds": 60}') as supervisor:
        done = project("down")
        said = f"supervisor (pid {supervisor.pid}, run 1) stopped; jobs given back: #1\n"
        assert (done.code, done.out, done.err) == (0, said, "")
        assert (supervisor.wait(10), is_live(project.home)) == (0, False)
    assert project("show", "1", "--json").json["state"] == "queued"
    with supervising(project) as supervisor:
        facts = {"state": "stopped", "pid": supervisor.pid, "run": 2, "verified": True, "clean": True}
        assert project("down", "--json").json.items() >= facts.items()


def test_where_nobody_runs_there_is_nothing_to_stop(project: Shell) -> None:
    """K10: liveness is the kernel lock; a store is not needed, and none is made."""
    assert project("down") == project("down", "--now")
    assert (project("down").code, project("down").out) == (0, "no supervisor runs here\n")
    assert project("down", "--json").json == {"state": "none"}
    assert not project.home.exists()


def test_where_a_run_died_what_it_left_is_told(project: Shell) -> None:
    """C194, K9: kill -9 is no clean stop, and the next run settles what was in flight."""
    with supervising(project, "sleepy", '{"seconds": 60}') as supervisor:
        supervisor.kill()
        supervisor.wait()
    done = project("down")
    assert (done.code, done.out) == (
        0,
        "no supervisor runs here; run 1 died, 1 of its jobs is given back by the next run\n",
    )
    assert project("down", "--json").json == {"state": "none", "died": 1, "in_flight": 1}
    said = "job #1 is running and cannot be retried: its supervisor died; run first, which gives it back, or"
    assert project.refused("retry", "1", code=1) == f"{said} cancel it"
    assert project("cancel", "1").out == "#1 cancelled; its supervisor had died\n"
    shown = project("show", "1").out
    assert shown.startswith('#1 sleepy {"seconds": 60}   cancelled\n')
    assert "orphaned" not in shown
    assert shown.endswith("next     supervisor retry 1\n")
    assert "1 died, nothing was in flight" in project("down").out


def test_while_a_run_stops_everybody_says_so(stubborn: Shell) -> None:
    """Reasons everywhere: since when, whom it waits for and until when, and why nobody takes what waits."""
    assert stubborn("enqueue", "stubborn").code == 0
    with stubborn.start("run", stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as supervisor:
        wait_for(lambda: stubborn.home.exists() and Client(stubborn.home).job(1)["landed_rows"])
        stubborn("enqueue", "stubborn")
        supervisor.terminate()
        wait_for(lambda: stubborn("status", "--json").json["supervisor"]["state"] == "stopping")
        facts = stubborn("status", "--json").json
        assert facts["healthy"]
        assert facts["supervisor"]["stopping_s"] >= 0
        if facts["waiting"]:
            assert {group["text"] for group in facts["waiting"]} == {"the run is ending"}
        head = stubborn("status").out.splitlines()[0]
        assert re.match(r"laneway stopping since [\d.]+ m?s, pid \d+, run 1, .*   STOPPING$", head)
        supervisor.terminate()
        out, _ = supervisor.communicate(timeout=20)
    lines = [line.split("  ", 1)[-1] for line in out.decode().splitlines()]
    assert "stopping: waits for #1 #2, at most 60 s; again to stop now" in lines or (
        "stopping: waits for #1, at most 60 s; again to stop now" in lines
    )
    assert "stopping now" in lines
    [kill] = [line for line in stubborn("show", "1").out.splitlines() if line.startswith("kill ")]
    assert re.fullmatch(r"kill     its run stopped, gone \d+ ms later; 1 process ended, 0 survivors", kill)


def test_one_that_outlives_the_request_is_said_to_be_alive_until_it_is_asked_again(stubborn: Shell) -> None:
    """C194, C195: the first request lets batches finish, --now does not."""
    with supervising(stubborn, "stubborn") as supervisor:
        said = stubborn.refused("down", "--timeout", "0.5", code=1)
        assert said.startswith(
            f"STILL ALIVE: pid {supervisor.pid}, run 1, 0.5 s after it was asked to stop; "
        )
        assert "supervisor down --now does not wait" in said
        assert f"kill -9 {supervisor.pid} ends it for certain" in said
        assert (supervisor.poll(), is_live(stubborn.home)) == (None, True)
        done = stubborn("down", "--now", "--json")
        assert done.json.items() >= {"state": "stopped", "clean": True, "given_back": [1]}.items()
        assert supervisor.wait(10) == 130
    assert Client(stubborn.home).attempts(1)[0]["outcome"] == "interrupted"


def test_now_means_at_once_also_when_it_is_the_first_request(stubborn: Shell) -> None:
    """C195: two requests, not one signal that was sent twice in a moment."""
    with supervising(stubborn, "stubborn") as supervisor:
        assert "jobs given back: #1" in stubborn("down", "--now", "--timeout", "20").out
        assert supervisor.wait(10) == 130


def test_a_stopped_supervisor_is_reported_as_that(project: Shell) -> None:
    """C194: what is known of it, not what was asked for."""
    with supervising(project) as supervisor:
        supervisor.send_signal(signal.SIGSTOP)
        done = project("down", "--timeout", "0.3", "--json")
        assert (done.code, done.json["state"], done.json["stopped"]) == (1, "alive", True)
        assert done.err.startswith(f"error: STILL ALIVE (stopped): pid {supervisor.pid}, run 1")
        assert f"kill -CONT {supervisor.pid} wakes it" in done.err
        supervisor.send_signal(signal.SIGCONT)
        assert supervisor.wait(10) == 0, "it was asked, and hears of it now"


def test_a_run_that_was_not_closed_is_said_to_be_left_to_the_next_start(stubborn: Shell) -> None:
    """C194, K9: what the store says, not what was asked for."""
    with (
        supervising(stubborn, "stubborn") as supervisor,
        closing(open_writer(store_path(stubborn.home))) as db,
    ):
        db.execute("BEGIN IMMEDIATE")
        done = stubborn("down", "--now")
        db.rollback()
        assert done.out == (
            f"supervisor (pid {supervisor.pid}, run 1) stopped;"
            " it did not close its run, the next start does and settles #1\n"
        )


HOLDS = """
import sys, threading
from pathlib import Path
from supervisor import sensors
from supervisor.lock import SupervisorLock
lock = SupervisorLock(Path(sys.argv[1]), sensors.monotonic, threading.Event().wait)
print("held", flush=True)
sys.stdin.read()
"""


@contextmanager
def holding(shell: Shell) -> Iterator[subprocess.Popen[bytes]]:
    """Start a process that holds the lock and opens no run."""
    command = [sys.executable, "-c", HOLDS, str(shell.home)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, **pipes, env=shell.environ) as holder:
        assert holder.stdout.readline() == b"held\n"
        yield holder


def test_a_stored_pid_that_is_a_strangers_by_now_is_never_signalled(project: Shell) -> None:
    """FIELD B5: the row of a run that died names a process that has nothing to do with it."""
    with supervising(project) as supervisor:
        supervisor.kill()
        supervisor.wait()
    with subprocess.Popen(["sleep", "600"]) as stranger:
        try:
            with closing(open_writer(store_path(project.home))) as db:
                db.execute("UPDATE laneway_runs SET pid = ?", (stranger.pid,))
            said = "no supervisor runs here; run 1 died, nothing was in flight\n"
            assert project("down").out == said
            with holding(project) as holder:
                done = project("down", "--json")
                assert done.json.items() >= {"state": "stopped", "pid": holder.pid, "verified": True}.items()
                assert holder.wait(10) == -signal.SIGTERM
            assert stranger.poll() is None
        finally:
            stranger.kill()


def unshare() -> list[str]:
    """Return what starts a command in a pid namespace of its own; skip where nobody may."""
    for words in (["unshare", "--pid", "--fork", "--mount-proc"], ["unshare", "-Urpf", "--mount-proc"]):
        try:
            if subprocess.run([*words, "true"], capture_output=True, check=False).returncode == 0:
                return words
        except FileNotFoundError:
            break
    pytest.skip("no pid namespaces here")


def test_one_in_another_pid_namespace_is_not_signalled_but_named(project: Shell) -> None:
    """C194, FIELD B5: from inside a container its number means somebody else, or nobody."""
    words = unshare()
    with supervising(project) as supervisor:
        done = subprocess.run(
            [*words, sys.executable, "-P", "-m", "supervisor", "down"],
            cwd=project.folder,
            env=project.environ,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stdout) == (1, "")
        assert "no process that can be seen from here does" in done.stderr
        assert done.stderr.count("\n") == 1
        assert supervisor.poll() is None


def test_a_supervisor_that_something_starts_again_is_not_said_to_be_down(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """C194: the lock is held, whoever holds it."""
    facts = {"pid": 7, "run": 3, "verified": True}
    assert down.another(facts, as_json=True) == 1
    out, err = capsys.readouterr()
    assert '"state": "restarted"' in out
    assert err.startswith("error: supervisor (pid 7, run 3) stopped, but another one runs here already")


def test_no_store_is_needed_to_stop_who_holds_the_lock(project: Shell) -> None:
    """C194: the lock and the process are the kernel's word; what only the store knows is left out."""
    project.home.mkdir()
    with holding(project) as holder:
        done = project("down")
        assert (done.code, done.out) == (0, f"supervisor (pid {holder.pid}) stopped\n")
        assert holder.wait(10) == -signal.SIGTERM


def test_the_patience_grows_with_the_graces_of_what_runs(stubborn: Shell) -> None:
    """C195: grace + one landing."""
    with supervising(stubborn, "stubborn"):
        assert down.look(stubborn.home).patience == 165.0
    assert down.look(stubborn.folder / "nowhere").patience == 55.0
