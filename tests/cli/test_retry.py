"""`supervisor retry`: what failed or was cancelled goes on, or starts over, and each job says which."""

import subprocess
from typing import Any

import pytest

from supervisor.lock import is_live
from tests.cli.shell import Shell
from tests.supervisor.serving import MEASURED, wait_for

STEPS = """
from pathlib import Path

from supervisor import App, Fail

app = App("steps")
app.migration(1, "CREATE TABLE steps (job INT, n INT, attempt INT, PRIMARY KEY (job, n)) WITHOUT ROWID")


def compute(job, ctx):
    for n in range(int(ctx.resume or 0), 6):
        if n == 3 and not Path(job.payload["go"]).exists():
            raise Fail("the world is not ready")
        yield n, job.attempt
        ctx.checkpoint(str(n + 1))
    return {"steps": 6}


def land(db, job, rows):
    db.executemany(f"INSERT INTO steps VALUES ({job.id}, ?, ?)", rows)


def discard(db, job):
    db.execute("DELETE FROM steps WHERE job = ?", (job.id,))


def compute_over(job, ctx):
    return compute(job, ctx)


def fails_softly(job, ctx):
    yield from ()
    raise Fail("nobody needs it", optional=True)


app.lane("steps", max_attempts=1)(compute).lander(land)
app.lane("optional", max_attempts=1)(fails_softly).lander(land)
forgetful = app.lane("forgetful", max_attempts=1)(compute)
forgetful.lander(land)
forgetful.discard(discard)
over = app.lane("over", max_attempts=1, resume="restart")(compute)
over.lander(land)
over.discard(discard)
"""


@pytest.fixture
def steps(shell: Shell) -> Shell:
    """A folder with an application whose jobs fail half-way until the file `go` is there."""
    shell.write("steps.py", STEPS)
    shell.write("supervisor.toml", f'app = "steps.py"\nmax_workers = 1\n[defaults]\n{MEASURED}')
    return shell


def fail(shell: Shell, *kinds: str) -> None:
    """Enqueue a job of each kind and run them until they fail."""
    for kind in kinds:
        assert shell("enqueue", kind, f'{{"go": "{shell.folder / "go"}"}}').code == 0
    assert shell("run", "--until-idle").code == 0


def landed(shell: Shell, job: int = 1) -> list[tuple[int, int]]:
    from landing.snapshot import snapshot

    with snapshot(shell.home) as db:
        return db.execute("SELECT n, attempt FROM steps WHERE job = ? ORDER BY n", (job,)).fetchall()


def facts(shell: Shell, job: int = 1) -> Any:
    return shell("show", str(job), "--json").json


HINT = "hint: queued; no supervisor runs here, start one: supervisor run\n"


def test_a_failed_job_goes_on_after_its_last_mark_with_all_attempts_before_it(steps: Shell) -> None:
    """A33, A35, U5, K4: it is queued across restarts, and every row is there once."""
    fail(steps, "steps")
    assert facts(steps)["state"] == "failed"
    done = steps("retry", "1")
    assert (done.code, done.out, done.err) == (0, "#1 queued again; goes on after mark '3'\n", HINT)
    assert (facts(steps)["state"], facts(steps)["failures"], facts(steps)["result"]) == ("queued", 0, None)
    assert steps("run", "--until-idle").code == 0
    assert facts(steps)["state"] == "failed", (
        "its cap is the attempts so far and as many as its kind may have"
    )
    assert [one["number"] for one in facts(steps)["attempts"]] == [1, 2]
    shown = steps("show", "1").out
    assert "FAILED: Fail: the world is not ready, attempt 2 (1 of 1 since its retry)\n" in shown
    steps.write("go", "")
    assert steps("resume", "1").code == 0
    assert steps("run", "--until-idle").code == 0
    assert (facts(steps)["state"], facts(steps)["result"]) == ("done", {"steps": 6})
    assert landed(steps) == [(0, 1), (1, 1), (2, 1), (3, 3), (4, 3), (5, 3)]


def test_a_running_supervisor_is_woken_by_a_retry(steps: Shell) -> None:
    """K10: the doorbell rings after the commit."""
    fail(steps, "steps")
    steps.write("go", "")
    with steps.start("run", stdin=subprocess.DEVNULL) as supervisor:
        wait_for(lambda: is_live(steps.home))
        wait_for(lambda: steps("status", "--json").json["supervisor"]["state"] == "up")
        done = steps("retry", "1", "--json")
        assert (done.code, done.json, done.err) == (0, [{"id": 1, "state": "queued"}], "")
        assert steps("wait", "1", "--timeout", "20").out == "#1 done\n"
        supervisor.terminate()
        supervisor.communicate(timeout=20)


def test_starting_over_needs_a_discard_or_the_word_that_rows_may_stay(steps: Shell) -> None:
    """K4: discard_missing; and what is discarded goes with what lands first."""
    fail(steps, "steps", "forgetful", "over")
    steps.write("go", "")
    refused = steps.refused("retry", "1", "--from-start", code=1)
    assert refused.startswith("job #1 has rows that landed (3), and lane 'steps' has no discard")
    assert facts(steps)["state"] == "failed", "a refused retry changes nothing"
    done = steps("retry", "2", "--from-start")
    over = "starts over; the 3 rows that it has landed are discarded with its first new rows"
    assert done.out == f"#2 queued again; {over}\n"
    assert landed(steps, 2) == [(0, 1), (1, 1), (2, 1)], "not before that"
    assert steps("retry", "3").out == f"#3 queued again; {over}\n"
    assert steps("run", "--until-idle").code == 0
    for job in (2, 3):
        assert landed(steps, job) == [(n, 2) for n in range(6)]


def test_rows_that_may_stay_stay(steps: Shell) -> None:
    """K4: --keep-rows."""
    fail(steps, "steps")
    assert "--from-start" in steps.refused("retry", "1", "--keep-rows", code=2)
    done = steps("retry", "1", "--from-start", "--keep-rows")
    assert done.out == "#1 queued again; starts over; the 3 rows that it has landed stay\n"
    assert (facts(steps)["landed"]["mark"], len(landed(steps))) == (None, 3)
    assert "retried  " in steps("show", "1").out
    assert steps("show", "1").out.splitlines()[3].endswith(", from the start, rows kept")


def test_each_job_that_cannot_be_retried_is_named_and_the_others_are(steps: Shell) -> None:
    """A33: only what failed or was cancelled."""
    fail(steps, "steps", "steps")
    steps.write("go", "")
    fail(steps, "steps")
    steps("enqueue", "steps")
    done = steps("retry", "1", "3", "4", "9", "2", "--json")
    assert done.code == 1
    assert done.json == [{"id": 1, "state": "queued"}, {"id": 2, "state": "queued"}]
    assert done.lines[:3] == [
        "error: job #3 is done and cannot be retried: it is over, enqueue it anew",
        "error: job #4 is queued and cannot be retried: it waits already (--from-start has it start over)",
        "error: no job #9",
    ]


def test_all_that_failed_are_retried_at_once_and_nothing_that_was_cancelled(steps: Shell) -> None:
    fail(steps, "steps", "steps", "forgetful", "steps")
    steps("cancel", "4")
    assert "retry --failed" in steps("status").out
    assert steps("retry", "--failed", "--kind", "forgetful").out.startswith("#3 queued again; ")
    done = steps("retry", "--failed")
    assert [line.split()[0] for line in done.out.splitlines()] == ["#1", "#2"]
    assert steps("retry", "--failed").err == "hint: no job matches\n"
    assert steps("retry", "--state", "cancelled").out.startswith("#4 queued again; goes on after")
    assert "'done' is not one of" in steps.refused("retry", "--state", "done", code=2)


def test_a_job_that_was_retried_says_so_and_how_often(steps: Shell) -> None:
    """A30: the story of a job tells what people did with it."""
    fail(steps, "steps")
    for _ in range(2):
        steps("retry", "1")
        steps("cancel", "1")
    assert [event["name"] for event in facts(steps)["events"]].count("retried") == 2
    [line] = [line for line in steps("show", "1").out.splitlines() if line.startswith("retried")]
    assert line.endswith(" (2 times in all)")


def test_an_optional_failure_is_told_as_one_and_can_be_retried(steps: Shell) -> None:
    """A31, A33."""
    fail(steps, "optional")
    assert facts(steps)["state"] == "failed_optional"
    assert steps("show", "1").out.startswith("#1 optional ")
    assert "   FAILED (OPTIONAL): Fail: nobody needs it, attempt 1 of 1\n" in steps("show", "1").out
    assert steps("show", "1").out.endswith("         supervisor retry 1\n")
    assert "   failed (optional)   " in steps("jobs").out
    waited = steps("wait", "1")
    assert (waited.code, waited.out) == (1, "#1 failed (optional): Fail: nobody needs it\n")
    assert steps("retry", "--failed").out == "#1 queued again; starts from the beginning\n"
