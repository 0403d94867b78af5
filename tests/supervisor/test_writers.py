"""Writers from outside while a real supervisor lands at full rate."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.supervisor.serving import House, kill_session, wait_for

ROOT = Path(__file__).resolve().parents[2]
PROCESSES, JOBS = 4, 100

WRITER = """
import json, sys
sys.path.insert(0, sys.argv[1])
from supervisor import Client
client = Client(sys.argv[2])
print(json.dumps([client.enqueue("quick", {"rows": 1}).id for _ in range(int(sys.argv[3]))]))
"""


@pytest.fixture
def landing(house: House) -> Iterator[list[int]]:
    """Two lanes that land rows for as long as anybody looks."""
    lanes = [house.enqueue("quick", {"rows": 10**9}) for _ in range(2)]
    process = house.start()
    try:
        wait_for(lambda: all(house.job(lane)["landed_rows"] for lane in lanes))
        yield lanes
    finally:
        kill_session(process)


def test_four_processes_enqueue_while_two_lanes_land_and_nobody_is_refused(
    house: House, landing: list[int]
) -> None:
    """C70, U14, K7, FIELD E3: every job is there, once, and its caller has its number."""
    command = [sys.executable, "-c", WRITER, str(ROOT), str(house.home), str(JOBS)]
    before = sum(house.job(lane)["landed_rows"] for lane in landing)
    writers = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(PROCESSES)
    ]
    said = [writer.communicate(timeout=50) for writer in writers]
    assert [(writer.returncode, err) for writer, (_, err) in zip(writers, said, strict=True)] == [
        (0, b"")
    ] * PROCESSES
    ids = sorted(job for out, _ in said for job in json.loads(out))
    assert ids == list(range(len(landing) + 1, len(landing) + 1 + PROCESSES * JOBS))
    assert house.query("SELECT COUNT(*) FROM laneway_jobs WHERE state = 'queued'") == [(len(ids),)]
    assert sum(house.job(lane)["landed_rows"] for lane in landing) > before
