"""The one door: whatever happens behind it becomes a line and an exit code."""

import re
from pathlib import Path
from typing import Any

import pytest

from landing.enqueue import UnknownKind
from landing.errors import InvalidTransition, JobNotFound, MigrationChanged, NoStore, StoreBroken
from policies.payload import PayloadRefused
from supervisor.cli import main
from supervisor.cli.cancel import settle, verified
from supervisor.cli.codes import code_of, lines_of
from supervisor.cli.run import end_with
from supervisor.cli.show import wait_line
from supervisor.client import Client
from supervisor.errors import Refused, WaitedTooLong
from supervisor.lock import LockHeld
from supervisor.run.serve import Served
from supervisor.told.story import waits

NOW = 1_700_000_000_000_000
ROW = {"state": "queued", "reason": None, "wake_at": None, "waiting_since": NOW - 3_000_000}


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (Refused(["this", "that"]), 2, "this"),
        (PayloadRefused("NaN"), 2, "NaN"),
        (UnknownKind("x", "unknown kind"), 2, "unknown kind"),
        (MigrationChanged("x", "migration 1 reads differently"), 2, "migration 1 reads differently"),
        (
            LockHeld("another supervisor holds /home"),
            3,
            "another supervisor holds /home; supervisor status tells which",
        ),
        (NoStore("x", "no store"), 1, "no store"),
        (JobNotFound(7), 1, "no job #7"),
        (InvalidTransition("7", "job #7 is done"), 1, "job #7 is done"),
        (WaitedTooLong([7]), 1, "not ended yet: #7"),
        (StoreBroken("x", "disk image is malformed"), 4, "disk image is malformed"),
        (PermissionError(13, "Permission denied", "/x"), 1, "/x: Permission denied"),
        (
            RuntimeError("odd"),
            1,
            "RuntimeError: odd (a bug in laneway? LANEWAY_DEBUG=1 shows the traceback)",
        ),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_an_error_has_its_code_and_its_lines(error: Exception, code: int, line: str) -> None:
    """DESIGN section 7: exit codes."""
    assert code_of(error) == code
    assert next(lines_of(error)) == line


@pytest.mark.parametrize(
    ("raised", "code", "err"),
    [
        (
            RuntimeError("odd"),
            1,
            "error: RuntimeError: odd (a bug in laneway? LANEWAY_DEBUG=1 shows the traceback)\n",
        ),
        (KeyboardInterrupt(), 130, ""),
        (Refused(["one", "two"]), 2, "error: one\nerror: two\n"),
    ],
    ids=["bug", "interrupt", "refused"],
)
def test_whatever_a_command_raises_is_no_traceback(
    raised: BaseException,
    code: int,
    err: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(home: Path) -> None:
        raise raised

    monkeypatch.setattr("supervisor.cli.status.status", fail)
    assert main(["status", "--home", "x"]) == code
    assert capsys.readouterr().err == err


@pytest.mark.parametrize(
    ("served", "failed", "code"),
    [
        (Served("idle"), False, 0),
        (Served("idle"), True, 1),
        (Served("stopped"), False, 0),
        (Served("interrupted"), False, 130),
        (Served("app_start_failed", "children do not start"), False, 2),
        (Served("broken", "the disk is gone"), False, 4),
    ],
    ids=lambda value: value.ended if isinstance(value, Served) else str(value),
)
def test_a_run_ends_with_a_code(
    served: Served, failed: bool, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """DESIGN section 7: exit codes."""
    assert end_with(served, failed=failed) == code
    assert capsys.readouterr().err == (f"error: {served.detail}\n" if served.detail else "")


def test_a_waiting_job_has_every_reason_that_holds_now() -> None:
    """Promise 7: reasons everywhere."""

    def named(row: dict[str, Any], *, live: bool, running: int) -> list[tuple[str, str]]:
        return [(one["reason"], one["text"]) for one in waits(row, NOW, live=live, running=running)]

    nobody = ("no_supervisor", "no supervisor runs here")
    assert named(ROW, live=False, running=0) == [nobody]
    assert named(ROW, live=True, running=3) == [("others_run", "all 3 workers busy")]
    assert named(ROW, live=True, running=1) == [("others_run", "the one worker is busy")]
    assert named(ROW, live=True, running=0) == [
        ("kind_not_loaded", "kind not loaded by the running supervisor")
    ]
    assert named({**ROW, "waiting_since": NOW}, live=True, running=0) == [], "it is about to be taken"
    [ending] = waits(ROW, NOW, live=True, running=2, ending=True)
    assert (ending["reason"], ending["text"]) == ("run_ending", "the run is ending")
    assert named({**ROW, "state": "done"}, live=False, running=0) == []
    orphaned = ("orphaned", "was running when the supervisor died")
    assert named({**ROW, "state": "running"}, live=False, running=1) == [orphaned, nobody]
    assert named({**ROW, "state": "running"}, live=True, running=1) == []
    pending = {**ROW, "state": "pending", "reason": "backoff", "wake_at": NOW}
    until = "2023-11-14T22:13:20.000000+00:00"
    assert waits(pending, NOW, live=True, running=1) == [
        {"reason": "backoff", "text": "backoff", "until": until}
    ]
    assert re.fullmatch(
        r"backoff until \d\d:\d\d:20", wait_line(waits(pending, NOW, live=True, running=1)[0])
    )
    assert named(pending, live=False, running=0)[1:] == [nobody]


def test_a_cancel_that_is_not_settled_in_time_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K6: what was verified, not what was asked for."""
    monkeypatch.setattr("supervisor.cli.cancel.SETTLE_SECONDS", 0)
    client = Client(tmp_path)
    for _ in range(2):
        client.enqueue("vault_sync")
    client.cancel(2)
    states = {1: "cancelling", 2: "cancelling"}
    settle(client, states)
    assert states == {1: "cancelling", 2: "cancelled"}
    assert verified(1, "cancelling", [], ran=True).startswith("cancelling: its batches are refused")
