"""The supervisor's memory while 1,000,000 rows stream through it: sampled, it must stay flat."""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from benchmarks.measure import APP, Bench
from landing.snapshot import snapshot

ROWS = 1_000_000


def rss_mib(pid: int) -> float:
    """Return resident memory in MiB."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


def run() -> None:
    """Print memory in the first and the last quarter, and at its highest."""
    with tempfile.TemporaryDirectory(prefix="laneway-bench-") as folder:
        room = Bench(Path(folder))
        room.enqueue("stream256", {"first": 0, "count": ROWS})
        began = time.monotonic()
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "supervisor", "run", "--until-idle"),
                *("--home", str(room.settings.home), "--app", APP),
            ],
            cwd=folder,
            stdout=subprocess.DEVNULL,
        )
        samples = []
        while process.poll() is None:
            try:
                samples.append(rss_mib(process.pid))
            except (OSError, IndexError):
                break
            time.sleep(0.05)
        assert process.wait() == 0
        with snapshot(room.settings.home) as db:
            assert db.execute("SELECT count(*) FROM rows").fetchone() == (ROWS,)
        quarter = len(samples) // 4
        print(
            f"supervisor memory over {ROWS:,} rows in {time.monotonic() - began:.1f} s:"
            f" {median(samples[quarter : 2 * quarter]):.0f} MiB in the second quarter,"
            f" {median(samples[-quarter:]):.0f} MiB in the last, {max(samples):.0f} MiB at most (aim < 80)"
        )
