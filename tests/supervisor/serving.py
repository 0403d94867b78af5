"""A home, a real supervisor in this process or in another, and what the store says afterwards."""

import os
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from landing import views
from landing.enqueue import Enqueue, RegisterTiers
from landing.snapshot import snapshot
from landing.store import Store
from policies.payload import payload_text
from supervisor import events, sensors
from supervisor.application import load_application
from supervisor.run.serve import Served, serve
from supervisor.settings.gates import Scheduling
from supervisor.settings.values import Settings

GALLERY = str(Path(__file__).with_name("gallery.py"))
MEASURED = 'env = ["COVERAGE_PROCESS_CONFIG"]\n'
"""Settings by which real children are measured too: their environment is pruned of all else."""


def wait_for(fact: Callable[[], Any], seconds: float = 45.0) -> Any:
    """Return the first truth that `fact` gives; fail when there is none in time."""
    until = time.monotonic() + seconds
    while not (got := fact()):
        assert time.monotonic() < until, f"no {fact} within {seconds} s"
        time.sleep(0.005)
    return got


def offspring() -> set[int]:
    """Return the children of this process, zombies too; what other tests have left does not change."""
    lists = Path("/proc/self/task").glob("*/children")
    return {int(pid) for children in lists for pid in children.read_text().split()}


class House:
    """One home folder and the gallery's application."""

    def __init__(
        self, folder: Path, workers: int = 2, app: str = GALLERY, scheduling: Scheduling | None = None
    ) -> None:
        self.home = folder / "home"
        self.app = app
        (folder / "supervisor.toml").write_text(f"[defaults]\n{MEASURED}")
        defaults = tomllib.loads(MEASURED)
        self.settings = Settings(
            home=self.home,
            app=app,
            max_workers=workers,
            folder=folder,
            defaults=defaults,
            scheduling=scheduling or Scheduling(),
        )
        self.application = load_application(self.settings)
        self.events: list[events.Event] = []
        self.store = Store(self.home, sensors.now_micros, create_missing=True)
        for register in self.application.declarations():
            self.store.write(register)
        windows = {name: tier.window for name, tier in self.settings.scheduling.tiers.items()}
        self.store.write(RegisterTiers(windows))

    def enqueue(self, kind: str, payload: Any = None, **options: Any) -> int:
        return self.store.write(Enqueue(kind=kind, payload=payload_text(payload or {}), options=options)).id

    def serve(self, *, until_idle: bool = True) -> Served:
        """Run a supervisor here until nothing is left."""
        return serve(self.application, self.settings, until_idle=until_idle, report=self.events.append)

    def start(self, *flags: str) -> subprocess.Popen[str]:
        """Start `supervisor run` as a process of its own."""
        return subprocess.Popen(
            [
                *(sys.executable, "-m", "supervisor", "run", "--home", str(self.home), "--app", self.app),
                *("--max-workers", str(self.settings.max_workers), *flags),
            ],
            cwd=self.settings.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def query(self, sql: str, *args: Any) -> list[tuple[Any, ...]]:
        with snapshot(self.home) as db:
            return db.execute(sql, args).fetchall()

    def items(self, job: int) -> list[tuple[Any, ...]]:
        return self.query("SELECT n, text FROM items WHERE job = ? ORDER BY rowid", job)

    def job(self, job: int) -> dict[str, Any]:
        with snapshot(self.home) as db:
            return views.job(db, job)

    def attempts(self, job: int) -> list[dict[str, Any]]:
        with snapshot(self.home) as db:
            return views.attempts(db, job)

    def of(self, kind: type[Any]) -> list[Any]:
        """Return the events of one kind, in order."""
        return [event for event in self.events if isinstance(event, kind)]


def kill_session(process: subprocess.Popen[str]) -> None:
    """End a supervisor that a test started, whatever state it is in."""
    if process.poll() is None:
        os.kill(process.pid, signal.SIGKILL)
    process.communicate()
