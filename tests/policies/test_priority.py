"""Which job goes first."""

from hypothesis import given
from hypothesis import strategies as st

from policies.job import MICROS, Head
from policies.priority import Aging, effective_priority, in_claim_order

PRIORITIES = st.integers(-20, 150)


def aged(priority: int, seconds: float) -> int:
    return effective_priority(priority, 0, int(seconds * MICROS))


def test_a_job_grows_ten_more_urgent_for_every_full_900_seconds() -> None:
    """C80, C81."""
    assert [aged(100, s) for s in (0, 899.999999, 900, 1799, 1800)] == [100, 100, 90, 90, 80]


def test_a_step_below_the_unit_of_time_ages_at_once_and_breaks_nothing() -> None:
    """C80: a setting may be as small as it likes."""
    assert effective_priority(50, 0, 1, Aging(step_seconds=1e-9)) == 40


def test_aging_ends_at_the_floor() -> None:
    """C80, C81."""
    assert [aged(100, s) for s in (8099, 8100, 9000, 1e9)] == [20, 10, 10, 10]
    assert aged(55, 5 * 900) == 10


@given(st.integers(-20, 10), st.floats(0, 1e9))
def test_what_is_urgent_already_keeps_its_priority(priority: int, seconds: float) -> None:
    """C80."""
    assert aged(priority, seconds) == priority


@given(PRIORITIES, st.floats(-1e9, 0))
def test_a_clock_that_was_set_back_ages_nothing(priority: int, seconds: float) -> None:
    """C82."""
    assert aged(priority, seconds) == priority


def test_background_ties_interactive_in_the_end_and_never_passes_reactive() -> None:
    """C81, U35."""
    now = 10**6 * MICROS
    background = Head(1, "a", 100, 0)
    interactive = Head(2, "b", 10, now)
    reactive = Head(3, "c", 0, now)
    assert in_claim_order([interactive, reactive, background], now) == [reactive, background, interactive]


def test_within_a_priority_the_longest_waiting_goes_first_then_the_lower_id() -> None:
    """C79, U15, U16."""
    late, early, twin = Head(1, "a", 50, 9), Head(2, "a", 50, 5), Head(3, "b", 50, 5)
    assert in_claim_order([late, twin, early], 10) == [early, twin, late]


HEADS = st.lists(
    st.builds(Head, st.integers(1, 99), st.sampled_from("ab"), PRIORITIES, st.integers(0, 10**11)),
    unique_by=lambda head: head.job,
)


@given(HEADS, st.integers(0, 10**11))
def test_the_order_is_total_and_better_priority_never_comes_later(heads: list[Head], now: int) -> None:
    """U15."""
    ordered = in_claim_order(heads, now)
    assert ordered == in_claim_order(reversed(heads), now)
    assert sorted(ordered, key=lambda head: head.job) == sorted(heads, key=lambda head: head.job)
    effective = [effective_priority(head.priority, head.waiting_since, now) for head in ordered]
    assert effective == sorted(effective)
