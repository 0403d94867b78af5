"""Children that do not obey, or attack who watches them: they end all the same, and the receipt says how."""

import os
import signal
from pathlib import Path

import pytest

from ipc.ladder import GUARDIAN_SECONDS, PATIENCE
from tests.supervisor.misbehaving.meeting import COLD, TEMPLATE, End, Meeting

APP = "deaf_children"
LATE = ("timed_out", "batch_deadline", "no batch for 0.5 s")
GUARDIAN_DIED = ("died", "guardian_died", "the worker's guardian was killed, and the worker with it")

DEAF = {
    "ignores_sigterm": ("kill", "time.sleep(0.01)"),
    "handles_sigterm_for_ever": ("kill", "time.sleep(0.01)"),
    "handles_sigterm_and_works_on": ("kill", "time.sleep(0.01)"),
    "handles_sigterm_in_c": ("kill", "PyDLL(None).pause()"),
    "blocks_all_signals": ("kill", None),
    "ignores_all_signals": ("kill", None),
    "stops_itself": ("term", "os.kill(os.getpid(), signal.SIGSTOP)"),
    "is_stopped_again_and_again": ("kill", None),
    "has_its_parent_trace_it": ("kill", None),
    "hides_what_it_is": ("term", "time.sleep(0.01)"),
    "has_a_name_that_lies": ("term", "time.sleep(0.01)"),
    "adopts_orphans_itself": ("term", "time.sleep(0.01)"),
    "hops_from_fork_to_fork": ("term", "time.sleep(0.01)"),
}
"""What a child does, the rung that ends it, and where it was then, if it can still say so."""


def is_ended_all_the_same(how: str, meeting: Meeting) -> None:
    rung, where = DEAF[how]
    end = meeting.hold(how).is_told_as(*LATE).is_killed(by=rung, stuck_at=where)
    end.has_died_of(signal=15 if rung == "term" else 9)


@pytest.mark.parametrize("how", DEAF)
def test_a_child_that_does_not_obey_is_ended_all_the_same(tmp_path: Path, how: str) -> None:
    """C126, FIELD A5."""
    is_ended_all_the_same(how, Meeting(tmp_path, APP))


@pytest.mark.parametrize("how", ["ignores_sigterm", "blocks_all_signals", "has_its_parent_trace_it"])
def test_so_is_one_that_was_started_by_itself(tmp_path: Path, how: str) -> None:
    """C126, FIELD A5, FIELD H7."""
    is_ended_all_the_same(how, Meeting(tmp_path, APP, COLD))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_child_that_has_become_another_user_is_ended_by_one_who_may(tmp_path: Path) -> None:
    """FIELD A7."""
    end = Meeting(tmp_path, APP).hold("becomes_another_user")
    end.is_told_as(*LATE).is_killed(by="term", stuck_at="time.sleep(0.01)").has_died_of(signal=15)


def test_a_kill_without_a_stack_says_why_there_is_none(tmp_path: Path) -> None:
    end = Meeting(tmp_path, APP).hold("blocks_all_signals")
    assert end.kill["stack"] == ""
    why = "ignored SIGTERM, ended by SIGKILL after its grace of 0.4 s"
    assert f"killed: no batch for 0.5 s, {why}, 0 survivors" in end.on_run_line()


# --- who watches it


def test_a_child_that_stops_its_guardian_is_ended_on_time(tmp_path: Path) -> None:
    """C126: whoever is given an order is woken first."""
    end = Meeting(tmp_path, APP).hold("stops_its_guardian")
    end.is_told_as(*LATE).is_killed(by="term", stuck_at="time.sleep(0.01)").has_died_of(signal=15)


def test_a_guardian_that_cannot_be_woken_is_put_down_with_all_that_it_kept(tmp_path: Path) -> None:
    """C126, K11: what killed the child cannot be said any more, but what it was killed for."""
    end = Meeting(tmp_path, APP).hold("traces_its_guardian").is_told_as(*LATE)
    assert end.kill["rung"] == "guardian"
    assert GUARDIAN_SECONDS * 1000 <= end.kill["late_ms"] < PATIENCE * 1000
    assert end.attempt["exit"] is None


def test_a_guardian_that_is_stopped_again_and_again_obeys_in_between_or_is_put_down(tmp_path: Path) -> None:
    """C126, K11."""
    end = Meeting(tmp_path, APP).hold("stops_its_guardian_again_and_again").is_told_as(*LATE)
    assert end.kill["rung"] in {"kill", "guardian"}


def test_a_child_that_stops_its_guardian_and_is_done_holds_its_slot_for_a_while_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K2: until it should have left."""
    monkeypatch.setattr("supervisor.children.ladders.LEAVE_GRACE", 0.5)
    Meeting(tmp_path, APP).hold("stops_its_guardian_and_is_done").is_done()


def test_a_guardian_is_deaf_to_what_its_children_signal(tmp_path: Path) -> None:
    Meeting(tmp_path, APP).hold("signals_its_guardian").is_done()


@pytest.mark.parametrize("spawn", [TEMPLATE, COLD])
@pytest.mark.parametrize("how", ["kills_its_guardian", "outlives_its_guardian"])
def test_a_child_that_kills_its_guardian_goes_with_it(tmp_path: Path, spawn: str, how: str) -> None:
    """B1, K11: what its guardian kept is the supervisor's then, and ends."""
    Meeting(tmp_path, APP, spawn).hold(how).is_told_as(*GUARDIAN_DIED)


def test_a_child_that_kills_its_guardian_with_its_last_breath_is_done(tmp_path: Path) -> None:
    """K2: Done is the verdict, whatever happens after it; or the end came before it could be said."""
    end = Meeting(tmp_path, APP).hold("kills_its_guardian_and_is_done")
    if end.row["state"] == "done":
        end.is_done()
    else:
        end.is_told_as(*GUARDIAN_DIED)


def test_what_nobody_can_end_when_its_guardian_is_gone_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """FIELD A7: never plainly died. State D cannot be made here, so the kills are held back instead."""
    for name in ("ipc.ladder.PATIENCE", "supervisor.children.ladders.PATIENCE"):
        monkeypatch.setattr(name, 0.3)
    meeting = Meeting(tmp_path, APP)
    house, noted = meeting.house, meeting.noted
    Path(meeting.paths["beside"]).touch()
    job, after = house.enqueue("outlives_its_guardian_alone", meeting.paths), house.enqueue("quick")
    with monkeypatch.context() as held:
        held.setattr("ipc.guardian.sweep.end", lambda pid: None)
        assert house.serve().ended == "idle"
    (worker,) = (int(one.name.partition("-")[0]) for one in noted.iterdir())
    end = End(house, job, TEMPLATE)
    survivors = end.kill["survivors"]
    for pid in survivors:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    assert (end.attempt["outcome"], end.attempt["error_code"]) == ("died", "guardian_died")
    assert worker in survivors
    assert "died, survivors: pid" in end.on_run_line()
    assert house.job(after)["state"] == "done"


# --- what it is a copy of


@pytest.mark.parametrize(
    "how", ["kills_its_template", "stops_its_template", "stops_its_template_and_traces_it"]
)
def test_a_child_that_attacks_its_template_is_done_and_others_come(tmp_path: Path, how: str) -> None:
    """K13: so many quick ones that all guardians have to serve again."""
    Meeting(tmp_path, APP).hold(how, after=["quick"] * 4).is_done()


# --- many at once


@pytest.mark.parametrize(
    ("how", "reason", "signal"),
    [
        ("kills_its_process_group", r"killed by signal 9 \(SIGKILL\), which laneway did not send", 9),
        ("ends_its_process_group", r"killed by signal 15 \(SIGTERM\)", 15),
    ],
)
@pytest.mark.parametrize("spawn", [TEMPLATE, COLD])
def test_a_child_that_ends_its_process_group_hits_itself(
    tmp_path: Path, spawn: str, how: str, reason: str, signal: int
) -> None:
    """LESSONS 13."""
    end = Meeting(tmp_path, APP, spawn).hold(how)
    end.is_told_as("died", "died", f"the worker died: {reason}").has_died_of(signal=signal)
