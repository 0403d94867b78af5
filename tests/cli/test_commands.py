"""What the commands print and answer, with real runs between them."""

import json
import re
import subprocess
import time
from pathlib import Path
from typing import Any

from supervisor.lock import is_live
from tests.cli.shell import Done, Shell

ATTEMPT = {
    *("number", "started_at", "finished_at", "outcome", "error", "exit", "kill", "world", "spent", "log"),
}
HINT = "hint: queued; no supervisor runs here, start one: supervisor run\n"


def wait_for(fact: Any, seconds: float = 20.0) -> Any:
    """Return the first truth that `fact` gives; fail when there is none in time."""
    until = time.monotonic() + seconds
    while not (got := fact()):
        assert time.monotonic() < until, "it never happened"
        time.sleep(0.02)
    return got


def test_enqueue_prints_the_id_and_hints_that_nobody_runs(project: Shell) -> None:
    """K15: --json is {id, outcome}."""
    done = project("enqueue", "square", '{"count": 3}')
    assert (done.code, done.out, done.err) == (0, "1\n", HINT)
    done = project("enqueue", "square", "-", "--json", stdin=b'{"count": 4}')
    assert (done.json, done.err) == ({"id": 2, "outcome": "created"}, HINT)
    assert project("show", "2", "--json").json["payload"] == {"count": 4}
    assert project("enqueue", "sleepy").code == 0
    assert project("show", "3", "--json").json["payload"] == {}


def test_enqueue_takes_a_file_of_lines_in_one_go(project: Shell) -> None:
    project.write("lines.json", '{"count": 1}\n\n{"count": 2}\n')
    assert project("enqueue", "square", "--lines", "lines.json").out == "1\n2\n"
    done = project("enqueue", "square", "--lines", "-", "--json", stdin=b"[1]\n[2]")
    assert done.json == [{"id": 3, "outcome": "created"}, {"id": 4, "outcome": "created"}]
    assert "exclude each other" in project.refused("enqueue", "square", "{}", "--lines", "-", code=2)


def test_a_jobs_own_limits_are_kept_in_seconds(project: Shell) -> None:
    """K5."""
    words = (
        "--priority",
        "3",
        "--tag",
        "night",
        "--batch-deadline",
        "2m",
        "--start-deadline",
        "1.5",
        "--job-deadline",
        "1h",
    )
    assert project("enqueue", "square", *words).code == 0
    job = project("show", "1", "--json").json
    assert (job["priority"], job["tag"]) == (3, "night")
    assert job["limits"] == {"batch_deadline": 120, "start_deadline": 1.5, "job_deadline": 3600}


def test_a_jobs_own_memory_limit_is_kept_in_bytes(project: Shell) -> None:
    """K5, K13: a number and a text mean the same, and 0 is off for this job."""
    for text in ("2GB", "2000000000", "0"):
        assert project("enqueue", "square", "--memory-limit", text).code == 0
    limits = [project("show", job, "--json").json["limits"] for job in ("1", "2", "3")]
    assert limits == [{"memory_limit": 2 * 10**9}, {"memory_limit": 2 * 10**9}, {"memory_limit": 0}]


def test_the_store_is_found_from_below_and_named_by_flag_or_variable(project: Shell) -> None:
    project("enqueue", "square")
    below = Shell(project.folder / "below")
    below.folder.mkdir()
    assert len(below("jobs", "--json").json) == 1
    elsewhere = Shell(project.folder)
    assert elsewhere("jobs", "--home", str(project.home), "--json").json[0]["id"] == 1
    assert below("jobs", "--json", env={"LANEWAY_HOME": str(project.home)}).json[0]["id"] == 1
    assert elsewhere.refused("jobs", "--home", "nowhere", code=1).startswith("no store in")


def test_jobs_are_listed_newest_first_with_the_next_page(project: Shell) -> None:
    project("enqueue", "square", "--lines", "-", stdin=b'{"count": 1}\n' * 5)
    project("cancel", "2")
    lines = project("jobs", "--limit", "2").out.splitlines()
    assert lines[0].split() == ["ID", "KIND", "STATE", "AGE", "ROWS", "WHY", "PAYLOAD"]
    assert [line.split()[0] for line in lines[1:3]] == ["5", "4"]
    assert lines[3] == "more: supervisor jobs --before 4"
    assert [job["id"] for job in project("jobs", "--before", "4", "--json").json] == [3, 2, 1]
    [job] = project("jobs", "--state", "cancelled", "--json").json
    assert (job["id"], job["state"], job["reason"]) == (2, "cancelled", "cancelled")
    assert project("jobs", "--kind", "moody").out == "no jobs\n"
    assert [job["payload"] for job in project("jobs", "--limit", "1", "--json").json] == [{"count": 1}]
    assert "'sleeping'" in project.refused("jobs", "--state", "sleeping", code=2)


def test_jobs_are_found_by_their_tag(project: Shell) -> None:
    for tag in ("day", "night", "night", "day"):
        project("enqueue", "square", "--tag", tag)
    assert [job["id"] for job in project("jobs", "--tag", "night", "--json").json] == [3, 2]
    page = project("jobs", "--tag", "night", "--limit", "1").out.splitlines()
    assert page[-1] == "more: supervisor jobs --tag night --before 3"
    assert project("jobs", "--tag", "none").out == "no jobs\n"
    assert project("show", "2").out.startswith("#2 square [night] {}   queued")


def test_a_run_until_idle_lands_what_was_queued_and_says_so(project: Shell) -> None:
    """C122, C124."""
    project("enqueue", "square", '{"count": 1000}')
    done = project("run", "--until-idle")
    assert (done.code, done.err) == (0, "")
    lines = [line.split("  ", 1)[-1] for line in done.out.splitlines()]
    assert re.fullmatch(r"laneway up: run 1, pid \d+, 2 workers, .*squares\.py:app", lines[0])
    assert lines[1:] == ["#1 square started", "#1 square done: 1,000 rows", "idle: 1 done, 0 failed"]


def test_show_tells_a_finished_jobs_story(project: Shell) -> None:
    """DESIGN section 7: show --json."""
    project("enqueue", "square", '{"count": 300}')
    project("run", "--until-idle")
    job = project("show", "1", "--json").json
    names = "id key kind state reason priority tier payload result waits attempts landed events"
    assert job.keys() >= set(names.split())
    assert (job["state"], job["result"], job["landed"]["rows"], job["waits"]) == (
        "done",
        {"last": 299},
        300,
        [],
    )
    [attempt] = job["attempts"]
    assert attempt.keys() >= ATTEMPT
    assert (attempt["number"], attempt["outcome"], attempt["error"], attempt["kill"]) == (
        1,
        "done",
        None,
        None,
    )
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}\+00:00", attempt["finished_at"])
    lines = project("show", "1").out.splitlines()
    assert lines[0] == '#1 square {"count": 300}   done'
    assert lines[1].startswith("landed   300 rows, ")
    assert 'result   {"last": 299}' in lines
    assert project("logs", "1").out == "counted to 300\n"
    assert project("logs", "1", "--json").json == {"id": 1, "log": "counted to 300\n"}


def test_show_names_the_line_where_a_killed_job_was_stuck(project: Shell) -> None:
    """Promise 1: where, who survived, how long it took."""
    project("enqueue", "runaway")
    done = project("run", "--until-idle", "--strict")
    assert done.code == 1
    assert "killed: no batch for 0.3 s, stuck in re/__init__.py:" in done.out
    text = (project.folder / "squares.py").read_text().splitlines()
    line = next(n for n, code in enumerate(text, 1) if "re.match" in code)
    shown = project("show", "1").out
    assert "FAILED: no batch for 0.3 s, attempt 1 of 1" in shown
    assert re.search(
        rf"^stuck in re/__init__\.py:\d+ match < squares\.py:{line} runaway$", shown, re.MULTILINE
    )
    assert re.search(
        r"^kill     batch_deadline 0\.3 s, gone \d+ ms later, within its grace of 0\.5 s; "
        r"1 process ended, 0 survivors$",
        shown,
        re.MULTILINE,
    )
    assert ", 0 survivors, gone in " in done.out
    assert shown.endswith("next     supervisor show 1 --full\n         supervisor retry 1\n")
    assert "Current thread" in project("show", "1", "--full").out
    [attempt] = project("show", "1", "--json").json["attempts"]
    assert attempt["kill"].keys() >= {"deadline_s", "grace_s", "took_ms", "stack", "ended", "survivors"}
    assert attempt["world"].keys() == {"spawn", "kill", "shield", "network", "limits"}
    assert re.search(r"^world    (template|cold) child, ", shown, re.MULTILINE)
    assert attempt["exit"]["signal"] == 15
    failed = project("status")
    assert (
        "last hour: 1 attempt ended, 1 timed_out; 1 job failed in all (#1: supervisor show 1;" in failed.out
    )
    assert "; supervisor retry --failed); store" in failed.out
    assert "--strict" not in failed.out
    strict = project("status", "--strict")
    assert (strict.code, strict.out.splitlines()[1]) == (1, "!  1 job failed (--strict)")


def test_show_says_why_a_job_waits_and_what_to_do(project: Shell) -> None:
    project("enqueue", "square")
    job = project("show", "1", "--json").json
    wait = {"reason": "no_supervisor", "text": "no supervisor runs here", "until": None}
    assert job["waits"] == [wait]
    assert project("show", "1").out.splitlines()[-2:] == [
        "waits    no supervisor runs here",
        "next     supervisor run",
    ]


def test_an_exception_is_shown_with_the_line_that_raised(project: Shell) -> None:
    """C123."""
    project("enqueue", "square", "{}")
    project("run", "--until-idle")
    lines = project("show", "1").out.splitlines()
    assert lines[0].startswith("#1 square {}   FAILED: KeyError: ")
    source = re.escape('for n in range(job.payload["count"]):')
    assert re.fullmatch(rf"raised at squares\.py:\d+ square   {source}", lines[-3])
    assert lines[-2:] == ["next     supervisor show 1 --full", "         supervisor retry 1"]
    assert "Traceback (most recent call last):" in project("show", "1", "--full").out
    assert project("logs", "1") == Done(0, "", "hint: job #1 has printed nothing\n")


def test_cancel_says_what_was_verified(project: Shell) -> None:
    """K6."""
    project("enqueue", "square")
    assert project("cancel", "1").out == "#1 cancelled; it had not started\n"
    done = project("cancel", "1", "9", "--json")
    assert (done.code, done.json, done.err) == (1, [{"id": 1, "state": "cancelled"}], "error: no job #9\n")


def test_cancel_waits_until_a_running_job_is_gone(project: Shell) -> None:
    """K6: the receipt is there when the command returns."""
    project("enqueue", "sleepy", '{"seconds": 60}')
    with project.start("run", stdin=subprocess.DEVNULL) as supervisor:
        wait_for(lambda: project("show", "1", "--json").json["landed"]["rows"])
        up = project("status", "--json").json
        assert (up["healthy"], up["supervisor"]["state"], up["supervisor"]["pid"]) == (
            True,
            "up",
            supervisor.pid,
        )
        assert (
            up["running"][0].items()
            >= {"id": 1, "kind": "sleepy", "rows": 1, "batches": 1, "attempt": 1}.items()
        )
        assert "RUNNING 1" in project("status").out
        assert project("cancel", "1").out == "#1 cancelled, its process is gone\n"
        [attempt] = project("show", "1", "--json").json["attempts"]
        assert attempt["outcome"] == "cancelled"
        assert (
            project.refused("run", code=3)
            == f"another supervisor holds {project.home}; supervisor status tells which"
        )
        supervisor.terminate()
        out, err = supervisor.communicate(timeout=20)
    assert (supervisor.returncode, err) == (0, b"")
    assert b"stopped: 0 done, 0 failed" in out


def test_a_run_prints_json_lines_when_asked(project: Shell) -> None:
    project("enqueue", "square", '{"count": 2}')
    done = project("run", "--until-idle", "--json")
    events = [json.loads(line) for line in done.out.splitlines()]
    names = [event["event"] for event in events]
    assert list(dict.fromkeys(names)) == [
        "RunStarted",
        "JobStarted",
        "BatchLanded",
        "AttemptEnded",
        "RunEnded",
    ]
    assert events[-2]["state"] == "done"
    assert events[-1].items() >= {"ended": "idle", "done": 1, "failed": 0, "left": 0}.items()


def test_a_run_until_idle_says_what_still_waits_and_why(project: Shell) -> None:
    """K14, C120: kind_not_loaded."""
    project("enqueue", "square", '{"count": 2}')
    done = project("run", "--until-idle", "--app", "supervisor.lanes:app")
    assert done.code == 0
    assert done.out.splitlines()[-2:] == [
        "still waiting:",
        "  1 x   square   kind not loaded: supervisor.lanes:app has no such lane",
    ]


def test_a_run_outlives_the_reader_of_its_lines(project: Shell) -> None:
    project("enqueue", "square", "--lines", "-", stdin=b'{"count": 2}\n' * 20)
    with project.start("run", "--until-idle", stdin=subprocess.DEVNULL) as supervisor:
        supervisor.stdout.close()
        assert supervisor.wait(30) == 0
        assert supervisor.stderr.read() == b""
    assert project("status", "--json").json["jobs"] == {"done": 20}


def test_the_version_is_printed(shell: Shell) -> None:
    assert re.fullmatch(r"laneway (\d+\.\d+\.\d+|not installed)\n", shell("--version").out)


def test_an_index_goes_to_the_supervisor_that_runs(project: Shell, tmp_path: Path) -> None:
    """K15."""
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "a.md").write_text("# Heliotrope\n\nA purple flower.\n")
    with project.start("run", stdin=subprocess.DEVNULL) as supervisor:
        wait_for(lambda: is_live(project.home))
        done = project("index", "notes", "--json")
        supervisor.terminate()
        out, _ = supervisor.communicate(timeout=20)
    assert done.json.items() >= {"id": 1, "outcome": "done"}.items()
    assert b"#1 vault_sync done" in out
    assert project("search", "purple").out == f"{notes}/a.md:3  A purple flower.\n"
