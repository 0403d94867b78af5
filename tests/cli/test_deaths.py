"""How screens tell ends apart: each receipt written by a real lander, read back from the store."""

import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from landing.ledger import Report
from policies.job import MICROS, Outcome
from policies.retry import judge
from policies.transitions import target
from policies.verdict import Ended
from supervisor.attempt.receipt import named, reason_line
from supervisor.cli.lines import sentence
from supervisor.cli.show import screen
from supervisor.events import AttemptEnded
from supervisor.told.status import status
from supervisor.told.story import story
from tests.landing.stand import KINDS, START, Stand, finish, lander_thread

STACK = 'Current thread 0x01 (most recent call first):\n  File "/srv/app.py", line 41 in transcribe\n'
PLAIN = {"spawn": "template", "kill": "guardian", "shield": None, "network": "open", "limits": {}}
TREE = "template child, whole tree ended by its guardian"
WHY = "(not ours to signal, or stuck in the kernel)"


def error(message: str) -> dict[str, str]:
    return {"type": "", "message": message, "traceback": ""}


def record(**facts: Any) -> dict[str, Any]:
    """The record of a kill at a batch deadline that SIGTERM was enough for."""
    return {
        "reason": "batch_deadline", "deadline_s": 120.0, "grace_s": 5.0, "rung": "term", "took_ms": 3.0,
        "late_ms": 3.0, "stack": STACK, "ended": 2, "survivors": [],
    } | facts  # fmt: skip


@dataclass
class Told:
    """What is said of one attempt: by `run`, and by `show` line by line."""

    run: str
    show: list[str]

    def named(self, name: str) -> str | None:
        """The line of the screen that has this name, None where there is none."""
        found = [line.removeprefix(f"{name:<9}") for line in self.show if line.startswith(f"{name:<9}")]
        assert len(found) < 2
        return found[0] if found else None

    @property
    def row(self) -> str:
        """What the attempt's own row says of its end."""
        return re.split(r" {3,}", self.show[2])[-1]

    @property
    def next(self) -> list[str]:
        """What helps, step by step."""
        return [line[9:] for line in self.show[self.show.index(f"next     {self.named('next')}") :]]


class Desk:
    """A store, and a lander that writes the receipts of its jobs."""

    def __init__(self, home: Path) -> None:
        self.stand = Stand(home).furnish()

    def end(self, report: Report, kind: str = "once") -> Told:
        """Let a new job end so; kind `once` has one attempt. Return what is said of it."""
        claimed = self.stand.running(kind)
        verdict = named(judge(Ended(outcome=report.outcome), KINDS[kind], 0, self.stand.now), report)
        with lander_thread(self.stand.home) as thread:
            thread.ask(finish(claimed, verdict, report=report))
        event = AttemptEnded(
            job=claimed.job, kind=kind, attempt=1, outcome=report.outcome, state=target(verdict.move),
            reason=verdict.reason, error=reason_line(report) if report.error else "", kill=report.kill,
            rows=0, wake_at=verdict.wake_at,
        )  # fmt: skip
        return Told(sentence(event, self.stand.now), list(screen(story(self.stand.home, claimed.job))))


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    monkeypatch.setattr("supervisor.sensors.now_micros", lambda: START + MICROS)
    return Desk(tmp_path / "home")


MEMORY = {"limit": 500_000_000, "used": 512_345_678, "processes": 3}
CROSSED = "memory limit 500 MB crossed at 512 MB in 3 processes"
MANY = "process limit 64 crossed at 65 processes"
BY_HAND = "killed by signal 9 (SIGKILL), which laneway did not send"
BY_KERNEL = "the kernel killed it, out of memory (512 MB resident at most)"
DEATHS: dict[str, tuple[Report, str, str | None]] = {
    "exit 3": (
        Report(outcome=Outcome.DIED, error_code="died", error=error("the worker died: exit code 3")),
        "died: exit code 3",
        None,
    ),
    "SIGSEGV": (
        Report(
            outcome=Outcome.DIED,
            error_code="died",
            error=error("the worker died: killed by signal 11 (SIGSEGV)"),
        ),
        "died: killed by signal 11 (SIGSEGV)",
        None,
    ),
    "SIGKILL": (
        Report(outcome=Outcome.DIED, error_code="died", error=error(f"the worker died: {BY_HAND}")),
        f"died: {BY_HAND}",
        None,
    ),
    "guardian": (
        Report(
            outcome=Outcome.DIED,
            error_code="guardian_died",
            error=error("the worker's guardian was killed, and the worker with it"),
        ),
        "died: the worker's guardian was killed, and the worker with it",
        None,
    ),
    "kernel": (
        Report(outcome=Outcome.MEMORY, error_code="kernel_oom", error=error(f"the worker died: {BY_KERNEL}")),
        f"died: {BY_KERNEL}",
        "give it less, run fewer at a time (max_workers), or set a memory_limit to end it in time",
    ),
    "memory": (
        Report(
            outcome=Outcome.MEMORY,
            error_code="memory_limit",
            error=error(CROSSED),
            kill=record(reason="memory_limit", deadline_s=None, grace_s=0.25, memory=MEMORY),
        ),
        f"killed: {CROSSED}",
        "raise memory_limit, or give it less",
    ),
    "processes": (
        Report(
            outcome=Outcome.DIED,
            error_code="process_limit",
            error=error(MANY),
            kill=record(
                reason="process_limit",
                deadline_s=None,
                memory={"limit": 0, "used": 9_000_000, "processes": 65},
            ),
            world=PLAIN | {"limits": {"process_limit": 64}},
        ),
        f"killed: {MANY}",
        "raise process_limit, or let it start fewer processes",
    ),
    "CPU": (
        Report(
            outcome=Outcome.DIED,
            error_code="cpu_limit",
            error=error("the worker used its 10 s of CPU time"),
        ),
        "died: the worker used its 10 s of CPU time",
        "raise cpu_limit, or give it less",
    ),
}


@pytest.mark.parametrize("death", DEATHS)
def test_a_death_is_told_by_what_it_was_and_what_helps(desk: Desk, death: str) -> None:
    """FIELD H9, J1, J3, J5: on the screen, in the line of the run, with the next step."""
    report, said, remedy = DEATHS[death]
    told = desk.end(report)
    assert told.row == said
    assert told.run.startswith(f"#1 once {said}")
    assert told.run.endswith("; FAILED: supervisor show 1")
    assert told.next[-1] == "supervisor retry 1"
    assert [step for step in told.next if not step.startswith("supervisor ")] == ([remedy] if remedy else [])


def test_no_two_deaths_read_alike(desk: Desk) -> None:
    """FIELD H9: the reason that the job's row keeps, too, which `jobs` and `status` show."""
    rows = {desk.end(report).row for report, _, _ in DEATHS.values()}
    reasons = {desk.stand.row(job)["reason"] for job in range(1, len(DEATHS) + 1)}
    assert len(rows) == len(reasons) == len(DEATHS)


def test_a_kill_is_told_with_its_grace_its_milliseconds_and_what_it_ended(desk: Desk) -> None:
    """C126, promise 1: SIGTERM was enough, or it took all its grace and SIGKILL."""
    late = Report(outcome=Outcome.TIMED_OUT, error=error("no batch for 120 s"), kill=record())
    told = desk.end(late)
    assert told.named("kill") == (
        "batch_deadline 120 s, gone 3 ms later, within its grace of 5 s; 2 processes ended, 0 survivors"
    )
    assert told.named("alive") is None
    assert (
        "killed: no batch for 120 s, stuck in /srv/app.py:41 transcribe, 0 survivors, gone in 3 ms;"
        in told.run
    )
    deaf = record(rung="kill", took_ms=5003.0, ended=1)
    told = desk.end(Report(outcome=Outcome.TIMED_OUT, error=error("no batch for 120 s"), kill=deaf))
    assert told.named("kill") == (
        "batch_deadline 120 s + 5 s grace, gone 3 ms later, by SIGKILL; 1 process ended, 0 survivors"
    )
    assert told.run.endswith(", 0 survivors, gone in 5.0 s; FAILED: supervisor show 2")


def test_a_limit_that_was_crossed_is_told_with_its_figures(desk: Desk) -> None:
    """FIELD J1, J5."""
    assert desk.end(DEATHS["memory"][0]).named("kill") == (
        f"{CROSSED}, gone 3 ms later, within its grace of 0.25 s; 2 processes ended, 0 survivors"
    )
    assert desk.end(DEATHS["processes"][0]).named("kill") == (
        f"{MANY}, gone 3 ms later, within its grace of 5 s; 2 processes ended, 0 survivors"
    )
    slow = record(reason="memory_limit", deadline_s=None, grace_s=0.25, rung="kill", memory=MEMORY)
    told = desk.end(Report(outcome=Outcome.MEMORY, error=error(CROSSED), kill=slow))
    assert told.named("kill") == (
        f"{CROSSED}, 0.25 s grace, gone 3 ms later, by SIGKILL; 2 processes ended, 0 survivors"
    )


@pytest.mark.parametrize("outcome", [Outcome.TIMED_OUT, Outcome.MEMORY, Outcome.FAILED, Outcome.CANCELLED])
def test_a_kill_that_left_somebody_alive_is_loud_everywhere(desk: Desk, outcome: Outcome) -> None:
    """FIELD A7: in the line of the run, in each part of `show`, in the row's reason, and in `status`."""
    pid = os.getpid()
    stuck = record(rung="unkillable", took_ms=10_000.0, late_ms=5000.0, ended=1, survivors=[pid])
    told = desk.end(Report(outcome=outcome, error=error("too late"), kill=stuck))
    survivors = f"survivors: pid {pid}"
    name = "killed" if outcome in {Outcome.TIMED_OUT, Outcome.MEMORY} else outcome
    assert told.run.startswith(f"#1 once {name}, {survivors} {WHY}: too late")
    assert told.row.startswith(f"{name}, {survivors} {WHY}")
    assert survivors in told.show[0], "the headline"
    assert told.named("alive") == f"pid {pid} {WHY}"
    assert survivors in desk.stand.row(1)["reason"]
    assert "gone in" not in told.run
    if outcome is not Outcome.FAILED:
        assert ", not all gone after 10 s" in told.run
        assert told.named("kill") == (
            "batch_deadline 120 s + 5 s grace, not all gone 5.0 s later; 1 process ended, 1 survivor"
        )
    facts = status(desk.stand.home)
    alert = f"#1 was killed, {survivors} {WHY}"
    assert facts["survivors"] == [{"id": 1, "pids": [pid], "text": alert}]
    assert alert in facts["reasons"]


def test_a_survivor_that_has_gone_since_is_no_complaint(desk: Desk) -> None:
    """FIELD A7, B5: the record keeps it, the alert ends with it."""
    with subprocess.Popen(["true"]) as ended:
        gone = ended.pid
    told = desk.end(Report(outcome=Outcome.TIMED_OUT, error=error("x"), kill=record(survivors=[gone])))
    assert told.named("alive") == f"pid {gone} {WHY}"
    facts = status(desk.stand.home)
    assert (facts["survivors"], [line for line in facts["reasons"] if "survivors" in line]) == ([], [])


def test_a_record_of_before_is_told_without_a_count(desk: Desk) -> None:
    """C96: nobody knew of descendants then."""
    old = record()
    del old["ended"]
    told = desk.end(Report(outcome=Outcome.TIMED_OUT, error=error("no batch for 120 s"), kill=old))
    assert told.named("kill") == "batch_deadline 120 s, gone 3 ms later, within its grace of 5 s"
    assert told.named("world") is None
    assert told.run.endswith(" transcribe, gone in 3 ms; FAILED: supervisor show 1")


def test_where_only_a_process_group_is_ended_nothing_is_claimed_of_the_tree(desk: Desk) -> None:
    """Promise 1, on a system that has no subreaper."""
    world = PLAIN | {"kill": "group"}
    late = Report(outcome=Outcome.TIMED_OUT, error=error("x"), kill=record(), world=world)
    told = desk.end(late)
    assert told.named("kill") == "batch_deadline 120 s, gone 3 ms later, within its grace of 5 s"
    assert told.named("world") == "template child, process group ended, what had left it not followed"


def test_a_stop_is_told_with_what_it_ended(desk: Desk) -> None:
    """K9."""
    stopped = record(reason="interrupted", deadline_s=None, grace_s=0.3, rung="kill")
    told = desk.end(Report(outcome=Outcome.INTERRUPTED, kill=stopped))
    assert told.named("kill") == (
        "its run stopped and it had not yielded within 0.3 s, gone 3 ms later; 2 processes ended, 0 survivors"
    )


@pytest.mark.parametrize(
    "outcome", [Outcome.DONE, Outcome.SKIPPED, Outcome.YIELDED, Outcome.INTERRUPTED], ids=str
)
def test_a_plain_world_in_which_nothing_went_wrong_is_not_worth_a_line(desk: Desk, outcome: Outcome) -> None:
    """C157."""
    told = desk.end(Report(outcome=outcome, world=PLAIN))
    assert told.show[2].startswith("  1 ")
    assert told.named("world") is None


def test_the_world_has_a_line_where_something_was_asked_for_or_went_wrong(desk: Desk) -> None:
    """C157, U40: what was on, per attempt."""
    asked = PLAIN | {
        "shield": "landlock 7: store, signals",
        "network": "sealed",
        "limits": {"memory_limit": 500_000_000},
    }
    line = f"{TREE}, shield (landlock 7: store, signals), network sealed, memory limit 500 MB"
    assert desk.end(Report(outcome=Outcome.DONE, world=asked)).named("world") == line
    for outcome in (Outcome.FAILED, Outcome.DIED, Outcome.TIMED_OUT, Outcome.MEMORY):
        assert desk.end(Report(outcome=outcome, world=PLAIN)).named("world") == TREE


def test_the_story_has_the_world_as_it_was_stored(desk: Desk) -> None:
    """C157: `show --json`; null where nobody knows."""
    asked = PLAIN | {"network": "sealed", "limits": {"cpu_limit": 1.5}}
    desk.end(Report(outcome=Outcome.DONE, world=asked))
    desk.end(Report(outcome=Outcome.DONE))
    worlds = [story(desk.stand.home, job)["attempts"][0]["world"] for job in (1, 2)]
    assert worlds == [asked, None]


def test_what_moves_a_cursor_in_a_record_is_escaped(desk: Desk) -> None:
    """U32: a store may have been written by anybody."""
    world = PLAIN | {"shield": "land\x1b[2Jlock\nsecond line"}
    kill = record(reason="x\x1b[2Jy\nz", deadline_s=None)
    told = desk.end(Report(outcome=Outcome.TIMED_OUT, error=error("x"), kill=kill, world=world))
    assert all(line.isprintable() for line in told.show)
    assert told.run.isprintable()


@pytest.mark.parametrize("odd", [None, "abc", -1, [1], {"x": 1}], ids=repr)
def test_a_record_of_garbage_breaks_no_screen(desk: Desk, odd: Any) -> None:
    """U32: each cell of it."""
    for outcome in (Outcome.TIMED_OUT, Outcome.DIED, Outcome.FAILED):
        report = Report(
            outcome=outcome,
            error=dict.fromkeys(error("")) | {"traceback": odd},
            kill=dict.fromkeys(record(), odd) | {"survivors": []},
            world=dict.fromkeys(PLAIN, odd),
        )
        told = desk.end(report)
        assert told.show[0].startswith(f"#{len(desk.stand.query('SELECT 1 FROM laneway_jobs'))} once")
        assert told.next[-1].startswith("supervisor retry ")
