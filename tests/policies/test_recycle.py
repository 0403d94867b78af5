"""When a child goes after its job, and that it stays otherwise."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.options import Options
from policies.recycle import Recycle, recycle

LASTING = Options(jobs_per_child=10)
GIB = st.floats(0, 1e6)


def judged(
    jobs: int = 1,
    options: Options = LASTING,
    *,
    overran: bool = False,
    leftovers: int = 0,
    rss: tuple[float, float] = (0.1, 0.1),
) -> Recycle | None:
    return recycle(jobs, options, overran=overran, leftovers=leftovers, rss_first=rss[0], rss_now=rss[1])


def test_a_child_runs_one_job_by_default() -> None:
    """K13."""
    assert judged(options=Options()) == "limit"


def test_a_child_that_may_run_more_goes_when_it_has_run_them_all() -> None:
    assert [judged(jobs=jobs) for jobs in (1, 9, 10, 11)] == [None, None, "limit", "limit"]


def test_a_child_that_did_not_end_its_job_by_its_own_word_is_not_trusted_again() -> None:
    assert judged(overran=True) == "overrun"


def test_a_child_whose_processes_still_run_takes_them_with_it() -> None:
    assert [judged(leftovers=number) for number in (0, 1, 7)] == [None, "leftovers", "leftovers"]


@pytest.mark.parametrize(
    ("first", "now", "reason"),
    [
        (0.1, 0.35, None),
        (0.1, 0.36, "growth"),
        (0.25, 0.5, None),
        (0.25, 0.51, "growth"),
        (2.0, 3.9, None),
        (2.0, 4.1, "growth"),
        (1.0, 0.2, None),
    ],
)
def test_a_child_goes_when_it_has_doubled_and_grown_by_a_quarter_of_a_gib(
    first: float, now: float, reason: str | None
) -> None:
    """A small child doubles by a cache, a large one grows by a quarter GiB as it breathes: both must hold."""
    assert judged(rss=(first, now)) == reason


def test_a_child_of_unknown_size_has_not_grown() -> None:
    """Where the system does not say, no healthy child goes for it (LESSONS 10)."""
    assert judged(rss=(0.0, 5.0)) is None
    assert judged(rss=(5.0, 0.0)) is None


def test_what_went_wrong_is_named_before_what_was_agreed() -> None:
    grown = (1.0, 9.0)
    assert judged(jobs=10, overran=True, leftovers=1, rss=grown) is Recycle.OVERRUN
    assert judged(jobs=10, leftovers=1, rss=grown) is Recycle.LEFTOVERS
    assert judged(jobs=10, rss=grown) is Recycle.GROWTH


@given(st.integers(1, 30), st.booleans(), st.integers(0, 5), GIB, GIB)
def test_a_child_stays_only_if_nothing_at_all_speaks_against_it(
    jobs: int, overran: bool, leftovers: int, first: float, now: float
) -> None:
    kept = judged(jobs=jobs, overran=overran, leftovers=leftovers, rss=(first, now)) is None
    calm = first == 0 or now <= 2 * first or now <= first + 0.25
    assert kept == (calm and jobs < 10 and not overran and leftovers == 0)
