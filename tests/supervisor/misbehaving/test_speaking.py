"""Children that say how it went: whatever they say is bounded words, and holds whatever they do after it."""

import json
from pathlib import Path

import pytest

from tests.supervisor.misbehaving.meeting import COLD, TEMPLATE, Meeting

APP = "speaking_children"


# --- what it raises

RAISED = {
    "leaves_by_sys_exit": "SystemExit: 7",
    "leaves_by_sys_exit_0": "SystemExit: <SystemExit raised>",
    "interrupts_itself": "KeyboardInterrupt: <KeyboardInterrupt raised>",
    "stops_the_iteration": "RuntimeError: generator raised StopIteration",
    "leaves_its_generator": "GeneratorExit: <GeneratorExit raised>",
    "recurses_without_end": "RecursionError: maximum recursion depth exceeded.*",
    "asks_for_input": "EOFError: EOF when reading a line",
    "raises_what_kills_who_reads_it": "Unspeakable: .*",
    "raises_what_nobody_can_name": "Nameless: <Nameless raised>",
    "raises_a_huge_text": "ValueError: x{200,300}",
    "raises_text_that_is_none": r"ValueError: \\ud800 \\x00 \x1b\[31m \N{CLOWN FACE}",
    "raises_a_chain_without_end": "ValueError: 9999",
    "raises_a_group_of_groups": r'ExceptionGroup: "group 499", \[<ExceptionGroup>\]',
}
"""What a child raises, and the reason that is made of it."""


@pytest.mark.parametrize("what", RAISED)
def test_whatever_a_child_raises_is_a_failure_in_bounded_words(tmp_path: Path, what: str) -> None:
    """C155, B51, FIELD G1, FIELD G5: nothing that belongs to the exception is run."""
    end = Meeting(tmp_path, APP).hold(what).is_told_as("failed", "raised", RAISED[what])
    assert end.attempt["kill"] is None
    assert len(json.dumps(end.attempt["error"])) < 40_000
    end.on_screen().encode()


def test_a_row_that_is_refused_is_what_ends_a_generator_that_yields_in_its_cleanup(tmp_path: Path) -> None:
    """K3."""
    end = Meeting(tmp_path, APP).hold("yields_in_its_cleanup")
    end.is_told_as("failed", "row_type", ".*object.*")


def test_a_cleanup_that_never_ends_is_stopped_by_its_clock(tmp_path: Path) -> None:
    """C126, K5."""
    end = Meeting(tmp_path, APP).hold("hangs_in_its_cleanup")
    end.is_told_as("timed_out", "batch_deadline", "no batch for 0.5 s")
    end.is_killed(by="term", stuck_at="# cleanup")


# --- after its word


@pytest.mark.parametrize(
    ("how", "spawn"),
    [
        ("leaves_threads_behind", TEMPLATE),
        ("leaves_a_busy_thread_behind", TEMPLATE),
        ("leaves_a_busy_thread_behind", COLD),
        ("hangs_at_its_exit", TEMPLATE),
        ("hangs_at_its_exit", COLD),
        ("dies_at_its_exit", TEMPLATE),
    ],
)
def test_a_child_that_does_not_leave_as_it_should_has_done_its_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str, spawn: str
) -> None:
    """K2: Done is the verdict, whatever the process does after it; its slot is free when it has gone."""
    monkeypatch.setattr("supervisor.children.ladders.LEAVE_GRACE", 0.5)
    Meeting(tmp_path, APP, spawn).hold(how).is_done()


def test_a_thread_that_keeps_the_gil_after_the_last_word_keeps_no_slot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K2."""
    monkeypatch.setattr("supervisor.children.ladders.LEAVE_GRACE", 0.5)
    Meeting(tmp_path, APP).hold("keeps_the_gil_after_its_word").is_done()


def test_objects_whose_end_is_an_error_are_only_heard_in_the_log(tmp_path: Path) -> None:
    end = Meeting(tmp_path, APP).hold("has_objects_that_do_not_want_to_go").is_done()
    assert "RuntimeError: let me live" in end.attempt["log"]


RESULTS = {
    "an object": "not_json",
    "a dict of itself": "not_json",
    "no number": "not_json",
    "a huge text": "oversized",
    "a huge number": "oversized",
    "bytes": "not_json",
    "a class": "not_json",
    "a module": "not_json",
    "a lone surrogate": "not_json",
}


@pytest.mark.parametrize("what", RESULTS)
def test_a_result_of_any_nature_is_kept_as_a_bounded_description(tmp_path: Path, what: str) -> None:
    """B51, FIELD G3, FIELD G5: nothing that belongs to it is run."""
    end = Meeting(tmp_path, APP).hold("returns", what=what).is_told_as("done", None, "done")
    result = json.loads(end.row["result"])
    assert (result["projection"], result["reason"]) == ("bounded", RESULTS[what])
    assert len(end.row["result"]) <= 8192
