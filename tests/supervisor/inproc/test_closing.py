"""A handler closes descriptors of the process that it shares: the run ends, and nothing else is harmed."""

import sys
from pathlib import Path

import pytest

from tests.supervisor.serving import House, kill_session, wait_for

APP = str(Path(__file__).with_name("closing_app.py"))
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="finds them in /proc")


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path, workers=1, app=APP)


def severed(house: House, folder: Path, what: str, **more: bool) -> tuple[int, int, str, str]:
    """Have a run end by what a handler does; return the jobs that it had, and what it said."""
    facts = {"folder": str(folder), "home": str(house.home)}
    steady = house.enqueue("steady", facts)
    closes = house.enqueue("closes", facts | {"what": what} | more)
    process = house.start("--until-idle")
    try:
        out, err = process.communicate(timeout=60)
    finally:
        kill_session(process)
    assert process.returncode == 4, (out, err)
    assert "Traceback" not in out + err
    pid = Path("/proc", (folder / "pid").read_text())
    wait_for(lambda: not pid.exists())
    return steady, closes, out, err


def goes_on(house: House, folder: Path, steady: int, closes: int) -> None:
    """Check that the next run settles what is left, and does the rest."""
    (folder / "go").touch()
    assert house.serve().ended == "idle"
    assert house.job(steady)["state"] == "done"
    assert house.query("SELECT count(*), max(n) FROM items") == [(200, 199)]
    assert house.job(closes)["state"] == "failed"
    assert house.job(closes)["reason"] == "orphaned by unclean exit of run #1"


@pytest.mark.parametrize(
    ("what", "named"),
    [
        ("everything", "the loop's wait (descriptor "),
        ("the wait", "the loop's wait (descriptor "),
        ("the bell's near end", "what the loop waits for (descriptor "),
        ("the bell's far end", "the loop's bell (descriptor "),
        ("the store", "the store (descriptor "),
        ("the log of the store", "the store (descriptor "),
        ("the index of that", "the store (descriptor "),
        ("the turnstile", "the store (descriptor "),
        ("the lock", "the lock of this run (descriptor "),
        ("sockets", "(descriptor "),
        ("pipes", "(descriptor "),
        ("stacks", "(descriptor "),
        ("stdout", "stdout (descriptor 1)"),
    ],
)
def test_a_run_whose_descriptors_are_closed_by_a_handler_ends_with_one_line_and_leaves_nothing_behind(
    house: House, tmp_path: Path, what: str, named: str
) -> None:
    """K11: whatever is closed, the run says who was there, ends its children, and loses no job."""
    steady, closes, _out, err = severed(house, tmp_path, what)
    [line] = err.splitlines()
    assert line.startswith("error: ")
    assert named in line
    assert line.endswith(
        f" was closed or replaced by code in this process, where job #{closes} (closes) ran;"
        " the next start settles what is left"
    )
    goes_on(house, tmp_path, steady, closes)


def test_a_run_that_has_lost_its_stderr_says_that_it_broke_where_it_can(house: House, tmp_path: Path) -> None:
    """K11."""
    steady, closes, out, _err = severed(house, tmp_path, "stderr")
    assert out.splitlines()[-1] == "broken: 0 done, 0 failed"
    goes_on(house, tmp_path, steady, closes)


@pytest.mark.parametrize("what", ["the store", "the log of the store", "the bell's far end"])
def test_nothing_is_written_to_what_a_handler_opens_in_the_place_of_what_it_closed(
    house: House, tmp_path: Path, what: str
) -> None:
    """K1, K11: what could not be written is not acknowledged, so it comes again."""
    steady, closes, _out, _err = severed(house, tmp_path, what, take=True)
    assert [file.name for file in tmp_path.glob("taken-*") if file.stat().st_size] == []
    goes_on(house, tmp_path, steady, closes)


def test_a_handler_that_ends_its_process_at_once_counts_each_time_and_comes_to_an_end(house: House) -> None:
    """U3, U6: else every start would meet it again, for ever."""
    job = house.enqueue("ends_all")
    for number in range(1, 4):
        process = house.start("--until-idle")
        try:
            process.communicate(timeout=60)
        finally:
            kill_session(process)
        assert process.returncode == 9
        assert len(house.attempts(job)) == number
    assert house.serve().ended == "idle"
    row = house.job(job)
    assert (row["state"], row["failures"]) == ("failed", 3)
    assert row["reason"] == "orphaned by unclean exit of run #3"
