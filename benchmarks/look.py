"""`supervisor status --json` at 1,000,000 jobs, against the start of a bare interpreter.

Half of the jobs wait and half are done, each with its receipt of the last hour: status counts both, up to
its bounds. Both processes find their modules compiled, as an installed program does, whatever the
environment says: in a folder of this run, filled by a first one that does not count.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from benchmarks.queued import fill, kinds_of

JOBS = 1_000_000
KINDS = 4
ROUNDS = 20
AIM_MS, AIM_RATIO = 100.0, 4.0


def took(compiled: Path, *words: str) -> float:
    """Return the seconds of one process, from its start to its end."""
    left = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    env = left | {"PYTHONPYCACHEPREFIX": str(compiled)}
    began = time.monotonic()
    subprocess.run([sys.executable, *words], check=True, stdout=subprocess.DEVNULL, env=env)
    return time.monotonic() - began


def run(jobs: int = JOBS) -> None:
    """Measure in turn, A B A B, and print both medians.

    Args:
        jobs: how many the store holds.
    """
    with tempfile.TemporaryDirectory(prefix="laneway-bench-") as folder:
        home, compiled = Path(folder) / "home", Path(folder) / "compiled"
        pending = jobs // 20
        fill(home, kinds_of(KINDS), jobs // 2 - pending, pending, jobs // 2)
        command = ("-m", "supervisor", "status", "--json", "--home", str(home))
        took(compiled, *command)
        pairs = [(took(compiled, "-c", "pass"), took(compiled, *command)) for _ in range(ROUNDS)]
    bare, status = (median(one) for one in zip(*pairs, strict=True))
    print(
        f"status at {jobs:,} jobs: {1000 * status:.0f} ms median of {ROUNDS} (aim < {AIM_MS:.0f}),"
        f" a bare interpreter {1000 * bare:.0f} ms: {median(b / a for a, b in pairs):.2f} times"
        f" (aim <= {AIM_RATIO:g})"
    )
