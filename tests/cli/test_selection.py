"""Which jobs a command means: ids, or all that its filters match, a few hundred at a time."""

import json

import pytest

from landing.errors import StoreBusy
from policies.job import State
from supervisor.cli.selection import TOGETHER, Answer, Selection, carry_out
from supervisor.client import Client
from supervisor.client.change import change_each
from tests.cli.shell import Shell


@pytest.mark.parametrize("command", ["cancel", "skip", "retry"])
def test_a_command_that_names_no_job_is_a_usage_error(command: str, project: Shell) -> None:
    """K15: exit 2 before anything is looked at."""
    assert project.refused(command, code=2) == "which jobs? Name ids, or say which by --state, --kind, --tag"
    assert project.refused(command, "1", "--kind", "square", code=2).startswith("ids and filters exclude")
    assert project.refused(command, "1", code=1).startswith("no store in ")


def test_a_selection_is_carried_out_page_by_page_and_leaves_all_others_alone(project: Shell) -> None:
    """A34, U24: skip takes what waits."""
    many = 2 * TOGETHER + 7
    project("enqueue", "square", "--lines", "-", "--tag", "night", stdin=b'{"count": 1}\n' * many)
    project("enqueue", "square", "--tag", "day")
    project("enqueue", "sleepy", "--tag", "night")
    done = project("skip", "--tag", "night", "--kind", "square", "--json")
    assert done.code == 0
    assert [one["id"] for one in done.json] == list(range(1, many + 1))
    assert {one["state"] for one in done.json} == {"skipped"}
    assert project("status", "--json").json["jobs"] == {"queued": 2, "skipped": many}
    again = project("skip", "--tag", "night", "--kind", "square", "--json")
    assert (again.code, again.json, again.err) == (0, [], "hint: no job matches\n")


def test_a_cancel_by_selection_takes_what_has_not_ended_unless_told_otherwise(project: Shell) -> None:
    """A32."""
    project("enqueue", "square", "--lines", "-", stdin=b"{}\n")
    project("run", "--until-idle")
    project("enqueue", "square", "--lines", "-", stdin=b"{}\n{}\n")
    assert project("cancel", "--kind", "square").out.splitlines() == [
        "#2 cancelled; it had not started",
        "#3 cancelled; it had not started",
    ]
    assert project("cancel", "--state", "failed").out == "#1 cancelled; it was not running\n"
    assert "'done' is not one of" in project.refused("cancel", "--state", "done", code=2)


def test_skipping_is_for_jobs_that_wait(project: Shell) -> None:
    """A34, A35."""
    project("enqueue", "square", "--lines", "-", stdin=b"{}\n{}\n")
    assert project("skip", "1").out == "#1 skipped\n"
    assert project("skip", "1").out == "#1 skipped\n"
    project("run", "--until-idle")
    done = project("skip", "2", "1", "7")
    assert (done.code, done.out) == (1, "#1 skipped\n")
    assert done.lines == [
        "error: job #2 is failed and cannot be skipped: it does not wait any more",
        "error: no job #7",
    ]
    assert project("show", "1").out.splitlines()[0] == "#1 square {}   skipped"
    assert project("jobs", "--state", "skipped").out.splitlines()[1].split()[2] == "skipped"


def test_an_error_half_way_says_what_was_done_and_leaves_json_that_can_be_read(
    project: Shell, capsys: pytest.CaptureFixture[str]
) -> None:
    """A4: the store's error stands; what was committed before it is not taken back."""
    project("enqueue", "square", "--lines", "-", stdin=b"{}\n" * (TOGETHER + 1))
    client = Client(project.home)
    chunks: list[int] = []

    def act(ids: list[int]) -> list[Answer]:
        chunks.append(len(ids))
        if len(chunks) > 1:
            raise StoreBusy("store", "locked for too long")
        return [Answer({"id": one.id, "state": one.state}, "") for one in client.skip_many(ids)]

    with pytest.raises(StoreBusy):
        carry_out(client, Selection((), (State.QUEUED,), "square", None), act, as_json=True)
    out, err = capsys.readouterr()
    assert (chunks, len(json.loads(out))) == ([TOGETHER, 1], TOGETHER)
    assert err == f"hint: {TOGETHER} jobs done before this; the same command goes on with the others\n"


def test_one_that_is_refused_holds_up_none_of_the_others(project: Shell) -> None:
    """A2: each of them is a transaction of its own then."""
    from landing.skip import Skip, Skipped

    project("enqueue", "square", "--lines", "-", stdin=b"{}\n{}\n")
    answers = change_each(project.home, [Skip(1), Skip(5), Skip(2)])
    assert [answers[0], answers[2]] == [Skipped(1, "skipped"), Skipped(2, "skipped")]
    assert str(answers[1]) == "no job #5"


@pytest.mark.parametrize("command", ["show", "logs", "wait", "cancel", "retry", "skip"])
def test_an_id_is_a_number_or_what_lines_name_it_by(command: str, project: Shell) -> None:
    """K15: ids are ascending integers."""
    said = project.refused(command, "3-5", code=2)
    assert "'3-5' is no job id; write 7 or '#7'; supervisor" in said
    for wrong in ("0", "#", "##1", "1.5", "٣", "9" * 30):
        assert "is no job id" in project.refused(command, wrong, code=2), wrong


def test_one_job_that_is_named_twice_is_taken_once(project: Shell) -> None:
    project("enqueue", "square", "--lines", "-", stdin=b"{}\n{}\n")
    assert project("show", "#1").out.startswith("#1 square")
    assert project("skip", "#2", "2", "1", "02").out == "#2 skipped\n#1 skipped\n"
    assert project("jobs", "--before", "#2").out.splitlines()[1].startswith("1 ")
