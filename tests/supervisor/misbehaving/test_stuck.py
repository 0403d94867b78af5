"""Children that never come back: stopped by their clock, wherever they are, and the receipt says where."""

from pathlib import Path

import pytest

from tests.supervisor.misbehaving.meeting import COLD, TEMPLATE, Meeting

STUCK = {
    "in_c_with_the_gil": "holding.pause()",
    "in_c_without_the_gil": "letting_go.pause()",
    "in_a_recv_in_c": "create_string_buffer(9), 9, 0)",
    "in_a_recv_in_c_with_the_gil": "create_string_buffer(8), 8, 0)",
    "in_a_regex": "re.match(",
    "in_a_power": "7 ** (10**9)",
    "in_an_endless_sum": "sum(itertools",
    "in_a_busy_loop": None,
    "in_a_lock_of_its_own": "lock.acquire(timeout=-1)",
    "in_an_empty_queue": "SimpleQueue[int]().get()",
    "in_a_thread_that_never_ends": "thread.join()",
    "in_a_pipe_that_nobody_reads": "os.write(write",
    "in_a_fifo_that_nobody_writes": 'os.open(f"fifo',
    "in_a_file_lock": "fcntl.flock(other",
    "in_a_program_that_it_waits_for": "program.wait()",
    "in_an_answer_to_its_read": "threading.Event().wait()",
}
"""Where a child is stuck, and what the line says at which it is, where that is only one."""


@pytest.mark.parametrize("where", STUCK)
def test_a_child_that_never_comes_back_dies_of_sigterm_and_says_where_it_was(
    tmp_path: Path, where: str
) -> None:
    """C126, C154, K5, FIELD A1."""
    end = Meeting(tmp_path, "stuck_children").hold(where)
    end.is_told_as("timed_out", "batch_deadline", "no batch for 0.5 s")
    end.is_killed(by="term", stuck_at=STUCK[where]).has_died_of(signal=15)
    assert f" in {where}" in end.kill["stack"]
    assert end.kill["ended"] == (2 if where == "in_a_program_that_it_waits_for" else 1)
    assert end.rows[0] == (0, "before"), "what came before the deed has landed"


def test_a_child_that_holds_the_gil_for_a_while_is_not_stuck(tmp_path: Path) -> None:
    """FIELD A11, LESSONS 10: nobody waits for a sign of life that it could not give."""
    Meeting(tmp_path, "stuck_children").hold("in_c_with_the_gil_for_a_while").is_done()


@pytest.mark.parametrize("where", ["in_c_with_the_gil", "in_a_recv_in_c", "in_a_busy_loop"])
def test_one_that_was_started_by_itself_dies_and_tells_the_same(tmp_path: Path, where: str) -> None:
    """C126, FIELD A1, FIELD H7."""
    end = Meeting(tmp_path, "stuck_children", COLD).hold(where)
    end.is_told_as("timed_out", "batch_deadline", "no batch for 0.5 s")
    end.is_killed(by="term", stuck_at=STUCK[where]).has_died_of(signal=15)
    assert TEMPLATE not in end.on_screen()
