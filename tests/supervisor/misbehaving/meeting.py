"""A misbehaving job, one that works beside it and quick ones that wait for its slot, on two slots.

The one beside goes on until the quick ones are done, which need the slot of the first: so when all
are over, the slot has been freed while somebody else was at work.
"""

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from supervisor import events
from supervisor.application import load_application
from supervisor.cli.lines import sentence
from supervisor.cli.show import screen
from supervisor.run.serve import serve
from supervisor.told.story import story
from tests.supervisor.serving import House, offspring

HERE = Path(__file__).parent

TEMPLATE, COLD = "template", "cold"
"""How its children come about, as the receipt says it."""


class Meeting:
    """One such meeting.

    Args:
        folder: of its own.
        app: the application's file in this folder.
        spawn: how children come about.
        workers: how many slots there are.

    Attributes:
        watch: goes on beside the run, and may open files.
    """

    watch: AbstractContextManager[object] = nullcontext()

    def __init__(self, folder: Path, app: str, spawn: str = TEMPLATE, workers: int = 2) -> None:
        self.house = House(folder, workers, app=str(HERE / f"{app}.py"))
        if spawn == COLD:
            settings = self.house.settings
            self.house.settings = replace(settings, defaults={**settings.defaults, "spawn": "cold"})
            self.house.application = load_application(self.house.settings)
        self.spawn = spawn
        self.noted = folder / "noted"
        self.noted.mkdir()
        self.paths = {name: str(folder / name) for name in ("beside", "over", "noted")}

    def hold(self, kind: str, after: Sequence[str] = ("quick",), **payload: Any) -> "End":
        """Serve until all are over; check that nobody but the first has suffered, and that nothing is left.

        `after` are the kinds of those that wait.
        """
        house = self.house
        for name in ("beside", "over"):
            Path(self.paths[name]).unlink(missing_ok=True)
        self.job = house.enqueue(kind, self.paths | payload)
        self.beside = house.enqueue("bystander", self.paths)
        self.after = [house.enqueue(one, self.paths) for one in after]
        self.awaited = set(self.after)
        before, children = descriptors(), offspring()
        with self.watch:
            served = serve(house.application, house.settings, until_idle=True, report=self.report)
        assert served.ended == "idle"
        assert house.of(events.Warned) == []
        self.check_others()
        assert descriptors() == before, "a descriptor has leaked"
        assert survivors(house, self.noted) == []
        assert offspring() == children, "a zombie, or an orphan that was adopted"
        return End(house, self.job, self.spawn)

    def report(self, event: events.Event) -> None:
        self.house.events.append(event)
        if isinstance(event, events.AttemptEnded):
            self.awaited.discard(event.job)
        if not self.awaited:
            Path(self.paths["over"]).touch()

    def check_others(self) -> None:
        for job in (self.beside, *self.after):
            (attempt,) = self.house.attempts(job)
            assert (attempt["outcome"], attempt["kill"], attempt["error"]) == ("done", None, None)
        rows = self.house.items(self.beside)
        assert [n for n, _ in rows] == list(range(len(rows))), "each row once, in order"


class End:
    """How the misbehaving job ended, as its receipt and its row say."""

    def __init__(self, house: House, job: int, spawn: str) -> None:
        self.house = house
        self.row = house.job(job)
        (self.attempt,) = house.attempts(job)
        self.rows = house.items(job)
        assert self.attempt["world"]["spawn"] == spawn

    @property
    def kill(self) -> dict[str, Any]:
        found = self.attempt["kill"]
        assert isinstance(found, dict), "it was not killed"
        return found

    def is_told_as(self, outcome: str, code: str | None, reason: str) -> "End":
        """Check outcome and code, and that the reason of the job's row is what the pattern says."""
        found = self.attempt["outcome"], self.attempt["error_code"], self.row["reason"]
        assert found[:2] == (outcome, code), found
        assert re.fullmatch(reason, found[2]), found
        if self.attempt["kill"] is not None:
            assert self.kill["survivors"] == []
        return self

    def is_done(self) -> "End":
        self.is_told_as("done", None, "done")
        assert self.rows[-1] == (0, "after"), "it went on after its deed"
        assert self.attempt["kill"] is None
        return self

    def is_killed(self, *, by: str, stuck_at: str | None = None) -> "End":
        """Check the rung that ended it, and that its stack names the line that holds this text.

        How late a kill is, is measured by the benchmarks, on a machine that does nothing else.
        """
        assert self.kill["rung"] == by
        assert self.kill["late_ms"] < 2000
        if stuck_at is not None:
            assert line_of(self.house.app, stuck_at) in self.kill["stack"]
        return self

    def has_died_of(self, code: int | None = None, signal: int | None = None) -> "End":
        assert self.attempt["exit"] == {"code": code, "signal": signal}
        return self

    def on_screen(self) -> str:
        """What `supervisor show` prints."""
        return "\n".join(screen(story(self.house.home, self.row["id"])))

    def on_run_line(self) -> str:
        """What `supervisor run` prints of its end."""
        (event,) = (one for one in self.house.of(events.AttemptEnded) if one.job == self.row["id"])
        return sentence(event, 0)


def line_of(path: str, text: str) -> str:
    """Return FILE, line N as a stack names it, for the only line of a file that holds `text`."""
    lines = Path(path).read_text().splitlines()
    (number,) = (n for n, line in enumerate(lines, 1) if text in line)
    return f'"{path}", line {number} in'


def descriptors() -> dict[str, str]:
    """What this process, in which the supervisor runs, has open."""
    found = {}
    for name in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # the folder that is being read
            found[name] = os.readlink(f"/proc/self/fd/{name}")
    return found


def survivors(house: House, noted: Path) -> list[str]:
    """Find processes that a run has left: by its marker, by its folder, by what they noted of themselves."""
    found = [f"noted {one.name}" for one in noted.iterdir() if "-" in one.name and is_alive(one.name)]
    folder, marks = str(house.settings.folder), house.query("SELECT marker FROM laneway_runs")
    for pid in others():
        environ, folder_of = look_at(pid)
        if folder_of.startswith(folder) or any(mark.encode() in environ for (mark,) in marks):
            found.append(f"{pid}: {command_of(pid)}")
    return found


def others() -> Iterator[int]:
    yield from (int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid())


def look_at(pid: int) -> tuple[bytes, str]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes(), os.readlink(f"/proc/{pid}/cwd")
    except OSError:
        return b"", ""


def command_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return "gone"


def is_alive(noted: str) -> bool:
    """Tell whether a process that was noted as PID-BEGAN is there, if only as a zombie."""
    pid, _, began = noted.partition("-")
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19] == began
    except OSError:
        return False
