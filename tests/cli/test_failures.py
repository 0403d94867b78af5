"""What `show`, `logs`, `status` and the lines of `run` say of attempts that went wrong, or are under way."""

import re
import signal
import subprocess
from typing import Any

import pytest

from tests.cli.shell import Shell
from tests.cli.test_commands import wait_for

TROUBLE = """
import os, signal, subprocess, time
from supervisor import App

app = App("trouble")
app.migration(1, "CREATE TABLE n (n INT)")
LIMITS = {"batch_deadline": 0.3, "grace": 0.3, "max_attempts": 1}


@app.lane("waits", **LIMITS)
def waits(job, ctx):
    yield 1,
    subprocess.run(["sleep", "60"])  # HERE


@app.lane("recurses", **LIMITS)
def recurses(job, ctx):
    def down(n):
        time.sleep(60) if n == 0 else down(n - 1)

    yield 1,
    down(50)


@app.lane("stubborn", **LIMITS)
def stubborn(job, ctx):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    yield 1,
    time.sleep(60)


@app.lane("unlandable", max_attempts=1)
def unlandable(job, ctx):
    yield 1,
    ctx.checkpoint("one")
    time.sleep(0.2)
    yield 2,


@unlandable.lander
def land_nowhere(db, job, rows):
    db.execute("INSERT INTO nowhere VALUES (1)")  # LANDER


@app.lane("wrong_row")
def wrong_row(job, ctx):
    yield 1, ["a list"]


@app.lane("changes", backoff=0)
def changes(job, ctx):
    for n in range(5):
        yield n + 10 * job.attempt,
    if job.attempt == 1:
        ctx.checkpoint("")
        os._exit(3)


@app.lane("tells", max_attempts=1)
def tells(job, ctx):
    print("one line")
    yield 1,
    raise ValueError("first " + "word " * 100 + "\\nsecond line\\n\\x1b[2Jthird")


@app.lane("lasts")
def lasts(job, ctx):
    yield 1,
    time.sleep(60)


for lane in app.lanes.values():
    if lane.land is None:
        lane.lander(lambda db, job, rows: db.executemany("INSERT INTO n VALUES (?)", rows))
"""


@pytest.fixture
def trouble(shell: Shell) -> Shell:
    shell.write("trouble.py", TROUBLE)
    shell.write("supervisor.toml", 'app = "trouble.py"\nmax_workers = 2\n')
    return shell


def line_of(text: str) -> int:
    return next(n for n, code in enumerate(TROUBLE.splitlines(), 1) if text in code)


def story(shell: Shell, kind: str) -> tuple[str, str]:
    """Run one job of a kind to its end; return what `run` and `show` say."""
    assert shell("enqueue", kind).code == 0
    ran = shell("run", "--until-idle")
    assert (ran.code, ran.err) == (0, "")
    shown = shell("show", "1")
    assert (shown.code, shown.err) == (0, "")
    return ran.out, shown.out


def test_a_kill_deep_in_a_library_names_the_users_own_line(trouble: Shell) -> None:
    """Promise 1."""
    ran, shown = story(trouble, "waits")
    own = f"trouble.py:{line_of('# HERE')} waits"
    assert re.search(
        rf"stuck in subprocess\.py:\d+ \w+ < \.\.\. < {re.escape(own)}, 0 survivors, gone in", ran
    )
    assert re.search(rf"^stuck in subprocess\.py:.* < \.\.\. < {re.escape(own)}$", shown, re.MULTILINE)
    whole = trouble("show", "1", "--full").out
    assert whole.count("  File ") > 4
    assert whole.endswith("\nnext     supervisor retry 1\n"), "there is nothing more to look at"


def test_a_recursion_is_told_once_with_how_often(trouble: Shell) -> None:
    _, shown = story(trouble, "recurses")
    sleeps = line_of("time.sleep(60) if")
    assert f"stuck in trouble.py:{sleeps} " in shown
    assert re.search(r"\((50|51) times\) < trouble\.py:\d+ recurses$", shown, re.MULTILINE)


def test_a_child_that_ignores_sigterm_is_said_to_have_been_ended_by_sigkill(trouble: Shell) -> None:
    _, shown = story(trouble, "stubborn")
    assert re.search(
        r"^kill     batch_deadline 0\.3 s \+ 0\.3 s grace, gone \d+ ms later, by SIGKILL; ",
        shown,
        re.MULTILINE,
    )
    assert re.search(
        rf"^stuck (in trouble\.py:{line_of('stubborn(job') + 3} stubborn|.*ignored SIGTERM, ended by SIGKILL"
        r" after its grace of 0\.3 s)$",
        shown,
        re.MULTILINE,
    )


def test_a_lander_that_raises_is_told_as_a_failure_at_its_own_line(trouble: Shell) -> None:
    ran, shown = story(trouble, "unlandable")
    for text in (ran, shown):
        assert "failed: OperationalError: the lander raised: no such table: nowhere" in text
        assert "stuck in" not in text
        assert "channel" not in text
    place = f"trouble.py:{line_of('# LANDER')} land_nowhere"
    assert f"raised at {place}   db.execute(" in shown
    assert shown.count(place) == 1


def test_a_row_of_the_wrong_type_is_told_as_a_failure(trouble: Shell) -> None:
    ran, shown = story(trouble, "wrong_row")
    assert "stuck in" not in ran + shown
    assert "kill  " not in shown
    assert "failed: row_type" in ran


def test_a_remedy_is_read_in_full(trouble: Shell) -> None:
    """K4: resume_mismatch tells what to do."""
    ran, shown = story(trouble, "changes")
    failed = next(line for line in ran.splitlines() if "resume_mismatch" in line)
    assert failed.endswith("laneway retry 1 --from-start; FAILED: supervisor show 1"), "it is not cut"
    status = trouble("status").out
    assert "1 job failed in all (#1: supervisor show 1; supervisor retry 1 --from-start); store" in status
    [error] = [line for line in shown.splitlines() if line.startswith("error    ")]
    assert error.endswith("then start the job over: laneway retry 1 --from-start")
    assert shown.endswith("         supervisor retry 1 --from-start\n"), "going on would differ again"


def test_a_long_message_of_many_lines_is_shown_whole_and_moves_no_cursor(trouble: Shell) -> None:
    _, shown = story(trouble, "tells")
    assert f"error    ValueError: first {'word ' * 100}".rstrip() in shown
    assert "\n         second line\n         \\x1b[2Jthird\nraised at trouble.py:" in shown
    assert 'log      "one line"\n' in shown


def test_an_attempt_under_way_survives_every_screen(trouble: Shell) -> None:
    trouble("enqueue", "lasts")
    with trouble.start("run", stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as supervisor:
        wait_for(lambda: facts(trouble)["landed"]["rows"])
        for words in ("show 1", "show 1 --full", "show 1 --json", "jobs", "jobs --json", "logs 1 --json"):
            done = trouble(*words.split())
            assert (done.code, done.err) == (0, ""), words
        silent = trouble("logs", "1")
        assert (silent.out, silent.err) == (
            "",
            "hint: job #1 runs; what it prints can be read when its attempt has ended\n",
        )
        supervisor.send_signal(signal.SIGKILL)
    dead = trouble("status")
    assert "WAS RUNNING 1 when the supervisor died" in dead.out
    assert "!  run 1 died; the next one recovers\n   next: supervisor run\n" in dead.out
    shown = trouble("show", "1").out
    assert "waits    was running when the supervisor died\n" in shown
    assert shown.endswith("next     supervisor run\n")


def test_a_stop_is_told_as_one_with_the_time_that_there_was_to_yield(trouble: Shell) -> None:
    """K9: interrupted, and what is shown of it is dated once the job has gone on."""
    trouble.write("supervisor.toml", 'app = "trouble.py"\nmax_workers = 1\n[defaults]\ngrace = 0.3\n')
    trouble("enqueue", "lasts")
    with trouble.start("run", stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as supervisor:
        wait_for(lambda: facts(trouble)["landed"]["rows"])
        supervisor.terminate()
        supervisor.communicate(timeout=20)
    shown = trouble("show", "1").out
    stopped = (
        r"^kill     its run stopped and it had not yielded within 0\.3 s, gone .* later; 1 process ended"
    )
    assert re.search(f"{stopped}, 0 survivors$", shown, re.MULTILINE)
    assert "SIGTERM" not in shown
    with trouble.start("run", stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as supervisor:
        wait_for(lambda: facts(trouble)["state"] == "running")
        earlier = r"^earlier  attempt 1, which ended at \d\d:\d\d:\d\d:\nkill     its run stopped"
        assert re.search(earlier, trouble("show", "1").out, re.MULTILINE)
        supervisor.terminate()
        supervisor.communicate(timeout=20)


def test_an_attempt_that_does_not_count_is_not_said_to_be_one_of_the_cap(trouble: Shell) -> None:
    """U5: the cap is on failures, and an interruption is none."""
    limits = "grace = 0.3\nmax_attempts = 1\n"
    trouble.write("supervisor.toml", f'app = "trouble.py"\nmax_workers = 1\n[defaults]\n{limits}')
    trouble("enqueue", "lasts")
    with trouble.start("run", stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as supervisor:
        wait_for(lambda: facts(trouble)["landed"]["rows"])
        supervisor.terminate()
        supervisor.communicate(timeout=20)
    trouble.write("supervisor.toml", f'app = "trouble.py"\n[defaults]\nbatch_deadline = 0.3\n{limits}')
    assert trouble("run", "--until-idle").code == 0
    assert "FAILED: no batch for 0.3 s, attempt 2, failure 1 of 1\n" in trouble("show", "1").out
    trouble("retry", "1")
    assert trouble("run", "--until-idle").code == 0
    assert "FAILED: no batch for 0.3 s, attempt 3 (1 of 1 since its retry)\n" in trouble("show", "1").out


def facts(shell: Shell) -> Any:
    return shell("show", "1", "--json").json
