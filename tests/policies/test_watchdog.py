"""Which readings are alarming, and that one alarm is one job."""

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies import routing
from policies.job import Priority
from policies.readings import MemoryReading
from policies.watchdog import KIND, LEAST_MEMORY, MEMORY, Watch, flags, has_cleared, rising

GB = 10**9
AVAILABLE = st.none() | st.integers(0, 4 * GB) | st.sampled_from([LEAST_MEMORY + d for d in (-1, 0, 1)])


def reading(available: int | None) -> MemoryReading:
    return MemoryReading(available=available, source="/proc/meminfo")


def risen_over(available: list[int | None]) -> list[int]:
    """The places in a series of readings at which a flag rose."""
    watch, places = Watch(), []
    for place, size in enumerate(available):
        watch = rising(watch, reading(size))
        places += [place] * len(watch.risen)
    return places


@pytest.mark.parametrize(
    ("available", "flagged"), [(0, 1), (LEAST_MEMORY - 1, 1), (LEAST_MEMORY, 0), (LEAST_MEMORY + 1, 0)]
)
def test_there_is_a_flag_only_under_two_gb_and_not_at_it(available: int, flagged: int) -> None:
    """C114."""
    assert len(flags(reading(available))) == flagged


def test_a_flag_says_metric_value_threshold_and_a_note() -> None:
    """C114."""
    (flag,) = flags(reading(5 * GB), threshold=6 * GB)
    assert (flag.metric, flag.value, flag.threshold) == ("memory_available", 5 * GB, 6 * GB)
    assert flag.note == "less than 6 GB of memory is available (/proc/meminfo)"


def test_no_reading_is_no_flag() -> None:
    """C114, U28."""
    assert flags(MemoryReading()) == ()
    assert rising(Watch(), MemoryReading()) == Watch()


def test_a_flag_rises_once_however_long_it_stands() -> None:
    """C115: one job, not one a second."""
    assert risen_over([3 * GB, *[GB] * 1000]) == [1]


def test_a_reading_that_hovers_about_the_threshold_makes_one_job() -> None:
    """C115."""
    assert risen_over([LEAST_MEMORY - 1, LEAST_MEMORY + 1] * 100) == [0]


def test_a_reading_that_is_missing_for_a_while_makes_no_second_job() -> None:
    """C115, U28: what nobody can tell has not become better."""
    assert risen_over([GB, None, GB, None, None, GB]) == [0]


def test_a_flag_rises_again_once_there_was_a_tenth_more_than_its_threshold() -> None:
    """C115."""
    assert risen_over([GB, 2_199_999_999, GB, 2_200_000_000, GB]) == [0, 4]
    assert risen_over([GB, 2_200_000_000, LEAST_MEMORY, LEAST_MEMORY - 1]) == [0, 3]


def test_what_has_risen_is_told_in_the_turn_in_which_it_rose_only() -> None:
    """C115."""
    first = rising(Watch(), reading(GB))
    assert [flag.value for flag in first.risen] == [GB]
    assert rising(first, reading(GB)) == Watch(frozenset({MEMORY}))


@given(st.lists(AVAILABLE, max_size=60))
def test_between_two_jobs_there_was_always_a_tenth_more_than_the_threshold(
    available: list[int | None],
) -> None:
    """C115: hysteresis."""
    places = risen_over(available)
    for place in places:
        assert flags(reading(available[place]))
    for earlier, later in pairwise(places):
        assert any(has_cleared(reading(size)) for size in available[earlier + 1 : later])


@given(st.lists(AVAILABLE, max_size=60), st.integers(0, LEAST_MEMORY - 1))
def test_an_alarm_is_never_swallowed(available: list[int | None], low: int) -> None:
    """C115: after every reading that is low a job has been asked for since things were last well."""
    series: list[int | None] = [*available, low]
    cleared = max((n for n, size in enumerate(series) if has_cleared(reading(size))), default=-1)
    assert [place for place in risen_over(series) if place > cleared] != []


@given(AVAILABLE, st.integers(1, 10 * GB))
def test_nothing_is_low_and_plentiful_at_once(available: int | None, threshold: int) -> None:
    """C114."""
    assert not (flags(reading(available), threshold) and has_cleared(reading(available), threshold))


def test_its_jobs_are_reactive_and_equal_while_they_wait() -> None:
    """C115: dispatched at the next boundary; a value, which differs each time, would keep two apart."""
    (one,), (other,) = flags(reading(GB)), flags(reading(2))
    assert one.payload == other.payload == json.loads(json.dumps(one.payload))
    assert routing.route(KIND, windows={}).priority == Priority.REACTIVE
