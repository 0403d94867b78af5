"""Killed means gone, on time, with the line where it hung (SPEC C126, C154; CONTRACTS K5)."""

import os
import signal
import threading
from pathlib import Path

import pytest

from ipc.keeper import Keeper
from supervisor import events
from supervisor.cli.lines import sentence
from tests.supervisor.serving import GALLERY, House, kill_session, offspring, wait_for

SLACK_MS = 2000.0
"""The benchmarks measure how late a kill is; here the machine may have other work."""


def kill_of(house: House, job: int) -> dict[str, object]:
    (attempt,) = house.attempts(job)
    assert attempt["outcome"] == "timed_out"
    assert attempt["kill"]["survivors"] == []
    return attempt["kill"]


def line_of(text: str) -> str:
    """Return FILE, line N as a stack names it, for the gallery's line that holds `text`."""
    with open(GALLERY) as file:
        number = next(n for n, line in enumerate(file, 1) if text in line)
    return f'"{GALLERY}", line {number} in'


@pytest.mark.parametrize(
    ("kind", "hangs_at"),
    [("wedged_in_c", "pause()  # holds the GIL"), ("runaway_regex", 're.match(r"(a+)+$"')],
)
def test_a_wedged_child_dies_of_term_on_time_and_says_where_it_hung(
    house: House, kind: str, hangs_at: str
) -> None:
    """C196, C126, C154, K5."""
    job = house.enqueue(kind)
    assert house.serve().ended == "idle"
    kill = kill_of(house, job)
    assert kill["rung"] == "term"
    assert kill["deadline_s"] == 0.5
    assert kill["late_ms"] < SLACK_MS
    assert line_of(hangs_at) in kill["stack"]
    assert len(house.items(job)) == 1, "the row before the wedge has landed"
    assert house.job(job)["state"] == "failed"
    assert house.job(job)["reason"] == "no batch for 0.5 s"


def test_a_child_that_ignores_term_is_killed_when_its_grace_is_over(house: House) -> None:
    """C126."""
    job = house.enqueue("ignores_term")
    house.serve()
    kill = kill_of(house, job)
    assert kill["rung"] == "kill"
    assert kill["took_ms"] >= 300
    assert line_of("time.sleep(0.01)  # deaf") in kill["stack"], "it is asked once more, by another signal"
    assert kill["late_ms"] < SLACK_MS
    assert house.items(job) == [(0, "before")]


def test_each_clock_names_itself(house: House) -> None:
    """K5: start_deadline to the first row, job_deadline over all."""
    started, endless = house.enqueue("slow_start"), house.enqueue("endless")
    house.serve()
    assert kill_of(house, started)["reason"] == "start_deadline"
    assert kill_of(house, endless)["reason"] == "job_deadline"
    assert house.job(started)["reason"] == "no row for 0.4 s"
    assert len(house.items(endless)) > 3


def test_a_batch_deadline_alone_also_bounds_the_time_to_the_first_row(house: House) -> None:
    """K5, FIELD A1: otherwise a child that hangs at once would hold its slot for ever."""
    job = house.enqueue("hangs_at_once")
    house.serve()
    assert kill_of(house, job)["reason"] == "batch_deadline"


def test_a_retry_that_hangs_behind_rows_that_had_landed_is_killed_as_well(house: House) -> None:
    """K4, K5: the first row of a replay is reported at once, so the batch clock runs."""
    job = house.enqueue("hangs_again")
    house.serve()
    attempts = house.attempts(job)
    assert [one["outcome"] for one in attempts] == ["timed_out", "timed_out"]
    assert [one["kill"]["reason"] for one in attempts] == ["batch_deadline", "batch_deadline"]
    assert house.items(job) == [(0, "before")]


def test_a_job_may_bring_its_own_deadline(house: House) -> None:
    """K5: per job at enqueue."""
    job = house.enqueue("sleepy", {"seconds": 3600}, batch_deadline=0.2, grace=0.2, max_attempts=1)
    house.serve()
    assert kill_of(house, job)["deadline_s"] == 0.2


def test_twenty_wedged_jobs_in_a_row_leave_the_rate_of_quick_ones_level_and_both_slots_usable(
    house: House, tmp_path: Path
) -> None:
    """C126, FIELD A9: wedged in C with the GIL and quick, in turn, on two slots; two more can then meet."""
    wedged, quick = [], []
    for _ in range(20):
        wedged.append(house.enqueue("wedged_in_c", batch_deadline=0.3))
        quick += [house.enqueue("quick"), house.enqueue("quick")]
    house.serve()
    for job in wedged:
        assert kill_of(house, job)["late_ms"] < SLACK_MS
    took = [took_of(house, job) for job in quick]
    first, last = min(took[:13]), min(took[-13:])
    print(f"QUICK {first * 1000:.1f} ms at first, {last * 1000:.1f} ms at last")
    assert last < 3 * first, "the quickest of a third: what else the machine does slows some of them"
    ended = [house.job(job)["finished_at"] for job in quick]
    early, late = ended[13] - ended[0], ended[-1] - ended[-14]
    print(f"RATE {13e6 / early:.1f} a second at first, {13e6 / late:.1f} at last")
    assert late < 2 * early
    one, other = str(tmp_path / "one"), str(tmp_path / "other")
    pair = [house.enqueue("meets", {"here": one, "there": other})]
    pair += [house.enqueue("meets", {"here": other, "there": one})]
    house.serve()
    assert [house.job(job)["state"] for job in pair] == ["done", "done"]


def took_of(house: House, job: int) -> float:
    """Return the seconds from the claim of a job's only attempt to its receipt, as the store has them."""
    (attempt,) = house.attempts(job)
    assert attempt["outcome"] == "done"
    return float(attempt["finished_at"] - attempt["claimed_at"]) / 1e6


def test_a_kill_leaves_no_zombie_and_no_descriptor(house: House) -> None:
    """FIELD A, LESSONS 12: the kill is complete when the child is reaped."""
    house.enqueue("wedged_in_c")
    house.serve()
    before, children = len(os.listdir("/proc/self/fd")), offspring()
    for kind in ("wedged_in_c", "ignores_term", "quick"):
        house.enqueue(kind)
    house.serve()
    assert len(os.listdir("/proc/self/fd")) == before
    assert offspring() == children


def test_a_sleeping_lander_does_not_hold_up_a_kill_in_another_lane(house: House, tmp_path: Path) -> None:
    """Promise 5: a lander that sleeps in its transaction until a wedged child is dead sees its end."""
    pid = str(tmp_path / "pid")
    wedged = house.enqueue("wedged_in_c", {"pid": pid})
    slow = house.enqueue("slow_lander", {"until_gone": pid})
    house.serve()
    assert kill_of(house, wedged)["rung"] == "term"
    assert house.job(slow)["state"] == "done"
    ended = {event.job: n for n, event in enumerate(house.events) if isinstance(event, events.AttemptEnded)}
    assert ended.keys() == {wedged, slow}


def test_a_child_that_nothing_ends_is_told_as_a_survivor_and_its_slot_is_freed(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OS.md 1, FIELD A7: state D cannot be made here at will, so all orders to its guardian are held back."""
    hold_orders_back(monkeypatch)
    monkeypatch.setattr("supervisor.children.ladders.end_below", lambda *_: set())
    job, after = house.enqueue("wedged_in_c"), house.enqueue("quick")
    assert house.serve().ended == "idle"
    (attempt,) = house.attempts(job)
    assert attempt["outcome"] == "timed_out"
    assert attempt["kill"]["rung"] == "unkillable"
    (survivor,) = attempt["kill"]["survivors"]
    assert attempt["exit"] is None
    assert house.job(after)["state"] == "done"
    (ended,) = (one for one in house.of(events.AttemptEnded) if one.job == job)
    assert f"killed, survivors: pid {survivor} (" in sentence(ended, 0), "never plainly killed"
    assert not Path(f"/proc/{survivor}").exists(), "its guardian had only to be asked"
    assert house.query("SELECT clean FROM laneway_runs") == [(1,)], "and so nothing is left to look for"


def test_a_child_whose_guardian_does_nothing_is_ended_without_it(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """FIELD A7: SIGKILL waits at one that is frozen, which needs root: here it is not told to do anything."""
    hold_orders_back(monkeypatch)
    job = house.enqueue("wedged_in_c")
    assert house.serve().ended == "idle"
    kill = kill_of(house, job)
    assert kill["rung"] == "guardian"
    assert house.attempts(job)[0]["exit"] == {"code": None, "signal": signal.SIGKILL}


def test_a_run_that_may_leave_somebody_behind_has_its_marker_looked_for(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K9: it ends as it should all the same, and nothing of it is recovered."""
    hold_orders_back(monkeypatch)
    monkeypatch.setattr("supervisor.children.ladders.end_below", lambda *_: set())
    keepers: list[Keeper] = []
    monkeypatch.setattr(Keeper, "let_go", lambda keeper: keepers.append(keeper))  # noqa: PLW0108 - a method
    house.enqueue("wedged_in_c")
    assert house.serve().ended == "idle"
    assert house.query("SELECT clean FROM laneway_runs") == [(3,)]
    wait_for(lambda: all(keeper.reap() for keeper in keepers))
    monkeypatch.undo()
    assert house.serve().ended == "idle"
    (_, started) = house.of(events.RunStarted)
    assert (started.died, started.recovered) == ((), ())


def hold_orders_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a guardian hear of nothing from the first order on that is to end its child."""
    held: set[Keeper] = set()

    def hold(name: str) -> None:
        really = getattr(Keeper, name)
        monkeypatch.setattr(Keeper, name, lambda keeper: None if keeper in held else really(keeper))

    monkeypatch.setattr("ipc.ladder.GUARDIAN_SECONDS", 0.1)
    monkeypatch.setattr("ipc.ladder.PATIENCE", 0.2)
    monkeypatch.setattr(Keeper, "term", lambda keeper: held.add(keeper))  # noqa: PLW0108 - it is a method
    for name in ("dump", "kill", "put_down"):
        hold(name)


def test_a_supervisor_that_was_stopped_for_a_while_kills_no_healthy_child(
    house: House, tmp_path: Path
) -> None:
    """K5, FIELD F1: time in which nobody ran is no silence of the child's."""
    ready = tmp_path / "ready"
    job = house.enqueue("stoppable", {"rows": 300, "ready": str(ready)}, batch_deadline=1.0)
    process = house.start("--until-idle")
    try:
        wait_for(lambda: house.job(job)["landed_rows"] > 3)
        everybody = [process.pid, *children_of(process.pid)]
        for pid in everybody:
            os.kill(pid, signal.SIGSTOP)
        threading.Event().wait(2.5)  # longer than the deadline, while all stand still
        for pid in everybody:
            os.kill(pid, signal.SIGCONT)
        process.communicate(timeout=30)
    finally:
        kill_session(process)
    assert [one["outcome"] for one in house.attempts(job)] == ["done"]
    assert len(house.items(job)) == 300


def children_of(pid: int) -> list[int]:
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
