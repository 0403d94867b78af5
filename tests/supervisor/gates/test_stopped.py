"""A supervisor that nobody lets run for many leases: nothing is run twice, nothing healthy is killed."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from policies.routing import BUILT_IN, Tier
from supervisor.settings.gates import Scheduling
from supervisor.told.status import status
from tests.supervisor.serving import House, kill_session, wait_for

APP = str(Path(__file__).with_name("gated_lanes.py"))
TIERS = {**BUILT_IN, "minilm": Tier("minilm"), "qwen": Tier("qwen")}
LEASE = 0.5
RUN = f"""
import sys
import landing.lease, supervisor.run.lookout
landing.lease.LEASE_SECONDS = {LEASE}
supervisor.run.lookout.RENEW_SECONDS = {LEASE / 4}
from supervisor.cli import main
sys.exit(main(sys.argv[1:]))
"""


def test_a_supervisor_stopped_for_ten_leases_runs_no_job_twice_and_kills_no_healthy_child(
    tmp_path: Path,
) -> None:
    """U3, U4, C90, K5: its lock is held, so its leases are nobody's business; status says what happened."""
    house = House(tmp_path, workers=2, app=APP, scheduling=Scheduling(tiers=TIERS))
    go = tmp_path / "go"
    jobs = [house.enqueue("light", {"rows": 3000, "until": str(go)}, batch_deadline=3.0) for _ in range(2)]
    (tmp_path / "supervisor.toml").write_text("[tiers.minilm]\n[tiers.qwen]\n")
    words = ["run", "--until-idle", "--home", str(house.home), "--app", APP, "--max-workers", "2"]
    supervisor = subprocess.Popen(
        [sys.executable, "-c", RUN, *words],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[3])},
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        wait_for(lambda: all(house.job(job)["landed_rows"] for job in jobs))
        supervisor.send_signal(signal.SIGSTOP)
        lapsed = max(house.job(job)["lease_expires_at"] for job in jobs)
        wait_for(lambda: time.time() * 1e6 > lapsed + 10 * LEASE * 1e6)
        supervisor.send_signal(signal.SIGCONT)
        wait_for(lambda: (status(house.home)["paused"] or {}).get("seconds", 0) >= 10 * LEASE)
        go.touch()
        out, _ = supervisor.communicate(timeout=40)
    finally:
        kill_session(supervisor)
    assert supervisor.returncode == 0, out
    assert "woke after" in out
    for job in jobs:
        [attempt] = house.attempts(job)
        assert (attempt["outcome"], attempt["kill"]) == ("done", None)
    assert house.query("SELECT count(*), count(DISTINCT job || '-' || n) FROM items") == [(6000, 6000)]
