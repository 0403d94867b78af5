"""What `retry` and `show` say of the next attempt: told from the job's row, not from what was asked."""

import pytest

from tests.cli.shell import Shell
from tests.cli.test_retry import HINT, STEPS, facts, fail, landed
from tests.supervisor.serving import MEASURED

MORE = """

bare = app.lane("bare", max_attempts=1, resume="restart")(compute)
bare.lander(land)


@app.lane("differs", max_attempts=1)
def differs(job, ctx):
    for n in range(3 if job.attempt == 1 else 300):
        yield n, job.attempt
    raise Fail("no")


differs.lander(land)
"""
STAY = "lane bare has no discard: the 3 rows that it has landed stay, unless its lander replaces them"
GOES = "the 3 rows that it has landed are discarded with its first new rows"
WITH_DISCARD = 'app.lane("steps", max_attempts=1)(compute).lander(land)'


@pytest.fixture
def steps(shell: Shell) -> Shell:
    """A folder with an application whose jobs fail half-way until the file `go` is there."""
    shell.write("steps.py", STEPS + MORE)
    shell.write("supervisor.toml", f'app = "steps.py"\nmax_workers = 1\n[defaults]\n{MEASURED}')
    return shell


def plan_of(shell: Shell, job: int = 1) -> str:
    [line] = [line for line in shell("show", str(job)).out.splitlines() if line.startswith("plan ")]
    return line.removeprefix("plan     ")


def test_a_restart_lane_without_a_discard_is_not_said_to_replace_anything(steps: Shell) -> None:
    """K4: its lander may, nobody else does; `--from-start` says the same and is accepted."""
    fail(steps, "bare")
    assert plan_of(steps) == f"when retried: starts over; {STAY}"
    assert steps("retry", "1").out == f"#1 queued again; starts over; {STAY}\n"
    done = steps("retry", "1", "--from-start")
    assert (done.code, done.out) == (0, f"#1 queued as before; starts over; {STAY}\n")
    assert plan_of(steps) == f"starts over; {STAY}"
    checked = steps("check")
    assert (checked.code, checked.err) == (
        0,
        "hint: lane bare restarts without a discard: its lander must replace rows\n",
    )


def test_a_plan_outlives_the_cancel_and_the_retry_that_come_after_it(steps: Shell) -> None:
    """K4: what a retry from the start asked for holds until rows land."""
    fail(steps, "forgetful")
    assert plan_of(steps) == "when retried: goes on after mark '3'"
    steps("retry", "1", "--from-start")
    assert plan_of(steps) == f"starts over; {GOES}"
    steps("cancel", "1")
    assert plan_of(steps) == f"when retried: starts over; {GOES}"
    assert steps("show", "1").out.endswith("next     supervisor retry 1\n"), "a cancelled job can be retried"
    assert steps("retry", "1").out == f"#1 queued again; starts over; {GOES}\n"
    assert facts(steps)["plan"] == {"starts_over": True, "text": f"starts over; {GOES}"}
    steps("cancel", "1")
    kept = steps("retry", "1", "--from-start", "--keep-rows")
    assert kept.out == "#1 queued again; starts over; the 3 rows that it has landed stay\n"
    steps.write("go", "")
    steps("skip", "1")
    assert "next " not in steps("show", "1").out, "a skipped job cannot"


def test_a_job_that_waits_changes_its_plan_where_it_stands(steps: Shell) -> None:
    """K4: after a plain retry of what had better started over."""
    fail(steps, "forgetful")
    assert steps("retry", "1").out == "#1 queued again; goes on after mark '3'\n"
    assert steps("retry", "1", "--from-start").out == f"#1 queued as before; starts over; {GOES}\n"
    assert [event["name"] for event in facts(steps)["events"]] == ["retried", "started_over"]
    steps.write("go", "")
    assert steps("run", "--until-idle").code == 0
    assert landed(steps) == [(n, 2) for n in range(6)]
    shown = steps("show", "1").out
    assert "\nlanded   6 rows, " in shown
    assert " batches (those of discarded rows, too); up to '6'\n" in shown


def test_batches_are_said_to_be_of_discarded_rows_only_where_some_were(steps: Shell) -> None:
    """U10: a lane that could discard has not done so because a job had two attempts."""
    fail(steps, "forgetful")
    assert steps("retry", "1").code == 0
    steps.write("go", "")
    assert steps("run", "--until-idle").code == 0
    assert [n for n, _ in landed(steps)] == list(range(6))
    shown = steps("show", "1").out
    assert "\nlanded   6 rows, " in shown
    assert "discarded" not in shown


def test_where_going_on_fails_again_the_way_out_is_a_fresh_start(steps: Shell) -> None:
    """K4: resume_mismatch, in every place that advises."""
    fail(steps, "differs")
    assert steps("retry", "1").err == HINT
    assert steps("run", "--until-idle").code == 0
    assert facts(steps)["attempts"][-1]["code"] == "resume_mismatch"
    over = "supervisor retry 1 --from-start"
    assert steps("show", "1").out.endswith(f"         {over}\n")
    assert f"(#1: supervisor show 1; {over})" in steps("status").out
    done = steps("retry", "1")
    assert done.out == "#1 queued again; goes on after 3 rows\n"
    assert done.lines == [
        "hint: #1: what came again was not what had landed (resume_mismatch);"
        f" while that is so, going on fails again; {over} starts over",
        HINT.strip(),
    ]
    kept = steps("retry", "1", "--from-start", "--keep-rows")
    assert (kept.out, kept.err) == (
        "#1 queued as before; starts over; the 3 rows that it has landed stay\n",
        HINT,
    )


def test_a_discard_that_a_lane_has_got_since_is_declared_by_a_run_or_by_the_retry(steps: Shell) -> None:
    """K4, K7: as `enqueue --app` does."""
    fail(steps, "steps", "steps")
    assert "start laneway run once (an idle one will do), or pass --app" in steps.refused(
        "retry", "1", "--from-start", code=1
    )
    better = STEPS.replace(WITH_DISCARD, 's = app.lane("steps", max_attempts=1)(compute)\ns.lander(land)')
    steps.write("steps.py", f"{better}\ns.discard(discard)\n")
    assert steps("retry", "1", "--from-start").code == 1, "nobody has declared it"
    done = steps("retry", "1", "--from-start", "--app", "steps.py")
    assert done.out == f"#1 queued again; starts over; {GOES}\n"
    assert done.err == HINT.replace("run\n", "run --app steps.py\n")
    assert steps("retry", "2", "--from-start").code == 0, "now the store knows"


def test_failed_and_a_state_exclude_each_other(steps: Shell) -> None:
    said = steps.refused("retry", "--failed", "--state", "cancelled", code=2)
    assert said == "--failed and --state exclude each other; --state may be repeated"
