"""When a child that has finished a job is not given another one.

What went wrong is named before what was agreed, so that it is seen where each child runs one job anyway.
"""

from enum import StrEnum
from typing import Final

from policies.options import Options

GROWTH: Final = 2.0
"""A child may hold so many times what it held after its first job."""
GROWTH_GIB: Final = 0.25
"""GiB that it may grow by all the same: a small child doubles easily, by a cache or a lazy import."""


class Recycle(StrEnum):
    """Why a child is replaced."""

    OVERRUN = "overrun"
    LEFTOVERS = "leftovers"
    GROWTH = "growth"
    LIMIT = "limit"


def recycle(
    jobs: int, options: Options, *, overran: bool, leftovers: int, rss_first: float, rss_now: float
) -> Recycle | None:
    """Say why a child that has just finished a job is not given another, None to keep it.

    Args:
        jobs: how many it has run, this one included.
        options: the limits of its kind.
        overran: the job ended in any other way than by the child's own word.
        leftovers: how many processes that it started still run.
        rss_first: GiB that it held after its first job, 0.0 where the system does not say.
        rss_now: GiB that it holds now, likewise.
    """
    if overran:
        return Recycle.OVERRUN
    if leftovers:
        return Recycle.LEFTOVERS
    if has_grown(rss_first, rss_now):
        return Recycle.GROWTH
    return Recycle.LIMIT if jobs >= options.jobs_per_child else None


def has_grown(rss_first: float, rss_now: float) -> bool:
    """Tell whether a child holds far more than after its first job, both in GiB; an unknown start is none."""
    return rss_first > 0 and rss_now > max(GROWTH * rss_first, rss_first + GROWTH_GIB)
