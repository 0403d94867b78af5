"""A guardian and the children that it keeps, from where their supervisor stands."""

import os
import secrets
import select
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import pytest

from ipc import keeper
from ipc.child import Child, Command
from ipc.keeper import Keeper
from ipc.leftovers import MARKER, end_leftovers, environ_of, marker_entry

SECONDS = 40.0
MEASURED = {
    name: os.environ[name] for name in ("COVERAGE_PROCESS_CONFIG", "PYTHONPATH") if name in os.environ
}
"""Has a program measured that is started with it, by way of what an isolated interpreter leaves out."""
PROGRAM = "measured" if "COVERAGE_PROCESS_CONFIG" in MEASURED else "as shipped"
"""How most of these tests run the guardian, which is the same program either way."""

SLEEP = "import signal; print('up', flush=True); signal.pause()"


class Kept:
    """One guardian, and its children one after another. All that is started carries `marker`."""

    ENVIRONMENT: ClassVar[dict[str, str]] = {}
    """What its guardian gets beside the marker."""

    def __init__(self, folder: Path, marker: str) -> None:
        self.folder = folder
        self.marker = marker
        lock = folder / "guardians.lock"
        lock.touch()
        self.keeper = Keeper({MARKER: marker, **self.ENVIRONMENT}, lock)
        self.children: list[Child] = []
        self.told: list[Any] = []

    def start(self, code: str = SLEEP, **how: Any) -> Child:
        """Have Python code started."""
        return self.run([sys.executable, "-c", code], **how)

    def run(self, argv: list[str], **how: Any) -> Child:
        """Have a program started; `how` are fields of its Command."""
        tail = how.pop("tail", ())
        env = {"PATH": os.environ["PATH"], MARKER: self.marker, **how.pop("env", {})}
        command = Command(argv=argv, tail=tail, env=env, folder=how.pop("folder", self.folder), **how)
        self.children.append(child := Child(command, self.keeper))
        return child

    def look(self, seconds: float) -> None:
        """Wait for something to come, at most so long, and take it."""
        child = self.children[-1] if self.children else None
        lines = [self.keeper, *([child.log] if child is not None and not child.log.closed else [])]
        select.select(lines, [], [], seconds)
        for told in self.keeper.receive():
            self.told.append(told)
            if child is not None:
                child.take(told)
        if child is not None:
            child.log.drain(1 << 20)

    def wait_for(self, fact: Callable[[], Any], seconds: float = SECONDS) -> Any:
        """Take what comes until `fact` gives something true, and return that."""
        until = time.monotonic() + seconds
        while not (got := fact()):
            assert time.monotonic() < until, f"no {fact} within {seconds} s; told {self.told[-5:]}"
            self.look(0.005)
        return got

    def said(self, text: str) -> str:
        """Wait until the last child has printed `text`; return all that it has printed."""
        child = self.children[-1]
        return self.wait_for(lambda: text in child.log.text() and child.log.text())

    def up(self, code: str = SLEEP, **how: Any) -> Child:
        """Have Python code started, and wait until it says that it is up and its guardian has told of it."""
        child = self.start(code, **how)
        self.said("up")
        self.wait_for(lambda: child.pid)
        return child

    def over(self, child: Child) -> Child:
        """Wait until all of a child has ended."""
        self.wait_for(lambda: child.over)
        child.log.drain(1 << 20)
        self.keeper.free = True
        return child

    def close(self) -> None:
        """Let the guardian go, and see that nothing is left of what it kept."""
        self.keeper.let_go()
        self.wait_for(self.keeper.reap)
        for child in self.children:
            child.close()
        self.keeper.close()
        assert alive(self.marker) == []


def alive(marker: str) -> list[int]:
    """Return the processes that carry a marker and are not dead."""
    entry = marker_entry(marker)
    pids = (int(name) for name in os.listdir("/proc") if name.isdigit())
    return [pid for pid in pids if entry in environ_of(pid)]


def state_of(pid: int) -> str:
    """Return the letter of a process's state, "" of one that is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def kill_marked(marker: str) -> None:
    """End what a test that failed has left, also what forks faster than it can be listed."""
    end_leftovers({marker}, time.monotonic)


@contextmanager
def keeping(folder: Path, program: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Kept]:
    """Keep a guardian, and see at its end that nothing is left of what it kept."""
    if program == "measured":
        monkeypatch.setattr(keeper, "FLAGS", ("-P", "-m"))
        monkeypatch.setattr(keeper, "PROGRAM", "ipc.guardian")
        monkeypatch.setattr(Kept, "ENVIRONMENT", MEASURED)
    kept = Kept(folder, secrets.token_hex(16))
    try:
        yield kept
        kept.close()
    finally:
        kill_marked(kept.marker)
