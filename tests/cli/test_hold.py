"""`supervisor hold` and `unhold`: jobs, whatever filters match, or a whole kind."""

import signal

import pytest

from policies.gates.quiet import clock
from supervisor.sensors import local_minute
from tests.cli.shell import Shell
from tests.cli.test_commands import wait_for

HELD_KIND = "kind square is held: the disk is full"


@pytest.mark.parametrize("command", ["hold", "unhold"])
def test_a_command_that_names_no_job_is_a_usage_error(command: str, project: Shell) -> None:
    """K15: exit 2 before anything is looked at."""
    assert project.refused(command, code=2).startswith("which jobs? Name ids")
    assert project.refused(command, "1", "--kind", "square", code=2).startswith("ids and filters exclude")
    assert project.refused(command, "1", code=1).startswith("no store in ")
    assert project.refused(command, "--kind", "square", code=1).startswith("no store in ")
    assert "is no job id" in project.refused(command, "x", code=2)
    assert "'done' is not " in project.refused(command, "--state", "done", code=2)


def test_jobs_are_held_and_let_go_by_id(project: Shell) -> None:
    """U27: a mixed list does what it can; twice is once."""
    project("enqueue", "square", "--lines", "-", stdin=b"1\n2\n3\n")
    project("skip", "2")
    done = project("hold", "1", "#2", "3", "9")
    assert (done.code, done.out) == (1, "#1 held\n#3 held\n")
    assert done.lines == [
        "error: job #2 is skipped and cannot be held: it does not wait any more",
        "error: no job #9",
    ]
    assert project("hold", "1").out == "#1 held already\n"
    assert project("hold", "1", "--json").json == [
        {"id": 1, "state": "pending", "held": True, "changed": False}
    ]
    let_go = project("unhold", "3", "1", "2")
    assert (let_go.code, let_go.out) == (0, "#3 queued\n#1 queued\n#2 skipped; it was not held\n")
    assert project("unhold", "1", "--json").json == [
        {"id": 1, "state": "queued", "held": False, "changed": False}
    ]


def test_filters_hold_what_waits_and_let_go_what_is_held(project: Shell) -> None:
    """U27: what waits for something else is passed over."""
    project("enqueue", "square", "--lines", "-", "--tag", "night", stdin=b"1\n2\n")
    project("enqueue", "sleepy", "--tag", "night")
    project("enqueue", "square")
    assert project("hold", "--tag", "night", "--kind", "square").out == "#1 held\n#2 held\n"
    assert project("hold", "--state", "queued").out == "#3 held\n#4 held\n"
    assert project("unhold", "--tag", "night").out == "#1 queued\n#2 queued\n#3 queued\n"
    nothing = project("unhold", "--tag", "night", "--json")
    assert (nothing.code, nothing.json, nothing.err) == (0, [], "hint: no job matches\n")
    assert project("unhold", "--state", "pending").out == "#4 queued\n"


def test_a_held_job_is_held_wherever_it_is_shown(project: Shell) -> None:
    """Promise 7: and the command that lets it go."""
    project("enqueue", "square")
    project("hold", "1")
    shown = project("show", "1").out.splitlines()
    assert shown[0] == "#1 square {}   pending: held"
    assert shown[-4:] == [
        "waits    held",
        "waits    no supervisor runs here",
        "next     supervisor unhold 1",
        "         supervisor run",
    ]
    [job] = project("jobs", "--json").json
    assert (job["state"], job["reason"]) == ("pending", "held")
    assert project("jobs").out.splitlines()[1].split()[-2:] == ["held", "{}"]
    [waiting] = project("status", "--json").json["waiting"]
    assert (waiting["kind"], waiting["jobs"], waiting["reason"]) == ("square", 1, "held")


def test_a_held_job_is_run_by_nobody_until_it_is_let_go(project: Shell) -> None:
    """U27: a run that was asked to end when nothing may run ends, and says what waits."""
    project("enqueue", "square", "--lines", "-", stdin=b'{"count": 1}\n{"count": 1}\n')
    project("hold", "1")
    project("run", "--until-idle")
    assert [job["state"] for job in project("jobs", "--json").json] == ["done", "pending"]
    project("unhold", "1")
    project("run", "--until-idle")
    assert project("show", "1", "--json").json["state"] == "done"


def test_a_kind_is_held_with_what_is_to_come(project: Shell) -> None:
    """U27, K14: its jobs stay queued, and each says why it waits."""
    project("enqueue", "square")
    assert project("hold", "--kind", "square", "--why", "the disk is full").out == "kind square held\n"
    assert (
        project("hold", "--kind", "square", "--why", "the disk is full").out == "kind square held already\n"
    )
    project("enqueue", "square")
    shown = project("show", "2").out.splitlines()
    assert shown[0] == "#2 square {}   queued"
    assert shown[-4:] == [
        f"waits    {HELD_KIND}",
        "waits    no supervisor runs here",
        "next     supervisor unhold --kind square",
        "         supervisor run",
    ]
    assert project("unhold", "--kind", "square").out == "kind square let go\n"
    assert project("unhold", "--kind", "square").out == "kind square was not held\n"
    assert project("show", "2", "--json").json["waits"][0]["reason"] == "no_supervisor"


def test_a_kind_is_told_as_json(project: Shell) -> None:
    """K15."""
    project("enqueue", "square")
    held = {"kind": "square", "held": True, "changed": True, "running": []}
    assert project("hold", "--kind", "square", "--json").json == [held]
    assert project("hold", "--kind", "square", "--json").json == [held | {"changed": False}]
    assert project("status", "--json").json["held_kinds"] == [{"kind": "square", "why": ""}]
    assert project("show", "1", "--json").json["waits"][0] == {
        "reason": "kind_held",
        "text": "kind square is held",
        "until": None,
    }
    let_go = {"kind": "square", "held": False, "changed": True, "running": []}
    assert project("unhold", "--kind", "square", "--json").json == [let_go]
    assert project("status", "--json").json["held_kinds"] == []


def test_a_kind_that_nobody_declared_is_refused_with_a_suggestion(project: Shell) -> None:
    """K7."""
    project("enqueue", "square")
    for command in ("hold", "unhold"):
        line = project.refused(command, "--kind", "squrae", code=2)
        assert line.startswith('unknown kind "squrae" (did you mean "square"?); kinds here: ')
    line = project.refused("hold", "1", "--why", "later", code=2)
    assert line == "--why goes with --kind alone, which holds the whole kind"
    assert project.refused("hold", "--kind", "square", "--why", "a\nb", code=2).startswith("why must be")


def test_letting_a_kind_go_names_the_command_for_those_held_by_hand(project: Shell) -> None:
    """U27: two holds are two."""
    project("enqueue", "square", "--lines", "-", stdin=b"1\n2\n")
    project("hold", "--kind", "square")
    project("hold", "2")
    done = project("unhold", "--kind", "square")
    command = "supervisor unhold --kind square --state pending"
    said = f"hint: 1 job of it held by hand, not with the kind; {command} lets go of all that are"
    assert (done.out, done.lines) == ("kind square let go\n", [said])
    assert project(*command.split()[1:]).out == "#2 queued\n"


def test_a_running_job_is_not_held_and_runs_on_when_its_kind_is(project: Shell) -> None:
    """U1, K14: the line says what to do instead; a running supervisor heeds the hold at once."""
    project("enqueue", "sleepy", '{"seconds": 60}')
    run = project.start("run")
    try:
        wait_for(lambda: project("show", "1", "--json").json["state"] == "running")
        line = project.refused("hold", "1", code=1)
        assert line == "job #1 is running and cannot be held: cancel it, or hold its kind"
        done = project("hold", "--kind", "sleepy", "--why", "too loud")
        assert done.out == "kind sleepy held; #1 runs on\n"
        project("enqueue", "sleepy", '{"seconds": 60}')
        project("enqueue", "square", '{"count": 1}')
        project("wait", "3")
        job = project("show", "2", "--json").json
        assert (job["state"], job["waits"]) == (
            "queued",
            [{"reason": "kind_held", "text": "kind sleepy is held: too loud", "until": None}],
        )
        project("unhold", "--kind", "sleepy")
        wait_for(lambda: project("show", "2", "--json").json["state"] == "running")
    finally:
        run.send_signal(signal.SIGINT)
        run.send_signal(signal.SIGINT)
        run.communicate(timeout=30)


def test_a_job_behind_a_closed_gate_says_which(project: Shell) -> None:
    """U27, K14: as the running supervisor tells it."""
    settings = (project.folder / "supervisor.toml").read_text("utf-8")
    start, end = (clock((local_minute() + minutes) % 1440) for minutes in (-60, 180))
    gates = f'[kinds.square]\ngates = ["quiet"]\n[gates]\nquiet = ["{start}-{end}"]\n'
    project.write("supervisor.toml", settings + gates)
    project("enqueue", "square")
    run = project.start("run")
    try:
        waits = wait_for(
            lambda: [w for w in project("show", "1", "--json").json["waits"] if w["reason"] == "quiet"]
        )
        assert waits == [{"reason": "quiet", "text": "quiet hours", "until": end}]
        assert project("show", "1").out.splitlines()[-1] == f"waits    quiet hours until {end}"
    finally:
        run.send_signal(signal.SIGINT)
        run.communicate(timeout=30)
