"""The standard streams: closed ones, full ones, and a stdout that belongs to JSON alone."""

import json
import signal
import subprocess
from pathlib import Path

import pytest

from supervisor.cli.output import fitting
from tests.cli.shell import Shell
from tests.cli.test_commands import wait_for

CHATTY = """
import sys
from supervisor import App

print("loading")
app = App("chatty")


@app.lane("talk")
def talk(job, ctx):
    print("compute")
    yield 1,


@talk.lander
def land(db, job, rows):
    print("landing", flush=True)
    sys.stdout.write("no newline")
"""


def shell_line(shell: Shell, line: str) -> "subprocess.CompletedProcess[str]":
    """Run a line of sh in which $LANEWAY is our command."""
    import sys

    env = {**shell.environ, "LANEWAY": f"{sys.executable} -P -m supervisor"}
    return subprocess.run(
        ["/bin/sh", "-c", line],
        cwd=shell.folder,
        env=env,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_closed_stream_stops_nobody(project: Shell, closed: str) -> None:
    for words in ("enqueue square '{\"count\": 2}'", "run --until-idle", "status", "jobs", "show 1 --json"):
        done = shell_line(project, f"$LANEWAY {words} {closed}")
        assert done.returncode == 0, (words, done)
        assert "Traceback" not in done.stderr
    assert project("show", "1", "--json").json["state"] == "done"


def test_a_payload_from_a_closed_or_empty_stdin_is_refused_in_one_line(project: Shell) -> None:
    line = "error: stdin is empty; a payload is JSON, by default {}\n"
    done = shell_line(project, "$LANEWAY enqueue square - <&-")
    assert (done.returncode, done.stderr) == (2, line)
    assert project.refused("enqueue", "square", "-", code=2) + "\n" == line.removeprefix("error: ")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no full device")
def test_a_full_stdout_is_one_line(project: Shell) -> None:
    project("enqueue", "square")
    done = shell_line(project, "$LANEWAY jobs >/dev/full")
    assert (done.returncode, done.stderr) == (1, "error: the system: No space left on device\n")


def test_json_lines_are_alone_on_stdout_whatever_user_code_prints(shell: Shell) -> None:
    shell.write("chatty.py", CHATTY)
    shell("enqueue", "talk", "--app", "chatty.py")
    done = shell("run", "--until-idle", "--json", "--app", "chatty.py")
    assert done.code == 0
    events = [json.loads(line) for line in done.out.splitlines()]
    assert events[-1]["event"] == "RunEnded"
    assert all(said in done.err for said in ("loading", "landing", "no newline"))


@pytest.mark.parametrize(
    ("words", "number", "code"),
    [
        (("--until-idle",), signal.SIGINT, 130),
        (("--until-idle", "--json"), signal.SIGINT, 130),
        (("--until-idle",), signal.SIGTERM, 0),
        ((), signal.SIGINT, 0),
    ],
    ids=["until idle", "until idle, json", "terminated", "plain"],
)
def test_a_run_that_is_interrupted_with_work_left_says_so(
    project: Shell, words: tuple[str, ...], number: int, code: int
) -> None:
    """DESIGN section 7: 130 says that what was asked for, all of it, is not done."""
    project("enqueue", "sleepy", "--lines", "-", stdin=b'{"seconds": 1}\n' * 3)
    with project.start("run", "--max-workers", "1", *words, stdin=subprocess.DEVNULL) as supervisor:
        wait_for(lambda: project("show", "1", "--json").json["landed"]["rows"])
        supervisor.send_signal(number)
        out, err = supervisor.communicate(timeout=20)
    assert (supervisor.returncode, err) == (code, b"")
    if "--json" in words:
        assert json.loads(out.splitlines()[-1])["left"] >= 2
    else:
        assert b"stopped: " in out
        assert b" left\n" in out


def test_the_widest_columns_give_way_first() -> None:
    assert fitting([3, 20, 40], 43) == [3, 20, 20]
    assert fitting([3, 20, 40], 30) == [3, 13, 14]
    assert fitting([3, 20, 40], 5) == [3, 8, 8], "a line that is still too long is cut at its end"
    assert fitting([3, 4], 80) == [3, 4]
