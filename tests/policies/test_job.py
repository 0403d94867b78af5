"""The words of a job."""

from typing import Any

import pytest

from policies.job import ENDED, IN_FLIGHT, WAITING, Outcome, Priority, Resume, State, as_id


def test_every_state_is_waiting_in_flight_or_ended_and_only_one_of_them() -> None:
    """A17, U1, C71."""
    assert set(State) == WAITING | IN_FLIGHT | ENDED
    assert len(WAITING) + len(IN_FLIGHT) + len(ENDED) == len(State) == 10
    assert {State.LEASED, State.RUNNING} == IN_FLIGHT
    assert {State.PENDING, State.QUEUED, State.DEFERRED} == WAITING


def test_the_outcomes_of_an_attempt_are_the_pinned_nine() -> None:
    """K15."""
    pinned = "done, skipped, failed, died, timed_out, memory, cancelled, interrupted, yielded"
    assert ", ".join(Outcome) == pinned


def test_resume_has_three_modes() -> None:
    """K4."""
    assert set(Resume) == {"replay", "checkpoint", "restart"}


def test_priorities_are_lower_first() -> None:
    """C72."""
    assert (Priority.REACTIVE, Priority.INTERACTIVE, Priority.DEFAULT, Priority.BACKGROUND) == (
        0,
        10,
        50,
        100,
    )


@pytest.mark.parametrize("number", [0, -1, -(2**70), 2**63, 10**30, True, "1", 1.0, None])
def test_what_is_no_number_that_a_row_can_have_is_looked_up_as_zero(number: Any) -> None:
    assert as_id(number) == 0


@pytest.mark.parametrize("number", [1, 2**63 - 1])
def test_a_number_that_a_row_can_have_is_looked_up_as_it_is(number: int) -> None:
    assert as_id(number) == number
