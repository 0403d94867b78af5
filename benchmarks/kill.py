"""How much later than deadline + grace a child that is wedged in C is gone, alone and under load."""

import tempfile
from pathlib import Path
from statistics import median, quantiles

from landing import views
from landing.snapshot import snapshot
from tests.supervisor.serving import House

KILLS = 40


def run() -> None:
    """Print the lateness of kills by TERM and by KILL."""
    with tempfile.TemporaryDirectory(prefix="laneway-bench-") as folder:
        house = House(Path(folder), workers=2)
        jobs = [
            house.enqueue(kind, batch_deadline=0.1, grace=0.1)
            for kind in ("wedged_in_c", "ignores_term")
            for _ in range(KILLS // 2)
        ]
        house.serve()
        with snapshot(house.home) as db:
            late = [views.attempts(db, job)[0]["kill"]["late_ms"] for job in jobs]
    cuts = quantiles(late, n=100)
    print(
        f"kill, later than deadline + grace: {median(late):.1f} ms median, {cuts[98]:.1f} ms p99"
        f" of {len(late)}"
    )
