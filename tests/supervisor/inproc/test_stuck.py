"""Threads cannot be killed: what is said of those that hang, and what they can still do, which is nothing."""

import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from supervisor import events
from supervisor.run.serve import serve
from supervisor.told.status import status
from tests.supervisor.serving import House, wait_for

APP = str(Path(__file__).with_name("both_app.py"))


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path, workers=1, app=APP)


def warned(house: House, code: str) -> list[str]:
    return [one.text for one in house.of(events.Warned) if one.code == code]


def test_a_thread_that_is_overdue_is_left_behind_and_comes_back_for_nothing(
    house: House, tmp_path: Path
) -> None:
    """C125, U20: the attempt is over, another thread takes the place, and what comes late changes nothing."""
    file, back = tmp_path / "there", sys.modules["both_app"].back
    back.clear()
    late, next_one = house.enqueue("deaf", {"file": str(file)}), house.enqueue("slow")
    waits = house.enqueue("waits_for_back")

    def report(event: events.Event) -> None:
        house.events.append(event)
        match event:
            case events.AttemptEnded(job=job) if job == next_one:
                file.touch()
            case events.Warned(code="thread_back"):
                back.set()

    served = serve(house.application, house.settings, until_idle=True, report=report)
    assert (served.ended, served.stuck) == ("idle", False)
    (attempt,) = house.attempts(late)
    assert (house.job(late)["state"], attempt["outcome"]) == ("failed", "timed_out")
    assert attempt["kill"]["abandoned"] is True
    assert "until_there" in attempt["kill"]["stack"]
    assert "_bootstrap" not in attempt["kill"]["stack"], "our own end of the thread is not told"
    assert house.items(late) == [(0, "before")]
    assert house.job(next_one)["landed_rows"] == 1
    assert house.job(waits)["result"] == "true"
    assert warned(house, "thread_stuck") == [
        f"job #{late} (deaf): its thread does not leave and was left behind; another took its place"
    ]
    assert warned(house, "thread_back") == [f"job #{late} (deaf): the thread that was left behind has ended"]


def test_a_thread_that_hears_it_in_its_grace_is_not_left_behind(house: House) -> None:
    """U20."""
    job = house.enqueue("slow")
    house.serve()
    (attempt,) = house.attempts(job)
    assert (attempt["outcome"], attempt["kill"]["abandoned"]) == ("timed_out", False)
    assert "slow" in attempt["kill"]["stack"]
    assert house.items(job) == [(0, "before")], "what it yields once it is overdue does not land"
    assert warned(house, "thread_stuck") == []


def test_a_run_whose_thread_still_hangs_says_so(house: House, tmp_path: Path) -> None:
    """K11: whoever has been serving should end the process at once."""
    job = house.enqueue("hangs", {"file": str(tmp_path / "there")})
    served = house.serve()
    try:
        assert (served.ended, served.stuck) == ("idle", True)
        kill = house.attempts(job)[0]["kill"]
        assert kill["abandoned"] is True
        if sys.platform == "linux":
            line = f"#{job} has left thread {kill['thread']} stuck behind"
            assert line in status(house.home)["reasons"]
    finally:
        (tmp_path / "there").touch()
    wait_for(lambda: not [line for line in status(house.home)["reasons"] if "stuck behind" in line])


def test_a_run_that_is_stopped_leaves_a_hanging_thread_and_ends(house: House, tmp_path: Path) -> None:
    """K9, K11: a handler that had begun is not begun again by itself."""
    process = house.start()
    job = house.enqueue("waits_for_back")
    wait_for(lambda: house.job(job)["state"] == "running")
    process.terminate()
    out, err = process.communicate(timeout=30)
    assert process.returncode == 0, (out, err)
    assert house.job(job)["state"] == "failed"
    assert house.attempts(job)[0]["outcome"] == "interrupted"


def steps_for(seconds: float) -> int:
    """Return how many numbers take so long to add up here, now."""
    steps = 1 << 20
    while True:
        began = time.thread_time()
        sum(range(steps))
        if (took := time.thread_time() - began) > 0.05:
            return int(steps * seconds / took)
        steps *= 2


def test_a_handler_that_holds_the_interpreter_in_c_is_named(house: House) -> None:
    """K11: as a warning, and as an event of its job."""
    job: Any = house.enqueue("hogs", {"steps": steps_for(3.0)})
    house.serve()
    assert house.job(job)["state"] == "done"
    [line] = warned(house, "loop_stalled")
    assert line.startswith(f"job #{job} (hogs) kept the supervisor from turning for ")
    found = house.query("SELECT name FROM laneway_events WHERE job_id = ?", job)
    assert ("loop_stalled",) in found


def test_threads_and_descriptors_are_given_back(house: House) -> None:
    """U20: a run leaves nothing behind."""
    house.enqueue("answer", {"with": "text"})
    house.serve()
    before = threading.active_count(), len(os.listdir("/dev/fd"))
    house.enqueue("answer", {"with": "text"})
    house.serve()
    wait_for(lambda: threading.active_count() <= before[0])
    assert len(os.listdir("/dev/fd")) <= before[1]
