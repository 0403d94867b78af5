"""Children that end in the middle: each death is told by what it was."""

import re
from pathlib import Path

import pytest

from tests.ipc.memory_group import memory_group
from tests.supervisor.misbehaving.meeting import COLD, TEMPLATE, Meeting, line_of

APP = "dying_children"
DEATHS = {
    "exits_with_0": (0, "exit code 0"),
    "exits_with_3": (3, "exit code 3"),
    "exits_from_a_thread": (4, "exit code 4"),
    "becomes_another_program": (5, "exit code 5"),
    "segfaults": (-11, r"killed by signal 11 \(SIGSEGV\)"),
    "segfaults_in_a_thread": (-11, r"killed by signal 11 \(SIGSEGV\)"),
    "overflows_its_stack": (-11, r"killed by signal 11 \(SIGSEGV\)"),
    "aborts": (-6, r"killed by signal 6 \(SIGABRT\)"),
    "reads_past_the_end_of_a_file": (-7, r"killed by signal 7 \(SIGBUS\)"),
    "divides_by_zero_in_c": (-8, r"killed by signal 8 \(SIGFPE\)"),
    "lets_an_alarm_ring": (-14, r"killed by signal 14 \(SIGALRM\)"),
    "is_killed_by_hand": (-9, r"killed by signal 9 \(SIGKILL\), which laneway did not send"),
    "is_told_to_end_by_hand": (-15, r"killed by signal 15 \(SIGTERM\)"),
}
"""What a child does, how its process ends (negative for a signal), and what is said of that."""
AT = {
    "segfaults": "ctypes.string_at(0)",
    "overflows_its_stack": "faulthandler._stack_overflow()",
    "aborts": "os.abort()",
    "reads_past_the_end_of_a_file": "print(mapped[0])",
    "divides_by_zero_in_c": "os.kill(os.getpid(), signal.SIGFPE)",
}
"""Where it was, if it could still write that down."""


@pytest.mark.parametrize("how", DEATHS)
def test_a_death_without_a_word_is_told_by_its_code_or_signal(tmp_path: Path, how: str) -> None:
    """C125, C155, FIELD C11, FIELD H9: it is no kill of ours."""
    code, reason = DEATHS[how]
    end = Meeting(tmp_path, APP).hold(how).is_told_as("died", "died", f"the worker died: {reason}")
    end.has_died_of(code if code >= 0 else None, None if code >= 0 else -code)
    assert end.attempt["kill"] is None
    if how in AT:
        assert line_of(end.house.app, AT[how]) in end.attempt["error"]["traceback"]


@pytest.mark.parametrize("how", ["exits_with_3", "segfaults", "is_killed_by_hand"])
def test_one_that_was_started_by_itself_is_told_the_same(tmp_path: Path, how: str) -> None:
    """C125, FIELD H7."""
    code, reason = DEATHS[how]
    end = Meeting(tmp_path, APP, COLD).hold(how).is_told_as("died", "died", f"the worker died: {reason}")
    end.has_died_of(code if code >= 0 else None, None if code >= 0 else -code)


@pytest.mark.parametrize("spawn", [TEMPLATE, COLD])
def test_a_child_that_becomes_another_program_has_closed_its_channel(tmp_path: Path, spawn: str) -> None:
    end = Meeting(tmp_path, APP, spawn).hold("becomes_another_program_that_stays")
    end.is_told_as("died", "hung_up", "the worker closed its channel and had to be stopped")
    end.is_killed(by="term").has_died_of(signal=15)


@pytest.mark.parametrize("spawn", [TEMPLATE, COLD])
def test_a_child_that_the_kernel_ends_out_of_memory_is_told_so(tmp_path: Path, spawn: str) -> None:
    """FIELD H9, FIELD J3: with what it held."""
    with memory_group(120_000_000) as group:
        end = Meeting(tmp_path, APP, spawn).hold("is_out_of_the_memory_of_its_group", join=group.join_code())
    end.is_told_as(
        "memory", "kernel_oom", r"the worker died: the kernel killed it, out of memory \(1\d\d MB resident.*"
    )
    end.has_died_of(signal=9)
    assert end.attempt["kill"] is None


def test_four_deaths_read_differently_on_the_screen_and_in_the_line_of_the_run(tmp_path: Path) -> None:
    """FIELD H9: the kernel out of memory, a crash, an exit, a kill by hand."""
    meeting = Meeting(tmp_path, APP)
    with memory_group(120_000_000) as group:
        ends = [
            meeting.hold("is_out_of_the_memory_of_its_group", join=group.join_code()),
            *map(meeting.hold, ("segfaults", "exits_with_3", "is_killed_by_hand")),
        ]
    told = [
        r"died: the kernel killed it, out of memory \(1\d\d MB resident at most\)",
        r"died: killed by signal 11 \(SIGSEGV\)",
        r"died: exit code 3",
        r"died: killed by signal 9 \(SIGKILL\), which laneway did not send",
    ]
    for end, words in zip(ends, told, strict=True):
        kind, number = end.row["kind"], end.row["id"]
        line = f"#{number} {kind} {words}; FAILED: supervisor show {number}"
        assert re.fullmatch(line, end.on_run_line()), end.on_run_line()
        assert re.search(f"^  1 .*   {words}$", end.on_screen(), re.MULTILINE), end.on_screen()
    assert len({end.row["reason"] for end in ends}) == 4
