"""How much later than deadline + grace a hung child is gone, alone and beside a lane that lands fully."""

import tempfile
from pathlib import Path
from statistics import median, quantiles

from landing import views
from landing.snapshot import snapshot
from tests.supervisor.serving import House

KILLS = 60
LIMIT = 0.1
"""Seconds of deadline, and again of grace."""
BUSY_ROWS = 6_000_000
"""Rows that the other lane lands: more than the kills leave it time for."""


def lateness(*, busy: bool) -> list[float]:
    """Return the milliseconds by which each kill was late: half go by SIGTERM, half need SIGKILL."""
    with tempfile.TemporaryDirectory(prefix="laneway-bench-") as folder:
        house = House(Path(folder), workers=2)
        if busy:
            house.enqueue("quick", {"rows": BUSY_ROWS}, job_deadline=KILLS * 0.5)
        jobs = [
            house.enqueue(kind, batch_deadline=LIMIT, grace=LIMIT)
            for _ in range(KILLS // 2)
            for kind in ("wedged_in_c", "ignores_term")
        ]
        house.serve()
        with snapshot(house.home) as db:
            kills = [views.attempts(db, job)[0]["kill"] for job in jobs]
    assert all(kill["survivors"] == [] for kill in kills)
    return [kill["late_ms"] for kill in kills]


def run() -> None:
    """Print the lateness of kills, alone and beside a busy lane."""
    for words, busy, aim in (("alone", False, "5 and 15"), ("beside a busy lane", True, "10 and 25")):
        late = lateness(busy=busy)
        cuts = quantiles(late, n=100)
        print(
            f"kill {words}, later than deadline + grace: {median(late):.1f} ms median, {cuts[98]:.1f} ms p99"
            f" of {len(late)}, no survivors (aims {aim})"
        )
