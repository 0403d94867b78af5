"""The real command line, as processes in a folder of their own."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parents[2]

SQUARES = """
from supervisor import App

app = App("squares")
app.migration(1, "CREATE TABLE squares (n INTEGER PRIMARY KEY, square INTEGER) WITHOUT ROWID")


@app.lane("square", max_attempts=2, backoff=0)
def square(job, ctx):
    for n in range(job.payload["count"]):
        yield n, n * n
    print("counted to", job.payload["count"])
    return {"last": job.payload["count"] - 1}


@square.lander
def land_squares(db, job, rows):
    db.executemany("INSERT OR REPLACE INTO squares VALUES (?, ?)", rows)


@app.lane("runaway", batch_deadline=0.3, grace=0.5, max_attempts=1)
def runaway(job, ctx):
    import re

    yield -1, 1
    re.match(r"(a+)+$", "a" * 40 + "b")


@runaway.lander
def land_runaway(db, job, rows):
    pass


@app.lane("moody", max_attempts=2)
def moody(job, ctx):
    from supervisor import Retry

    raise Retry("not in the mood")


@moody.lander
def land_moody(db, job, rows):
    pass


@app.lane("sleepy", grace=0.2)
def sleepy(job, ctx):
    import time

    yield -2, 4
    time.sleep(job.payload["seconds"])


@sleepy.lander
def land_sleepy(db, job, rows):
    pass
"""


@dataclass(frozen=True)
class Done:
    """What a command answered."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[str]:
        return self.err.splitlines()


class Shell:
    """Runs `python -m supervisor ...` in a folder; nothing of the caller's settings leaks in."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / ".supervisor"
        kept = {name: value for name, value in os.environ.items() if not name.startswith("LANEWAY_")}
        self.environ = {**kept, "PYTHONPATH": str(PROJECT)}

    def start(
        self, *words: str, env: dict[str, str] | None = None, **options: Any
    ) -> "subprocess.Popen[bytes]":
        """Start a command with pipes for its three streams."""
        options = {"cwd": self.folder, "stdin": subprocess.PIPE, "stdout": subprocess.PIPE, **options}
        options.setdefault("stderr", subprocess.PIPE)
        command = [sys.executable, "-P", "-m", "supervisor", *words]
        return subprocess.Popen(command, env={**self.environ, **(env or {})}, **options)

    def __call__(self, *words: str, stdin: bytes = b"", env: dict[str, str] | None = None) -> Done:
        """Run a command to its end."""
        with self.start(*words, env=env) as process:
            out, err = process.communicate(stdin, timeout=50)
        return Done(process.returncode, out.decode(), err.decode())

    def write(self, name: str, text: str) -> Path:
        """Put a file into the folder."""
        path = self.folder / name
        path.write_text(text, "utf-8")
        return path

    def refused(self, *words: str, code: int, stdin: bytes = b"", env: dict[str, str] | None = None) -> str:
        """Run a command that must be refused with one line; return the line without its "error: "."""
        done = self(*words, stdin=stdin, env=env)
        assert (done.code, done.out, len(done.lines)) == (code, "", 1), done
        assert done.err.startswith("error: "), done
        return done.lines[0].removeprefix("error: ")
