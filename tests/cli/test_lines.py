"""Events as sentences, and how a run is shown: on a thread of its own, on any kind of stream."""

import os
import pty
import select
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from supervisor.cli.lines import sentence
from supervisor.cli.output import complain, one_line, page, plain, short
from supervisor.cli.report import JsonLines, Lines, Quiet, Reporter
from supervisor.events import (
    AttemptEnded,
    BatchLanded,
    Event,
    JobStarted,
    Pruned,
    RunStarted,
    StaleBatch,
    Stopping,
    Warned,
)
from tests.cli.shell import Shell

NOW = 1_700_000_000_000_000
STACK = 'Current thread 0x01 (most recent call first):\n  File "/srv/app.py", line 41 in transcribe\n'
WHY = "(not ours to signal, or stuck in the kernel)"


REMEDY = f"resume_mismatch: {'what was yielded ' * 12}; start the job over: laneway retry 5 --from-start"


def ended(**facts: Any) -> AttemptEnded:
    """Return the end of attempt 1 of job 5, done unless said otherwise."""
    base: dict[str, Any] = {
        "job": 5, "kind": "embed", "attempt": 1, "outcome": "done", "state": "done", "reason": "done",
        "error": "", "kill": None, "rows": 1, "wake_at": None,
    }  # fmt: skip
    return AttemptEnded(**{**base, **facts})


@pytest.mark.parametrize(
    ("event", "line"),
    [
        (RunStarted(17, 42, 1, "app.py:app", ()), "laneway up: run 17, pid 42, 1 worker, app.py:app"),
        (
            RunStarted(18, 42, 2, "app", (4, 5), (17,)),
            "laneway up: run 18, pid 42, 2 workers, app; run 17 died: #4 #5 queued again",
        ),
        (
            RunStarted(18, 42, 2, "app", (4, 5, 6), (16, 17), failed=(5,), cancelled=(6,)),
            "laneway up: run 18, pid 42, 2 workers, app; run 16 and run 17 died:"
            " #4 queued again, #5 failed, #6 cancelled",
        ),
        (
            RunStarted(18, 42, 1, "app", (), (17,)),
            "laneway up: run 18, pid 42, 1 worker, app; run 17 died: nothing was in flight",
        ),
        (JobStarted(5, "embed", 1), "#5 embed started"),
        (JobStarted(5, "embed", 2), "#5 embed started, attempt 2"),
        (BatchLanded(5, "embed", 1200, 3, None, None), "#5 embed: 1,200 rows landed"),
        (BatchLanded(5, "embed", 1200, 3, 31488, 50000), "#5 embed: 31,488 of 50,000, 1,200 rows landed"),
        (Pruned(1, 0, 0), "pruned 1 job with 0 attempts"),
        (Pruned(3000, 4000, 12_340_000), "pruned 3,000 jobs with 4,000 attempts, gave 12.3 MB back"),
        (ended(), "#5 embed done: 1 row"),
        (ended(outcome="skipped"), "#5 embed skipped"),
        (
            ended(outcome="failed", state="failed", error="KeyError: 'n'"),
            "#5 embed failed: KeyError: 'n'; FAILED: supervisor show 5",
        ),
        (
            ended(
                outcome="died",
                state="pending",
                error="the worker died: exit code 3",
                wake_at=NOW + 20_000_000,
            ),
            "#5 embed died: exit code 3; retry in 20 s",
        ),
        (ended(outcome="interrupted", state="queued"), "#5 embed interrupted; queued again"),
        (ended(outcome="cancelled", state="cancelled"), "#5 embed cancelled"),
        (
            ended(
                outcome="timed_out",
                state="failed",
                error="no batch for 120 s",
                kill={"took_ms": 3.0, "stack": STACK, "survivors": []},
            ),
            "#5 embed killed: no batch for 120 s, stuck in /srv/app.py:41 transcribe,"
            " gone in 3 ms; FAILED: supervisor show 5",
        ),
        (
            ended(outcome="timed_out", state="failed", error="x", kill={"took_ms": 5000.0, "survivors": [9]}),
            f"#5 embed killed, survivors: pid 9 {WHY}: x, not all gone after 5.0 s;"
            " FAILED: supervisor show 5",
        ),
        (
            ended(
                outcome="timed_out",
                state="failed",
                error="x",
                kill={"took_ms": 500.0, "stack": "", "rung": "kill", "grace_s": 0.5, "survivors": []},
            ),
            "#5 embed killed: x, ignored SIGTERM, ended by SIGKILL after its grace of 0.5 s, gone in 0.5 s;"
            " FAILED: supervisor show 5",
        ),
        (
            ended(
                outcome="failed",
                state="failed",
                error="the lander raised: no",
                kill={"took_ms": 3.0, "stack": STACK, "rung": "term", "survivors": []},
            ),
            "#5 embed failed: the lander raised: no; FAILED: supervisor show 5",
        ),
        (
            ended(outcome="failed", state="failed_optional", error="Fail: no cover"),
            "#5 embed failed: Fail: no cover; failed (optional): supervisor show 5",
        ),
        (
            ended(outcome="failed", state="failed", error=REMEDY),
            f"#5 embed failed: {REMEDY}; FAILED: supervisor show 5",
        ),
        (
            ended(outcome="failed", state="failed", error="no", kill={"took_ms": 5.0, "survivors": [9, 10]}),
            f"#5 embed failed, survivors: pid 9, pid 10 {WHY}: no; FAILED: supervisor show 5",
        ),
        (
            ended(outcome="cancelled", state="cancelled", kill={"took_ms": 3.0, "ended": 3, "survivors": []}),
            "#5 embed cancelled, 0 survivors, gone in 3 ms",
        ),
        (
            ended(outcome="cancelled", state="cancelled", kill={"took_ms": 3.0, "survivors": [9]}),
            f"#5 embed cancelled, survivors: pid 9 {WHY}, not all gone after 3 ms",
        ),
        (ended(kill={"survivors": [9]}), f"#5 embed done: 1 row, survivors: pid 9 {WHY}"),
        (StaleBatch(5, 3), "#5 batch 3 came too late and changed nothing"),
        (Warned("disk_full", "the disk is full\nreally"), "warning: the disk is full …"),
        (Stopping(now=False), "stopping: nothing is under way"),
        (Stopping(False, (3, 5), 4.99), "stopping: waits for #3 #5, at most 5 s; again to stop now"),
        (Stopping(now=True), "stopping now"),
    ],
    ids=lambda value: value[:60] if isinstance(value, str) else "",
)
def test_an_event_reads_as(event: Event, line: str) -> None:
    assert sentence(event, NOW) == line


def test_nothing_that_is_printed_can_move_a_cursor(capsys: pytest.CaptureFixture[str]) -> None:
    assert plain("a\x1b[2Jb\r\u202e\udc80\tc\n") == "a\\x1b[2Jb\\r\\u202e\\udc80\tc\n"
    assert plain("déjà 🦀") == "déjà 🦀"
    assert short("first\nsecond", 10) == "first …", "what is missing is said"
    assert short("a\tb\n", 10) == "a\\tb"
    assert short("x" * 20, 10) == "xxxxxxxxx…"
    assert one_line("a\nb\x1b") == "a\\nb\\x1b"
    complain("two\nlines\x1b")
    assert capsys.readouterr().err == "error: two lines\\x1b\n"


def test_columns_are_as_wide_as_their_widest_cell() -> None:
    assert list(page([("a", "bbb", ""), ("aa", "b", "c")], indent="  ")) == ["  a    bbb", "  aa   b     c"]


def test_lines_are_printed_as_they_happen_and_progress_now_and_then(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with Reporter(Lines()) as report:
        report(JobStarted(5, "embed", 1))
        for n in range(100):
            report(BatchLanded(5, "embed", n, n, None, None))
        report(ended(rows=100))
        report(ended(job=6, outcome="failed", state="failed"))
    assert str(report.tally) == "1 done, 1 failed"
    lines = [line.split("  ", 1)[1] for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        "#5 embed started",
        "#5 embed done: 100 rows",
        "#6 embed failed; FAILED: supervisor show 6",
    ]


def test_a_batch_is_worth_a_line_when_the_last_one_is_ten_seconds_old(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = iter([0.0, 9.9, 10.0, 10.1, 20.0])
    monkeypatch.setattr("supervisor.sensors.monotonic", lambda: next(now))
    lines = Lines()
    lines.show(JobStarted(5, "embed", 1))
    for n in range(4):
        lines.show(BatchLanded(5, "embed", n, n, None, None))
    out = capsys.readouterr().out.splitlines()
    assert [line.split("  ", 1)[1] for line in out[1:]] == [
        "#5 embed: 1 row landed",
        "#5 embed: 3 rows landed",
    ]


def test_json_lines_and_quiet_ones(capsys: pytest.CaptureFixture[str]) -> None:
    with Reporter(JsonLines(sys.stdout)) as report:
        report(ended(kill={"took_ms": 3.0}))
    out = capsys.readouterr().out
    assert '"event": "AttemptEnded"' in out
    assert '"kill": {"took_ms": 3.0}' in out
    with Reporter(Quiet()) as report:
        report(JobStarted(5, "embed", 1))
        report(Warned("disk_full", "the disk is full"))
    assert capsys.readouterr() == ("", "hint: the disk is full\n")


class Blocked:
    """A terminal that has stopped reading."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.free = threading.Event()

    def show(self, event: Event) -> None:
        self.entered.set()
        self.free.wait()

    def refresh(self) -> None: ...

    def close(self) -> None: ...


def test_a_terminal_that_stops_reading_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("supervisor.cli.report.LAST_WORDS", 0.05)
    display = Blocked()
    began = time.monotonic()
    with Reporter(display) as report:
        report(ended())
        assert display.entered.wait(10)
        for _ in range(20_000):
            report(ended())
    assert report.tally.done == 20_001
    assert time.monotonic() - began < 5
    display.free.set()


def test_a_reader_that_is_gone_ends_the_showing_not_the_run() -> None:
    class Gone(Blocked):
        def show(self, event: Event) -> None:
            raise BrokenPipeError

    with Reporter(Gone()) as report:
        for _ in range(3):
            report(ended())
    assert report.tally.done == 3


@pytest.fixture
def terminal() -> Iterator[tuple[int, int]]:
    """A pseudo terminal: the side a person reads, the side a program writes."""
    ours, theirs = pty.openpty()
    yield ours, theirs
    os.close(ours)


def test_on_a_terminal_a_run_shows_bars_and_sentences(project: Shell, terminal: tuple[int, int]) -> None:
    project("enqueue", "sleepy", '{"seconds": 0.6}')
    ours, theirs = terminal
    process = project.start("run", "--until-idle", stdout=theirs, env={"TERM": "xterm", "COLUMNS": "120"})
    os.close(theirs)
    seen = read_terminal(ours)
    assert process.wait(20) == 0
    process.communicate()
    assert b"sleepy #1" in seen
    assert b"#1 sleepy done: 1 row" in seen
    assert b"idle: 1 done, 0 failed" in seen


def read_terminal(fd: int) -> bytes:
    """Return all that is written to a terminal until its writers are gone."""
    seen = b""
    while select.select([fd], [], [], 30)[0]:
        try:
            seen += os.read(fd, 65536)
        except OSError:
            break
    return seen


def test_bars_move_with_the_batches_and_go_with_the_job(terminal: tuple[int, int]) -> None:
    from supervisor.cli.live import Bars

    ours, theirs = terminal
    with os.fdopen(theirs, "w") as stream:
        bars = Bars(stream, sentences=False)
        bars.show(JobStarted(5, "embed", 1))
        bars.show(BatchLanded(5, "embed", 10, 1, 3, 4))
        assert bars.refresh() is not None
        bars.show(BatchLanded(6, "other", 7, 1, None, None))
        bars.show(Warned("disk_full", "the disk is full"))
        assert 0 < bars.refresh() <= 0.2, "drawn a moment ago"
        bars.show(ended())
        bars.show(ended(job=6))
        bars.close()
    seen = read_terminal(ours)
    assert b"embed #5" in seen
    assert b"3 of 4" in seen
    assert b"warning: the disk is full" in seen
    assert b"done" not in seen


def test_on_a_terminal_a_long_line_is_cut_at_its_edge(project: Shell, terminal: tuple[int, int]) -> None:
    project("enqueue", "square", f'{{"count": 1, "note": "{"x" * 300}"}}')
    ours, theirs = terminal
    process = project.start("jobs", stdout=theirs, env={"COLUMNS": "40"})
    os.close(theirs)
    seen = read_terminal(ours).replace(b"\r\n", b"\n")
    process.communicate(timeout=20)
    head, row = seen.decode().splitlines()
    assert (len(row), row[-1]) == (40, "…")
    assert head.startswith("ID   KIND     STATE    AGE"), "what comes first stays readable"
    assert row.startswith("1    square   queued")


def test_on_a_terminal_a_hit_is_cut_at_its_edge(shell: Shell, terminal: tuple[int, int]) -> None:
    (shell.folder / "n").mkdir()
    (shell.folder / "n" / "a.md").write_text("heliotrope " + "word " * 60)
    shell("index", "n")
    width = len(f"{shell.folder}/n/a.md:1  ") + 30
    ours, theirs = terminal
    process = shell.start("search", "heliotrope", stdout=theirs, env={"COLUMNS": str(width)})
    os.close(theirs)
    [line] = read_terminal(ours).decode().splitlines()
    process.communicate(timeout=20)
    assert (len(line), line[-1]) == (width, "…")
