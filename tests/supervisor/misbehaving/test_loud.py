"""Children that print without end, or take their own means apart: nobody has to wait for them."""

from pathlib import Path

import pytest

from tests.supervisor.misbehaving.meeting import COLD, TEMPLATE, Meeting

APP = "loud_children"
FLOODS = {
    "floods_stdout": "on and on",
    "floods_stderr_without_a_newline": "xxxx",
    "floods_from_c": "yyyy",
    "has_a_program_flood": "on and on",
}


@pytest.mark.parametrize("how", FLOODS)
def test_a_child_that_prints_without_end_leaves_a_capped_tail(tmp_path: Path, how: str) -> None:
    """C161, LESSONS 18."""
    end = Meeting(tmp_path, APP).hold(how)
    end.is_told_as("timed_out", "batch_deadline", "no batch for 0.5 s").is_killed(by="term")
    log = end.attempt["log"]
    assert FLOODS[how] in log
    assert "bytes before this are not kept" in log
    assert len(log) < 9 << 10


def test_all_that_is_printed_last_is_in_the_log_of_a_child_that_is_done(tmp_path: Path) -> None:
    """C161, FIELD D7."""
    end = Meeting(tmp_path, APP).hold("prints_a_lot_and_is_done").is_done()
    assert end.attempt["log"].endswith("xxxthe end")


def test_what_is_no_text_is_printed_all_the_same(tmp_path: Path) -> None:
    """FIELD G1, FIELD G5."""
    end = Meeting(tmp_path, APP).hold("prints_what_is_no_text").is_done()
    assert end.attempt["log"].endswith("\\xfe\\xff\\ud800 \N{CLOWN FACE} \\x00 \x1b[31m")
    assert "\x1b" not in end.on_screen()


def test_what_comes_byte_by_byte_is_put_together(tmp_path: Path) -> None:
    assert Meeting(tmp_path, APP).hold("prints_byte_by_byte").is_done().attempt["log"] == "one at a time"


def test_a_child_that_says_nothing_holds_up_nobody(tmp_path: Path) -> None:
    """C161, LESSONS 9: and is not killed for it. There are three slots, since it gives none back."""
    Meeting(tmp_path, APP, workers=3).hold("says_nothing").is_done()


# --- its own means, taken apart

HARMLESS = [
    "closes_its_output",
    "closes_its_streams",
    "has_streams_that_break",
    "has_no_streams",
    "logs_to_itself",
    "replaces_what_reads",
    "replaces_what_leaves",
    "clears_all_modules",
    "makes_its_wire_a_stranger",
]
FATAL = {
    "replaces_what_writes": r"exit code \d+",
    "replaces_all_builtins": r"exit code \d+",
    "sets_a_trace": r"exit code \d+",
    "closes_all_descriptors": r"exit code \d+",
    "closes_its_wire_and_exits_when_it_is_told_to": "exit code 6",
    "hands_its_wire_to_a_program_and_dies": "exit code 3",
}
SILENT = [
    "closes_its_wire",
    "closes_all_descriptors_and_stays",
    "puts_another_socket_over_its_wire",
    "puts_a_file_over_its_wire",
]


@pytest.mark.parametrize("how", HARMLESS)
def test_a_child_that_takes_its_means_apart_is_done_if_it_can_say_so(tmp_path: Path, how: str) -> None:
    """LESSONS 19."""
    Meeting(tmp_path, APP).hold(how).is_done()


@pytest.mark.parametrize("how", FATAL)
def test_one_that_has_hurt_itself_has_died(tmp_path: Path, how: str) -> None:
    """C155."""
    end = Meeting(tmp_path, APP).hold(how).is_told_as("died", "died", f"the worker died: {FATAL[how]}")
    assert end.attempt["kill"] is None


@pytest.mark.parametrize(("how", "spawn"), [*((how, TEMPLATE) for how in SILENT), (SILENT[0], COLD)])
def test_one_that_can_say_nothing_any_more_has_hung_up(tmp_path: Path, how: str, spawn: str) -> None:
    """C155, FIELD D1."""
    end = Meeting(tmp_path, APP, spawn).hold(how)
    end.is_told_as("died", "hung_up", "the worker closed its channel and had to be stopped")
    end.is_killed(by="term").has_died_of(signal=15)


def test_one_that_waits_until_somebody_reads_what_it_prints_is_stopped_by_its_clock(tmp_path: Path) -> None:
    """C126: where its own output is a pipe of its own, that nobody reads."""
    end = Meeting(tmp_path, APP).hold("has_its_output_elsewhere")
    end.is_told_as("timed_out", "batch_deadline", "no batch for 2 s")
    assert "flush" in end.kill["stack"]
