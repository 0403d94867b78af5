"""The stop ladder as a pure function (SPEC C126, LESSONS 12)."""

from dataclasses import replace

from ipc.ladder import PATIENCE, Climb, Rung, next_rung

CLIMB = Climb(decided=100.0, grace=5.0)


def test_the_rungs_are_term_then_dump_then_kill_after_the_grace_then_the_truth() -> None:
    """C126."""
    assert next_rung(CLIMB) == (Rung.TERM, 100.0)
    assert next_rung(replace(CLIMB, last=Rung.TERM)) == (Rung.DUMP, 102.5)
    assert next_rung(replace(CLIMB, last=Rung.DUMP)) == (Rung.KILL, 105.0)
    assert next_rung(replace(CLIMB, last=Rung.KILL)) == (Rung.UNKILLABLE, 105.0 + PATIENCE)
    assert next_rung(replace(CLIMB, last=Rung.UNKILLABLE)) is None


def test_without_grace_the_first_rung_is_kill() -> None:
    climb = replace(CLIMB, grace=0.0)
    assert next_rung(climb) == (Rung.KILL, 100.0)


def test_a_process_that_holds_much_memory_is_given_longer_to_go() -> None:
    climb = replace(CLIMB, last=Rung.KILL, rss_gib=30.0)
    rung = next_rung(climb)
    assert rung is not None
    assert rung[1] > 105.0 + PATIENCE + 2.0
