"""Stops, cancels and second supervisors, with real processes and signals."""

import os
import random
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from ipc.doorbell import ring
from landing.cancel import Cancel
from landing.connect import open_writer, store_path
from landing.enqueue import Register
from landing.snapshot import store_size
from policies.options import Options
from policies.retry import judge
from supervisor import sensors
from supervisor.events import RunStarted
from supervisor.lock import is_live
from tests.supervisor.serving import House, kill_session, wait_for


def test_of_two_supervisors_started_together_one_runs_and_the_other_says_so(house: House) -> None:
    """C190, C191, exit code 3, one line."""
    house.enqueue("sleepy", {"seconds": 1.5})
    both = [house.start("--until-idle") for _ in range(2)]
    ends = {process.wait(30): process.stderr.read() for process in both}
    assert ends.keys() == {0, 3}
    assert ends[3].count("\n") == 1
    assert "another supervisor" in ends[3]
    for process in both:
        process.communicate()


@pytest.mark.timeout(240)
def test_twenty_sigkills_of_the_supervisor_lose_no_row_and_repeat_none(house: House) -> None:
    """Promise 2 and 3, K2, K4, K9."""
    dice = random.Random(20)
    job = house.enqueue("paced", {"rows": 60_000}, max_attempts=100)
    for _ in range(20):
        process = house.start()
        try:
            further = house.job(job)["landed_seq"] + dice.randrange(40)
            wait_for(lambda further=further: house.job(job)["landed_seq"] > further)
        finally:
            kill_session(process)
    assert house.serve().ended == "idle"
    assert [n for n, _ in house.items(job)] == list(range(60_000))
    assert house.job(job)["state"] == "done"
    attempts = house.attempts(job)
    assert len(attempts) == 21
    assert [one["outcome"] for one in attempts] == ["interrupted"] * 20 + ["done"]


def test_a_signal_to_the_whole_foreground_group_reaches_children_through_their_supervisor_only(
    house: House, tmp_path: Path
) -> None:
    """FIELD H1: as a shell, or a service manager, sends it; the job yields, its guardian stays to the end."""
    ready = tmp_path / "ready"
    job = house.enqueue("stoppable", {"rows": 100_000, "ready": str(ready)})
    process = house.start()
    try:
        wait_for(lambda: house.job(job)["landed_rows"] > 3)
        os.killpg(process.pid, signal.SIGTERM)
        process.communicate(timeout=20)
    finally:
        kill_session(process)
    assert process.returncode == 0
    (attempt,) = house.attempts(job)
    assert (attempt["outcome"], attempt["kill"]) == ("yielded", None)
    assert (house.job(job)["state"], house.job(job)["failures"]) == ("queued", 0)


def test_sigterm_lets_a_job_yield_and_the_next_start_goes_on(house: House, tmp_path: Path) -> None:
    """K9, U42: nothing counted, the run is closed clean."""
    ready = tmp_path / "ready"
    job = house.enqueue("stoppable", {"rows": 400, "ready": str(ready)})
    process = house.start()
    try:
        wait_for(ready.exists)
        wait_for(lambda: house.job(job)["landed_rows"] > 3)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=20)
    finally:
        kill_session(process)
    assert process.returncode == 0
    assert store_size(house.home)[1] == 0, "a clean stop folds the WAL back"
    row = house.job(job)
    assert (row["state"], row["failures"]) == ("queued", 0)
    assert house.query("SELECT clean FROM laneway_runs") == [(1,)]
    assert house.serve().ended == "idle"
    (started,) = house.of(RunStarted)
    assert (started.died, started.recovered) == ((), ()), "the next start is no recovery"
    assert [n for n, _ in house.items(job)] == list(range(400))
    assert [one["outcome"] for one in house.attempts(job)] == ["yielded", "done"]


def test_a_second_signal_stops_at_once_and_the_job_is_interrupted(house: House) -> None:
    """C195, FIELD H3."""
    job = house.enqueue("wedged_in_c", batch_deadline=3600, grace=60)
    process = house.start()
    try:
        wait_for(lambda: house.job(job)["landed_rows"] == 1)
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=10)
    finally:
        kill_session(process)
    assert process.returncode == 130
    assert house.job(job)["state"] == "queued"
    assert house.attempts(job)[0]["outcome"] == "interrupted"
    assert house.job(job)["failures"] == 0


def test_a_cancel_of_a_running_job_ends_its_child_and_lands_nothing_more(
    house: House, tmp_path: Path
) -> None:
    """A32, U17, K6."""
    ready = tmp_path / "ready"
    job = house.enqueue("stoppable", {"rows": 100_000, "ready": str(ready)})
    process = house.start()
    try:
        wait_for(lambda: house.job(job)["landed_rows"] > 3)
        assert is_live(house.home)
        reply = house.store.write(Cancel(job, sensors.fence(), live=True, judge=judge))
        assert reply.state == "cancelling"
        landed = len(house.items(job))
        ring(house.home)
        wait_for(lambda: house.job(job)["state"] == "cancelled")
        assert len(house.items(job)) == landed
        (attempt,) = house.attempts(job)
        assert attempt["outcome"] == "cancelled"
    finally:
        kill_session(process)


def test_a_cancel_without_a_supervisor_is_immediate(house: House) -> None:
    """K6."""
    job = house.enqueue("quick")
    assert not is_live(house.home)
    assert house.store.write(Cancel(job, sensors.fence(), live=False, judge=judge)).state == "cancelled"
    assert house.serve().ended == "idle"
    assert house.items(job) == []


BLIND = """
import sys
import supervisor.run.lookout
supervisor.run.lookout.LOOK_SECONDS = 3600.0
from supervisor.cli import main
sys.exit(main(sys.argv[1:]))
"""


def test_a_bell_wakes_an_idle_supervisor(house: House) -> None:
    """DESIGN 5: enqueue, commit, ring; this one looks around by itself but once an hour."""
    words = ["run", "--home", str(house.home), "--app", house.app, "--max-workers", "2"]
    process = subprocess.Popen(
        [sys.executable, "-c", BLIND, *words],
        cwd=house.settings.folder,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        wait_for(lambda: house.query("SELECT count(*) FROM laneway_runs")[0][0])
        for _ in range(3):
            job = house.enqueue("quick")
            ring(house.home)
            wait_for(lambda job=job: house.job(job)["state"] == "done")
    finally:
        kill_session(process)


def test_an_enqueue_nobody_rang_for_is_seen_within_the_look_around(house: House) -> None:
    """K10: the data_version look once a second."""
    process = house.start()
    try:
        wait_for(lambda: house.query("SELECT count(*) FROM laneway_runs")[0][0])
        job = house.enqueue("quick")
        wait_for(lambda: house.job(job)["state"] == "done")
    finally:
        kill_session(process)


def test_a_child_that_cannot_load_the_application_holds_it_and_uses_no_attempt(tmp_path: Path) -> None:
    """K13: after three failed starts the run says so, with file and line."""
    source = tmp_path / "fragile.py"
    source.write_text(
        "import os\n"
        "from supervisor import App\n"
        "app = App('fragile')\n"
        "@app.lane('never')\n"
        "def never(job, ctx): yield 1,\n"
        "@never.lander\n"
        "def land(db, job, rows): pass\n"
        "if 'LANEWAY_MARKER' in os.environ: raise RuntimeError('not in a child')\n"
    )
    house = House(tmp_path, app=str(source))
    job = house.enqueue("never")
    served = house.serve()
    assert served.ended == "app_start_failed"
    assert "not in a child" in served.detail
    assert "fragile.py" in served.detail
    row = house.job(job)
    assert (row["state"], row["claims"]) == ("queued", 0)


def test_the_backoff_of_a_kind_that_is_not_loaded_holds_up_nobody(house: House) -> None:
    """K14: such a kind waits; `--until-idle` waits for backoff of what it can run."""
    house.store.write(Register("elsewhere", {"foreign": Options()}))
    foreign = house.enqueue("foreign")
    with closing(open_writer(store_path(house.home))) as db:
        db.execute(
            "UPDATE laneway_jobs SET state = 'pending', watch = 'backoff', wake_at = ? WHERE id = ?",
            (sensors.now_micros() + 3_600_000_000, foreign),
        )
    job = house.enqueue("quick")
    assert house.serve().ended == "idle"
    assert house.job(job)["state"] == "done"
    assert house.job(foreign)["state"] == "pending"
