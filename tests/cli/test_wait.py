"""`supervisor wait`: until all have ended, whoever ends them."""

import signal
import subprocess

from supervisor.client import Client
from tests.cli.shell import Shell
from tests.supervisor.serving import wait_for


def test_jobs_that_have_ended_are_told_at_once(project: Shell) -> None:
    """C95: one line a job; done and skipped are fine."""
    project("enqueue", "square", "--lines", "-", stdin=b'{"count": 1}\n' * 2)
    project("skip", "2")
    project("run", "--until-idle")
    done = project("wait", "1", "2", "1")
    assert (done.code, done.out, done.err) == (0, "#1 done\n#2 skipped\n", "")
    assert project("wait", "2", "--json").json == [{"id": 2, "state": "skipped", "reason": "skipped"}]


def test_a_job_that_was_not_done_is_told_by_its_name(project: Shell) -> None:
    project("enqueue", "square", "--lines", "-", stdin=b'{"count": 1}\n{}\n{}')
    project("cancel", "3")
    project("run", "--until-idle")
    done = project("wait", "1", "2", "3")
    assert (done.code, done.out) == (
        1,
        "#1 done\n#2 failed: KeyError: count\n#3 cancelled\n",
    )
    assert done.err == "error: not done: #2 failed, #3 cancelled; supervisor show 2 says why\n"
    done = project("wait", "2", "--json")
    assert (done.code, done.json[0]["state"], len(done.lines)) == (1, "failed", 1)


def test_waiting_without_a_supervisor_says_so_at_once_and_goes_on(project: Shell) -> None:
    """K15, C122: the one that comes later ends the wait."""
    project("enqueue", "square", '{"count": 3}')
    with project.start("wait", "1", stdin=subprocess.DEVNULL) as waiter:
        hint = waiter.stderr.readline()
        assert hint == b"hint: no supervisor runs here, start one: supervisor run\n"
        assert waiter.poll() is None
        assert project("run", "--until-idle").code == 0
        out, _ = waiter.communicate(timeout=20)
    assert (waiter.returncode, out) == (0, b"#1 done\n")


def test_each_job_is_told_when_it_ends(project: Shell) -> None:
    project("enqueue", "square", "--lines", "-", stdin=b"{}\n{}")
    with project.start("wait", "1", "2", stdin=subprocess.DEVNULL) as waiter:
        waiter.stderr.readline()
        Client(project.home).cancel(2)
        assert waiter.stdout.readline() == b"#2 cancelled\n"
        Client(project.home).skip(1)
        out, err = waiter.communicate(timeout=20)
    assert (waiter.returncode, out) == (1, b"#1 skipped\n")
    assert err == b"error: not done: #2 cancelled; supervisor show 2 says why\n"


def test_when_the_time_is_up_the_ones_that_are_left_are_named(project: Shell) -> None:
    project("enqueue", "square", "--lines", "-", stdin=b"{}\n{}\n{}")
    project("skip", "2")
    done = project("wait", "1", "2", "3", "--timeout", "0.1s", "--json")
    assert (done.code, [row["state"] for row in done.json]) == (1, ["queued", "skipped", "queued"])
    assert done.lines[-1] == "error: not ended after 0.1 s: #1, #3"


def test_a_job_that_is_not_there_is_not_waited_for(project: Shell) -> None:
    assert project.refused("wait", "1", code=1).startswith("no store in ")
    project("enqueue", "square")
    assert project.refused("wait", "1", "9", code=1) == "no job #9"
    assert "Missing argument" in project.refused("wait", code=2)


def test_an_interrupted_wait_ends_with_130_and_says_nothing(project: Shell) -> None:
    project("enqueue", "square")
    with project.start("wait", "1", stdin=subprocess.DEVNULL) as waiter:
        waiter.stderr.readline()
        waiter.send_signal(signal.SIGINT)
        out, err = waiter.communicate(timeout=20)
    assert (waiter.returncode, out, err.strip()) == (130, b"", b"")
    assert project("show", "1", "--json").json["state"] == "queued"


def test_a_supervisor_that_goes_away_is_told(project: Shell) -> None:
    """K10: liveness is the lock."""
    project("enqueue", "sleepy", '{"seconds": 60}')
    with project.start("run", stdin=subprocess.DEVNULL) as supervisor:
        wait_for(lambda: project("show", "1", "--json").json["landed"]["rows"])
        with project.start("wait", "1", stdin=subprocess.DEVNULL) as waiter:
            assert project("down").code == 0
            assert b"no supervisor runs here" in waiter.stderr.readline()
            waiter.kill()
            waiter.communicate()
        supervisor.communicate(timeout=20)
