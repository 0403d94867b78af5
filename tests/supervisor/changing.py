"""An application that tells which version of it runs, for tests that change it."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.supervisor.serving import House

OLD = "old"
NEWER = "newer"  # of another length: bytecode of a file that changed twice in a second is told apart by it

APP = """
import os
import time
from supervisor import App

app = App(NAME)
app.migration(1, "CREATE TABLE told (job INTEGER, n INTEGER, text TEXT)")
VERSION = "old"


@app.lane("tell", max_attempts=1, OPTIONS)
def tell(job, ctx):
    yield os.getppid(), VERSION


@app.lane("wait", max_attempts=1, OPTIONS)
def wait(job, ctx):
    yield 0, VERSION
    while not os.path.exists(job.payload["until"]):
        time.sleep(0.005)
    yield 1, VERSION


@app.lane("count", resume="checkpoint", batch_rows=1, OPTIONS)
def count(job, ctx):
    for n in range(int(ctx.resume or 0), 1_000_000):
        yield n, VERSION
        ctx.checkpoint(str(n + 1))
        if os.path.exists(job.payload["until"]):
            return
        time.sleep(0.005)


@app.lane("orphan", max_attempts=1, OPTIONS)
def orphan(job, ctx):
    guardian = os.getppid()
    with open(f"/proc/{guardian}/task/{guardian}/children") as children:
        for pid in map(int, children.read().split()):
            if pid != os.getpid():
                os.kill(pid, 9)
    yield guardian, VERSION


@tell.lander
@wait.lander
@orphan.lander
@count.lander
def land(db, job, rows):
    db.executemany("INSERT INTO told VALUES (?, ?, ?)", [(job.id, *row) for row in rows])
"""


def write_app(folder: Path, name: str, *, options: str = "", more: str = "") -> Path:
    """Write the application; names are not used twice, because this process loads it, too."""
    source = folder / f"{name}.py"
    text = APP.replace("NAME", repr(name)).replace(", OPTIONS", f", {options}" if options else "")
    source.write_text(text + more)
    return source


def change(source: Path) -> None:
    """Have the file be the newer version; in one step, as editors do."""
    new = source.with_suffix(".new")
    new.write_text(source.read_text().replace(f'"{OLD}"', f'"{NEWER}"'))
    new.replace(source)


def told(house: House, job: int) -> list[tuple[Any, ...]]:
    """Return what a job has told."""
    return house.query("SELECT n, text FROM told WHERE job = ? ORDER BY rowid", job)


@dataclass(frozen=True)
class Running:
    """`supervisor run` as a process whose output can be read while it runs."""

    process: "subprocess.Popen[bytes]"
    out_file: Path
    err_file: Path

    @property
    def out(self) -> list[str]:
        return self.out_file.read_text().splitlines()

    @property
    def err(self) -> list[str]:
        return self.err_file.read_text().splitlines()

    def end(self, number: int = signal.SIGTERM) -> int:
        """Ask it to stop; return its exit code."""
        self.process.send_signal(number)
        return self.process.wait(30)


@contextmanager
def running(house: House, *flags: str, terminal: int | None = None, **environ: str) -> Iterator[Running]:
    """Run a supervisor, on a terminal if there is one; it is ended in any case."""
    folder = house.settings.folder
    out, err = folder / "out.txt", folder / "err.txt"
    words = [sys.executable, "-m", "supervisor", "run", "--home", str(house.home), "--app", house.app]
    words += ["--max-workers", str(house.settings.max_workers), *flags]
    env = {**os.environ, **environ}
    with out.open("wb") as to, err.open("wb") as errors:
        process = subprocess.Popen(
            words, cwd=folder, env=env, stdout=terminal or to, stderr=errors, start_new_session=True
        )
    try:
        yield Running(process, out, err)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
