"""The quick form of `make chaos`: a hundred kills from new seeds, and proof that violations are seen."""

import os
import random
import signal
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from tests.chaos.figures import Figures
from tests.chaos.runner import Chaos, Violation
from tests.chaos.schedule import LANES, LAST, POINTS, Act, Round, Step, draw

pytestmark = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="looks for children in /proc")


@pytest.mark.timeout(240)
@pytest.mark.parametrize("half", ["first", "second"])
def test_a_supervisor_killed_fifty_times_at_random_points_loses_nothing_and_repeats_nothing(
    tmp_path: Path, half: str
) -> None:
    """C190, A20, A22, B25, K1, K2, K4, K9, U3, U10, U41: all three resume modes, each row exactly once."""
    seed = random.randrange(10**6)
    chaos = Chaos(tmp_path, seed, print)
    try:
        figures = chaos.run(50, max_seconds=200.0)
    except Violation as wrong:
        pytest.fail(f"seed {seed}, {wrong}")
    assert figures.kills.total() == 50
    assert figures.jobs["done"] > 10
    assert figures.rows > 1000


def test_a_violation_tells_the_round_and_what_was_violated(tmp_path: Path) -> None:
    chaos = Chaos(tmp_path, 1, print)
    chaos._open()
    with closing(sqlite3.connect(chaos.home / "store.db", isolation_level=None)) as db:
        db.execute("PRAGMA wal_autocheckpoint = 0")
        db.execute("INSERT INTO chaos_rows SELECT * FROM chaos_rows ORDER BY rowid LIMIT 1")
    with pytest.raises(Violation) as raised:
        chaos._play(draw(Random(1), 6))
    said = str(raised.value)
    assert said.startswith("round 2 (LANEWAY_FAULTS=")
    assert "SIGKILL" in said
    assert "a row is missing, repeated or out of order" in said


def test_a_process_that_outlives_its_run_is_seen_also_where_its_guardian_died_with_it_once_the_next_began(
    tmp_path: Path,
) -> None:
    """K9, U41: the start of that run is what ends it."""
    chaos = Chaos(tmp_path, 1, print)
    chaos._open()
    with closing(sqlite3.connect(chaos.home / "store.db")) as db:
        ((marker,),) = db.execute("SELECT marker FROM laneway_runs").fetchall()
    with subprocess.Popen(["sleep", "100"], env={**os.environ, "LANEWAY_MARKER": marker}) as left:
        try:
            (said,) = chaos._left_running()
            assert str(left.pid) in said
            chaos._unguarded = marker
            assert chaos._left_running() == []
            chaos._play(Round((), (Step(3.0, Act.KILL),)))
            assert left.wait(10) == -signal.SIGKILL
        finally:
            left.kill()


def test_a_seed_means_one_schedule_and_in_time_it_means_every_point_lane_and_act() -> None:
    def rounds(seed: int) -> list[str]:
        dice = Random(seed)
        return [str(draw(dice, n % 8)) for n in range(100)]

    assert rounds(5) == rounds(5)
    assert rounds(5) != rounds(6)
    dice = Random(7)
    drawn = [draw(dice, 3) for _ in range(3000)]
    assert {one.deadly_point for one in drawn} == {None, *POINTS}
    steps = [step for one in drawn for step in one.steps]
    assert {step.act for step in steps} == set(Act)
    assert {step.kind for step in steps if step.kind} == set(LANES)
    actions = {fault.split(":")[1].split("@")[0].split("=")[0] for one in drawn for fault in one.faults}
    assert actions == {"kill", "delay", "raise", "ioerr", "full", "readonly"}


def test_every_round_ends_with_a_kill_from_outside_at_the_latest() -> None:
    """A run cannot hang: whatever a supervisor does, its time is up."""
    dice = Random(8)
    for _ in range(300):
        drawn = draw(dice, 3)
        assert drawn.steps[-1].act in LAST
        assert [step.at for step in drawn.steps] == sorted(step.at for step in drawn.steps)


def test_the_summary_tells_the_figures() -> None:
    figures = Figures(rounds=3, attempts=5, rows=1234, seconds=9.0, slowest_gone=0.05)
    figures.kills.update(["land.applied", "land.applied", "from outside"])
    figures.jobs["done"] = 4
    text = "\n".join(figures.lines())
    for part in (
        "3 kills in 9 s",
        "50 ms",
        "done 4",
        "5 attempts",
        "1,234 rows",
        "land.applied 2, from outside 1",
    ):
        assert part in text
