"""What a run makes of a store that is upgraded under it, and of a clock that is set (CONTRACTS K9, K10)."""

import json
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from landing.connect import open_writer, store_path
from landing.snapshot import SCHEMA
from supervisor import events, sensors
from supervisor.events import AttemptEnded, Warned
from supervisor.run.clocks import Clocks, jump, set_since
from supervisor.run.daemon import Served
from supervisor.run.serve import serve
from tests.supervisor.serving import House, kill_session, wait_for

MOODY = """
from supervisor import App, Retry

app = App("moody")
app.migration(1, "CREATE TABLE items (job INT, n INT, text TEXT, attempt INT)")

@app.lane("moody", backoff=3, max_attempts=2)
def moody(job, ctx):
    if job.attempt == 1:
        raise Retry("not in the mood")
    yield 0, "better now"

@moody.lander
def land(db, job, rows):
    db.executemany(f"INSERT INTO items VALUES ({job.id}, ?, ?, {job.attempt})", rows)
"""


@pytest.fixture
def moody_house(tmp_path: Path) -> House:
    source = tmp_path / f"moody_{sensors.fence()}.py"  # a module's name is taken once in a process
    source.write_text(MOODY)
    return House(tmp_path, app=str(source))


# --- the store changes under a run


def set_schema(home: Path, number: int) -> None:
    with closing(open_writer(store_path(home))) as db:
        db.execute("UPDATE laneway_meta SET value = ? WHERE name = 'schema'", (str(number),))


def test_a_store_upgraded_under_a_run_ends_it_with_one_line_and_exit_code_4(
    house: House, tmp_path: Path
) -> None:
    """K9, FIELD E9: it claims nothing more, what runs yields, nothing fails."""
    ready = tmp_path / "ready"
    job = house.enqueue("stoppable", {"rows": 100_000, "ready": str(ready)})
    process = house.start("--max-workers", "1")
    try:
        wait_for(ready.exists)
        wait_for(lambda: house.job(job)["landed_rows"] > 3)
        waiting = house.enqueue("quick")
        set_schema(house.home, 9)
        out, err = process.communicate(timeout=30)
    finally:
        kill_session(process)
    assert process.returncode == 4
    line = "the store was upgraded to schema 9 by a newer version; start that one"
    assert err == f"error: {line}\n"
    assert out.count(f"warning: {line}") == 1
    set_schema(house.home, SCHEMA)
    row = house.job(job)
    assert (row["state"], row["reason"], row["failures"]) == ("queued", "yielded", 0)
    assert house.job(waiting)["claims"] == 0
    assert house.query("SELECT clean FROM laneway_runs") == [(1,)]


def test_a_store_that_became_older_or_none_under_a_run_ends_it_too(house: House, tmp_path: Path) -> None:
    """K9."""
    house.enqueue("stoppable", {"rows": 100_000, "ready": str(tmp_path / "ready")})
    ended = act_at_first_row(house, lambda: set_schema(house.home, 1))
    assert ended == Served(
        "broken", f"the store has schema 1 now, this version writes {SCHEMA}; start again to upgrade it"
    )


def serve_with(house: House, report: events.Report) -> Served:
    return serve(house.application, house.settings, until_idle=True, report=report)


def act_at_first_row(house: House, act: Callable[[], None]) -> Served:
    """Serve here; do something once, when the first batch has landed."""
    todo = [act]

    def report(event: events.Event) -> None:
        house.events.append(event)
        if isinstance(event, events.BatchLanded) and todo:
            todo.pop()()

    return serve_with(house, report)


# --- the clock is set


@pytest.mark.parametrize(("hours", "words"), [(-2, "back 2 h"), (2, "forward 2 h")], ids=["back", "forward"])
def test_a_clock_that_is_set_moves_no_wait_and_is_told_once(
    moody_house: House, monkeypatch: pytest.MonkeyPatch, hours: int, words: str
) -> None:
    """K10: set while a job waits for its next attempt."""
    offset = [0]
    real = sensors.now_micros
    monkeypatch.setattr(sensors, "now_micros", lambda: real() + offset[0])
    job = moody_house.enqueue("moody")
    ended: list[float] = []

    def report(event: events.Event) -> None:
        moody_house.events.append(event)
        if isinstance(event, AttemptEnded):
            ended.append(sensors.monotonic())
            offset[0] = hours * 3_600_000_000

    assert serve_with(moody_house, report) == Served("idle")
    assert moody_house.job(job)["state"] == "done"
    assert 2.9 < ended[1] - ended[0] < 20.0, "three seconds, as it would have been"
    told = [event.text for event in moody_house.of(Warned) if event.code == "clock_set"]
    assert told == [f"the clock was set {words}; waits keep their length"]
    ((detail,),) = moody_house.query("SELECT detail FROM laneway_events WHERE name = 'clock_set'")
    assert json.loads(detail) == {"by_s": pytest.approx(hours * 3600, abs=1), "waits": 1}


def test_a_job_that_ended_before_it_began_is_shown_by_every_command(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K10: the clock went back while it ran."""
    offset = [0]
    real = sensors.now_micros
    monkeypatch.setattr(sensors, "now_micros", lambda: real() + offset[0])
    job = house.enqueue("sleepy", {"seconds": 0.1})
    act_at_first_row(house, lambda: offset.__setitem__(0, -7_200_000_000))
    row = house.job(job)
    assert row["finished_at"] < row["started_at"]
    for command in (["status"], ["jobs"], ["show", str(job)], ["logs", str(job)]):
        for more in ([], ["--json"]):
            asked = [sys.executable, "-m", "supervisor", *command, "--home", str(house.home), *more]
            done = subprocess.run(asked, capture_output=True, text=True, timeout=30, check=False)
            assert (done.returncode, "Error" in done.stderr) == (0, False), (command, done.stderr)


@pytest.mark.parametrize(
    ("wall", "steady", "by"),
    [
        (1.0, 1.0, 0.0),
        (3600.0, 3600.0, 0.0),
        (1.0 + 1.9, 1.0, 0.0),
        (1.0 - 1.9, 1.0, 0.0),
        (1.0 - 7200.0, 1.0, -7200.0),
        (3600.0 + 7200.0, 3600.0, 7200.0),
    ],
    ids=["a turn", "an hour asleep", "corrected", "corrected back", "set back", "set forward in sleep"],
)
def test_only_a_clock_that_was_set_counts(wall: float, steady: float, by: float) -> None:
    """K10."""
    now = Clocks(1_000_000_000 + round(wall * 1e6), 50.0 + steady)
    assert jump(Clocks(1_000_000_000, 50.0), now) == pytest.approx(by * 1e6, abs=1)


@pytest.mark.parametrize(("steady", "back"), [(0.3, 0.3), (1.0, 1.0), (11.0, 1.0)], ids=str)
def test_what_began_to_wait_before_a_stop_did_so_before_the_clock_was_set(steady: float, back: float) -> None:
    """K10: stopped for 11 s while the clock went back by 10, so that it reads as a second after the stop."""
    now = Clocks(1_000_000_000, 50.0 + steady)
    assert set_since(Clocks(2_000_000_000, 50.0), now) == pytest.approx(now.wall - back * 1e6, abs=1)
