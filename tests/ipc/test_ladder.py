"""The stop ladder as a pure function (SPEC C126, LESSONS 12)."""

from dataclasses import replace

import pytest

from ipc.ladder import BEFORE_KILL, GUARDIAN_SECONDS, PATIENCE, Climb, Rung, next_rung

CLIMB = Climb(decided=100.0, grace=5.0)


def climbed(climb: Climb) -> list[tuple[Rung, float]]:
    """Return all rungs from here to the top, each with when it is due."""
    rungs = []
    while (rung := next_rung(climb)) is not None:
        rungs.append(rung)
        climb = replace(climb, last=rung[0])
    return rungs


def test_the_rungs_are_term_dump_kill_after_the_grace_the_guardian_and_then_the_truth() -> None:
    """C126."""
    assert climbed(CLIMB) == [
        (Rung.TERM, 100.0),
        (Rung.DUMP, 102.5),
        (Rung.KILL, 105.0),
        (Rung.GUARDIAN, 105.0 + GUARDIAN_SECONDS),
        (Rung.UNKILLABLE, 105.0 + PATIENCE),
    ]


def test_who_may_tidy_up_is_asked_first_and_has_no_longer_for_that() -> None:
    """CONTRACTS K6: half of the grace to leave by itself, the other half as ever."""
    assert climbed(replace(CLIMB, asks=True))[:4] == [
        (Rung.ASK, 100.0),
        (Rung.TERM, 102.5),
        (Rung.DUMP, 103.75),
        (Rung.KILL, 105.0),
    ]


@pytest.mark.parametrize("asks", [False, True])
def test_without_grace_the_first_rung_is_kill(*, asks: bool) -> None:
    assert climbed(Climb(100.0, grace=0.0, asks=asks))[0] == (Rung.KILL, 100.0)


@pytest.mark.parametrize("asks", [False, True])
@pytest.mark.parametrize("grace", [0.0, 0.25, 5.0, 600.0])
@pytest.mark.parametrize("rss_gib", [0.0, 1.5, 300.0])
def test_no_rung_is_due_before_the_one_below_it(*, asks: bool, grace: float, rss_gib: float) -> None:
    """C126: KILL comes exactly when the grace is over, whatever a child was asked before."""
    rungs = climbed(Climb(100.0, grace, rss_gib, asks))
    assert [due for _, due in rungs] == sorted(due for _, due in rungs)
    assert dict(rungs)[Rung.KILL] == 100.0 + grace
    before = {name for name, _ in rungs[: [name for name, _ in rungs].index(Rung.KILL)]}
    assert before <= BEFORE_KILL
    assert rungs[-1][0] is Rung.UNKILLABLE


def test_a_process_that_holds_much_memory_is_given_longer_to_go() -> None:
    """OS.md 1: SIGKILL of 3 GiB took 205 ms."""
    large = dict(climbed(replace(CLIMB, rss_gib=30.0)))
    assert large[Rung.KILL] == 105.0
    assert large[Rung.GUARDIAN] > 105.0 + GUARDIAN_SECONDS + 2.0
    assert large[Rung.UNKILLABLE] > 105.0 + PATIENCE + 2.0
