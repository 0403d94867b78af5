"""A real supervisor under attack, and whether what it started is gone; every wait here has an end."""

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import IO

from supervisor.faults import VARIABLE

PROJECT = Path(__file__).resolve().parents[2]
APP = Path(__file__).with_name("lanes.py")
DEAD_SECONDS = 30.0


class Supervisor:
    """`python -m supervisor run --until-idle`, as a process of its own, until it has ended."""

    def __init__(self, home: Path, faults: str, output: Path) -> None:
        self._log: IO[bytes] = output.open("wb")
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("LANEWAY_", "COVERAGE_"))}
        command = [*(sys.executable, "-P", "-m", "supervisor", "run", "--until-idle", "--json")]
        command += ["--app", str(APP), "--home", str(home), "--max-workers", "2"]
        self.started = time.monotonic()
        self._process = subprocess.Popen(
            command,
            cwd=home,
            env={**kept, "PYTHONPATH": str(PROJECT), **({VARIABLE: faults} if faults else {})},
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            start_new_session=True,
        )
        self.pid = self._process.pid
        self._handle = os.pidfd_open(self.pid)

    def wait(self, until: float) -> bool:
        """Wait for its end, at most until a monotonic time; tell whether it has ended."""
        left = max(0.0, until - time.monotonic())
        return bool(select.select([self._handle], [], [], left)[0])

    def send(self, number: signal.Signals) -> None:
        """Send it a signal; one that has ended by itself keeps its own exit."""
        if not self.wait(0.0):
            os.kill(self.pid, number)

    def guardians(self) -> list[int]:
        """Return the ids of its guardians, which are its children."""
        return children(self.pid)

    def templates(self) -> list[int]:
        """Return the ids of what guardians have started first, and have copied."""
        return [kept[0] for kept in map(children, self.guardians()) if kept]

    def workers(self) -> list[int]:
        """Return the ids of the copies."""
        return [pid for kept in map(children, self.guardians()) for pid in kept[1:]]

    def kill_together(self) -> None:
        """Kill it and its guardians so that none can act on another's end."""
        self.send(signal.SIGSTOP)
        guardians = self.guardians()
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in guardians:
                with suppress(ProcessLookupError):
                    os.kill(pid, number)
        self.send(signal.SIGKILL)

    def end(self) -> int:
        """Make sure that it is dead; return how it ended, as `subprocess` says it."""
        self.send(signal.SIGKILL)
        code = self._process.wait(timeout=DEAD_SECONDS)
        os.close(self._handle)
        self._log.close()
        return code


def children(pid: int) -> list[int]:
    """Return the ids of a process's children, the oldest first."""
    try:
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    except OSError:
        return []
    return [int(child) for child in text.split()]


def alive(markers: Iterable[str]) -> list[int]:
    """Return the processes that carry one of the markers of runs; a zombie shows none."""
    entries = {f"LANEWAY_MARKER={marker}".encode() for marker in markers}
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    return [pid for pid in pids if not entries.isdisjoint(environ_of(pid))]


def environ_of(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


def seconds_until_gone(markers: Iterable[str], patience: float) -> tuple[float, list[int]]:
    """Wait until nothing carries a marker; return how long it took, and who is left after `patience`."""
    began, markers = time.monotonic(), list(markers)
    while (left := alive(markers)) and time.monotonic() - began < patience:
        time.sleep(0.002)
    return time.monotonic() - began, left
