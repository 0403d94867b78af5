"""The clocks of one attempt, turned by hand."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies import deadlines
from policies.deadlines import Clock, Clocks, Overdue
from policies.options import Options

ALL_OFF = Options()
START = Options(start_deadline=10)
BATCH = Options(batch_deadline=10)
JOB = Options(job_deadline=100)


def started(spent: float = 0.0) -> Clocks:
    return deadlines.began(1000.0, spent)


def test_all_clocks_are_off_by_default() -> None:
    """K5."""
    clocks = deadlines.received(started(), 1001)
    assert deadlines.first_due(clocks, ALL_OFF) is None
    assert deadlines.overdue(clocks, ALL_OFF, 1e9) is None


def test_the_start_clock_runs_from_run_to_the_first_batch() -> None:
    """K5."""
    due = Overdue(Clock.START, 10, 1010)
    assert deadlines.first_due(started(), START) == due
    assert deadlines.overdue(started(), START, 1009.99) is None
    assert deadlines.overdue(started(), START, 1010) == due
    assert deadlines.first_due(deadlines.received(started(), 1009), START) is None


def test_the_batch_clock_waits_for_the_first_batch_where_a_start_clock_bounds_that() -> None:
    """K5; without a start clock a child that hangs at once would never be missed."""
    both = replace(BATCH, start_deadline=10_000)
    assert deadlines.first_due(started(), both) == Overdue(Clock.START, 10_000, 11_000)
    assert deadlines.first_due(started(), BATCH) == Overdue(Clock.BATCH, 10, 1010)
    assert deadlines.first_due(deadlines.received(started(), 1050), both) == Overdue(Clock.BATCH, 10, 1060)
    assert deadlines.first_due(deadlines.received(started(), 1050), BATCH) == Overdue(Clock.BATCH, 10, 1060)


def test_each_whole_batch_or_replay_report_restarts_the_batch_clock() -> None:
    """K5."""
    clocks = deadlines.received(started(), 1050)
    clocks = deadlines.received(clocks, 1059)
    assert deadlines.overdue(clocks, BATCH, 1068) is None
    assert deadlines.overdue(clocks, BATCH, 1069) == Overdue(Clock.BATCH, 10, 1069)


def test_the_batch_clock_stands_still_while_the_child_cannot_work() -> None:
    """K5: no credit, or a read unanswered."""
    clocks = deadlines.received(started(), 1050)
    clocks = deadlines.stopped(clocks, 1054)
    assert deadlines.first_due(clocks, BATCH) is None
    clocks = deadlines.resumed(clocks, 2000)
    assert deadlines.first_due(clocks, BATCH) == Overdue(Clock.BATCH, 10, 2006)


def test_stopping_twice_and_resuming_twice_counts_once() -> None:
    """K5."""
    clocks = deadlines.received(started(), 1050)
    once = deadlines.stopped(clocks, 1054)
    assert deadlines.stopped(once, 1060) == once
    again = deadlines.resumed(once, 1070)
    assert deadlines.resumed(again, 1075) == again


def test_a_batch_that_arrives_while_the_clock_is_stopped_does_not_start_it() -> None:
    """K5: the batch that used up the credit."""
    clocks = deadlines.stopped(deadlines.received(started(), 1050), 1054)
    clocks = deadlines.received(clocks, 1055)
    assert deadlines.first_due(clocks, BATCH) is None
    assert deadlines.first_due(deadlines.resumed(clocks, 1100), BATCH) == Overdue(Clock.BATCH, 10, 1110)


def test_a_gap_in_which_nobody_ran_is_taken_off_every_clock() -> None:
    """K5: sleep, SIGSTOP."""
    both = Options(start_deadline=10, job_deadline=15)
    asleep = deadlines.slept(started(), 500)
    assert deadlines.first_due(asleep, both) == Overdue(Clock.START, 10, 1510)
    assert deadlines.awake(asleep, 1505) == 5
    at_work = deadlines.slept(deadlines.received(started(), 1050), 500)
    assert deadlines.first_due(at_work, BATCH) == Overdue(Clock.BATCH, 10, 1560)
    held = deadlines.slept(deadlines.stopped(deadlines.received(started(), 1050), 1054), 500)
    assert deadlines.first_due(deadlines.resumed(held, 1600), BATCH) == Overdue(Clock.BATCH, 10, 1606)


def test_the_job_clock_sums_the_awake_time_of_earlier_attempts() -> None:
    """K5."""
    clocks = started(spent=60)
    assert deadlines.first_due(clocks, JOB) == Overdue(Clock.JOB, 100, 1040)
    assert deadlines.awake(clocks, 1025) == 85


def test_neither_batches_nor_pauses_move_the_job_clock() -> None:
    """K5."""
    clocks = deadlines.stopped(deadlines.received(started(), 1030), 1040)
    assert deadlines.overdue(clocks, JOB, 1100) == Overdue(Clock.JOB, 100, 1100)


def test_the_limit_that_is_reached_first_is_named() -> None:
    """K5."""
    limits = Options(start_deadline=50, batch_deadline=10, job_deadline=40)
    assert deadlines.overdue(started(), limits, 1100) == Overdue(Clock.JOB, 40, 1040)
    assert deadlines.overdue(deadlines.received(started(), 1005), limits, 1100) == Overdue(
        Clock.BATCH, 10, 1015
    )


STEPS = st.lists(
    st.tuples(st.sampled_from(["received", "stopped", "resumed", "slept"]), st.floats(0, 100)), max_size=30
)


@given(STEPS)
def test_the_batch_clock_counts_exactly_the_seconds_in_which_the_child_could_work(
    steps: list[tuple[str, float]],
) -> None:
    """K5, against a plain count."""
    clocks, now = deadlines.received(started(), 1000), 1000.0
    worked, running = 0.0, True
    for step, seconds in steps:
        now += seconds
        if step == "slept":
            clocks = deadlines.slept(clocks, seconds)
            continue
        worked += seconds if running else 0
        if step == "received":
            clocks, worked = deadlines.received(clocks, now), 0.0
        else:
            running = step == "resumed"
            clocks = (deadlines.resumed if running else deadlines.stopped)(clocks, now)
    due = deadlines.first_due(clocks, Options(batch_deadline=1e6))
    assert (due is not None) == running
    if due is not None:
        assert due.at - now == pytest.approx(1e6 - worked, abs=1e-3)
