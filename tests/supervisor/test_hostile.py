"""Children and landers that mean harm: the attempt ends with its reason, nobody else notices."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.supervisor.serving import House, kill_session, wait_for


def only_attempt(house: House, job: int) -> dict[str, Any]:
    (attempt,) = house.attempts(job)
    return attempt


@pytest.mark.parametrize(
    ("what", "code"),
    [
        ("yielded", "order"),
        ("result", "result"),
        ("done early", "order"),
        ("started", "order"),
        ("ready", "order"),
        ("replayed", "order"),
        ("keys", "rows"),
        ("flood", "flood"),
    ],
)
def test_a_word_out_of_place_ends_the_attempt_for_good(house: House, what: str, code: str) -> None:
    """C151, A37: what landed before stays, the next job runs."""
    job, after = house.enqueue("says", {"what": what}), house.enqueue("quick")
    assert house.serve().ended == "idle"
    attempt = only_attempt(house, job)
    assert (attempt["outcome"], attempt["error_code"]) == ("failed", code)
    assert house.items(job) == [(0, "before")]
    assert house.job(after)["state"] == "done"


def test_arguments_nested_without_end_are_no_crash(house: House) -> None:
    """C127: refused in words or as no message, and the supervisor lives."""
    job = house.enqueue("says", {"what": "nested"}, batch_deadline=0.5, max_attempts=1)
    assert house.serve().ended == "idle"
    assert house.job(job)["state"] == "failed"


def test_a_flood_of_small_talk_delays_no_other_kill(house: House) -> None:
    """Promise 5: the clocks run on."""
    house.enqueue("floods")
    wedged = house.enqueue("ignores_term")
    house.serve()
    assert only_attempt(house, wedged)["kill"]["late_ms"] < 2000


def test_reads_that_raise_hostile_exceptions_are_answered_in_words(house: House) -> None:
    """C153: the reader thread survives them."""
    job = house.enqueue("asks_badly")
    house.serve()
    rows = dict(house.items(job))
    assert "\\udcff" in rows[0]
    assert "Unspeakable" in rows[1]
    assert house.job(job)["state"] == "done"


def test_a_child_that_closes_its_channel_and_lives_on_is_stopped_and_said_so(house: House) -> None:
    job = house.enqueue("hangs_up")
    house.serve()
    attempt = only_attempt(house, job)
    assert (attempt["outcome"], attempt["error_code"]) == ("died", "hung_up")


@pytest.mark.parametrize("kind", ["exits", "segfaults"])
def test_a_child_that_died_by_itself_was_not_killed(house: House, kind: str) -> None:
    job = house.enqueue(kind)
    house.serve()
    assert only_attempt(house, job)["kill"] is None


def test_a_payload_type_that_raises_anything_fails_its_job_only(house: House) -> None:
    job, after = house.enqueue("picky", {"n": 1}), house.enqueue("quick")
    house.serve()
    assert only_attempt(house, job)["error_code"] == "payload"
    assert house.job(after)["state"] == "done"


@pytest.mark.parametrize("payload", [{"surrogate": True}, {}])
def test_whatever_a_lander_raises_its_receipt_is_written(house: House, payload: dict[str, Any]) -> None:
    """B58, U22, FIELD G5: no hook of the exception runs on the loop."""
    job = house.enqueue("spiteful_lander", payload)
    assert house.serve().ended == "idle"
    attempt = only_attempt(house, job)
    assert attempt["outcome"] == "failed"
    assert house.job(job)["state"] == "failed"


def test_two_signals_end_a_run_whose_lander_is_stuck(house: House, tmp_path: Path) -> None:
    """FIELD H3, K11; the next start settles what is left."""
    stuck = tmp_path / "stuck"
    job = house.enqueue("stuck_lander", {"stuck": str(stuck)})
    process = house.start()
    try:
        wait_for(stuck.exists)
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=8)
    finally:
        kill_session(process)
    assert process.returncode == 130
    assert house.job(job)["state"] in {"leased", "running"}


def test_a_stop_while_a_dead_childs_receipt_waits_for_the_lander_is_no_crash(
    house: House, tmp_path: Path
) -> None:
    """C195."""
    slow = house.enqueue("slow_lander")
    exits = house.enqueue("exits")
    process = house.start()
    try:
        wait_for(lambda: house.job(exits)["state"] in {"running", "failed"})
        time.sleep(0.2)
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=20)
    finally:
        kill_session(process)
    assert process.returncode == 0, err
    assert house.job(exits)["state"] == "failed"
    assert house.job(slow)["state"] in {"done", "queued"}


def test_a_supervisor_started_with_sigchld_ignored_still_sees_how_children_end(house: House) -> None:
    job = house.enqueue("exits")
    code = (
        "import os, signal, sys; signal.signal(signal.SIGCHLD, signal.SIG_IGN);"
        "os.execv(sys.executable, [sys.executable, '-m', 'supervisor', *sys.argv[1:]])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "run", "--until-idle", "--home", str(house.home), "--app", house.app],
        check=False,
        capture_output=True,
        timeout=30,
    )
    assert done.returncode == 0, done.stderr
    assert only_attempt(house, job)["exit"] == {"code": 3, "signal": None}


@pytest.mark.parametrize(
    "breaks",
    ["os.write(int(sys.argv[2]), b'garbage on the channel')", "os._exit(9)"],
)
def test_an_application_that_breaks_its_children_at_import_is_held(tmp_path: Path, breaks: str) -> None:
    """K13: however the start fails, three in a row and the run says so; no attempt is used."""
    source = tmp_path / f"breaks_{len(breaks)}.py"
    source.write_text(
        "import os, sys\n"
        "from supervisor import App\n"
        "app = App('breaks')\n"
        "@app.lane('never')\n"
        "def never(job, ctx): yield 1,\n"
        "@never.lander\n"
        "def land(db, job, rows): pass\n"
        f"if 'LANEWAY_MARKER' in os.environ: {breaks}\n"
    )
    house = House(tmp_path, app=str(source))
    job = house.enqueue("never")
    assert house.serve().ended == "app_start_failed"
    assert house.job(job)["claims"] == 0


def test_a_run_that_cannot_start_children_says_why_and_leaves(house: House, monkeypatch: Any) -> None:
    """FIELD: EMFILE, EAGAIN, a working folder that is gone."""
    house.enqueue("quick")
    os.rmdir(house.settings.folder / "gone") if (house.settings.folder / "gone").exists() else None
    house.settings = type(house.settings)(
        home=house.home, app=house.app, max_workers=2, folder=house.settings.folder / "gone"
    )
    served = house.serve()
    assert served.ended == "app_start_failed"
    assert "No such file" in served.detail


def test_a_doorbell_that_cannot_be_made_is_a_warning(house: House) -> None:
    (house.home / "doorbell.sock").mkdir()
    job = house.enqueue("quick")
    assert house.serve().ended == "idle"
    assert house.job(job)["state"] == "done"


@pytest.mark.parametrize("replace", [False, True])
def test_a_store_that_vanishes_under_a_run_ends_it_with_one_line(house: House, replace: bool) -> None:
    """Exit code 4: never a run that writes into a file nobody can find again."""
    process = house.start()
    try:
        wait_for(lambda: house.query("SELECT count(*) FROM laneway_runs")[0][0])
        (house.home / "store.db").rename(house.home / "elsewhere.db")
        if replace:
            (house.home / "store.db").write_bytes((house.home / "elsewhere.db").read_bytes())
        _, err = process.communicate(timeout=20)
    finally:
        kill_session(process)
    assert process.returncode == 4, err
    assert "removed or replaced" in err
