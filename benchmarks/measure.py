"""A home to measure in, and the arithmetic of ratios."""

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from landing.enqueue import Enqueue
from landing.migrate import MigrateApp
from landing.store import Store
from policies.payload import payload_text
from supervisor import events, sensors
from supervisor.application import load_application
from supervisor.run.serve import serve
from supervisor.settings.values import Settings

APP = str(Path(__file__).with_name("rows_app.py"))


@dataclass(frozen=True, slots=True)
class Ratio:
    """A measured share: `ours` and `base` in `unit` per second, round by round."""

    name: str
    unit: str
    ours: list[float]
    base: list[float]
    aim: float

    def __str__(self) -> str:
        shares = [a / b for a, b in zip(self.ours, self.base, strict=True)]
        return (
            f"{self.name}: {median(self.ours):,.0f} {self.unit}/s against {median(self.base):,.0f}"
            f" = {median(shares):.2f} (rounds {min(shares):.2f} to {max(shares):.2f}, aim {self.aim:g})"
        )


class Bench:
    """A fresh home with the measured application."""

    def __init__(self, folder: Path, workers: int = 1) -> None:
        self.settings = Settings(home=folder / "home", app=APP, max_workers=workers, folder=folder)
        self.application = load_application(self.settings)
        self.store = Store(self.settings.home, sensors.now_micros, create_missing=True)
        for register in self.application.declarations():
            self.store.write(register)
        self.seen: list[tuple[float, events.Event]] = []

    def enqueue(self, kind: str, payload: Any) -> int:
        """Enqueue one job."""
        return self.store.write(Enqueue(kind=kind, payload=payload_text(payload))).id

    def migrate(self) -> None:
        """Make the application's tables, for a benchmark that runs no supervisor."""
        for loaded in self.application.apps:
            self.store.write(MigrateApp(loaded.app.name, [one.sql for one in loaded.app.migrations]))

    def serve(self) -> None:
        """Run until idle, noting when each event came."""
        served = serve(
            self.application,
            self.settings,
            until_idle=True,
            report=lambda event: self.seen.append((time.monotonic(), event)),
        )
        assert served.ended == "idle", served


@contextmanager
def bench(workers: int = 1) -> Iterator[Bench]:
    """Make a Bench in a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="laneway-bench-") as folder:
        yield Bench(Path(folder), workers)
