"""`supervisor top`: the status screen, drawn anew every second, with rates of the last seconds.

status -> Samples (what each job had landed when somebody looked) -> screen -> terminal
"""

import os
import sys
import termios
import tty
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from select import select
from typing import Any, Final, NamedTuple

from rich.console import Console
from rich.live import Live
from rich.text import Text

from supervisor import sensors
from supervisor.cli.status import Request, next_step, screen, status_command
from supervisor.settings.place import find_home
from supervisor.told.status import status

REFRESH: Final = 1.0
WINDOW: Final = 10.0
"""Seconds of which a rate is told."""
LEAST: Final = 2.0
"""Seconds that two looks must lie apart for a rate of what landed between them."""
FAR: Final = 5.0
"""Looks that lie farther apart, as after a sleep, say nothing about the seconds between."""


class Sample(NamedTuple):
    """What a job had landed at a look; `at` is monotonic seconds."""

    at: float
    rows: int


class Samples:
    """What the looks of the last seconds found, by attempt."""

    def __init__(self) -> None:
        self._seen: dict[tuple[int, int], deque[Sample]] = {}

    def add(self, running: list[dict[str, Any]], now: float) -> None:
        """Take a look's jobs; give each the rate of the last seconds.

        What was seen for too short a time keeps what status says of it.
        """
        seen = {(job["id"], job["attempt"]): job for job in running}
        self._seen = {attempt: found for attempt, found in self._seen.items() if attempt in seen}
        for attempt, job in seen.items():
            self._note(attempt, Sample(now, job["rows"]))
            job.update(self._facts(attempt))

    def _note(self, attempt: tuple[int, int], new: Sample) -> None:
        found = self._seen.setdefault(attempt, deque())
        if found and (new.at - found[-1].at > FAR or new.rows < found[-1].rows):
            found.clear()
        found.append(new)
        while new.at - found[0].at > WINDOW:
            found.popleft()

    def _facts(self, attempt: tuple[int, int]) -> dict[str, Any]:
        first, last = self._seen[attempt][0], self._seen[attempt][-1]
        if (seconds := last.at - first.at) < LEAST:
            return {}
        return {"rate": (last.rows - first.rows) / seconds, "rate_s": seconds}


def top_command(*, home: str | None, as_json: bool) -> int:
    """Show the status until somebody has seen enough; return 0.

    Raises:
        NoStore: there is no store here; none is made.
    """
    if as_json or not sys.stdout.isatty():
        return status_command(Request(home, as_json))
    place, samples = find_home(home), Samples()
    first = status(place)  # what is wrong is said where it can be read
    with suppress(KeyboardInterrupt), keys() as enough, live() as display:
        facts = first
        while True:
            display.update(Text("\n".join(picture(facts, samples))), refresh=True)
            if enough(REFRESH):
                break
            facts = status(place)
    return 0


def picture(facts: dict[str, Any], samples: Samples) -> Iterator[str]:
    """Yield the lines of one look."""
    facts["next"] = next_step(facts)
    samples.add(facts["running"], sensors.monotonic())
    yield from screen(facts)
    yield "q: leave"


@contextmanager
def live() -> Iterator[Live]:
    """Lend the terminal's other screen, so that what was on it comes back."""
    console = Console(markup=False, emoji=False, highlight=False)
    with Live(console=console, auto_refresh=False, screen=True, vertical_overflow="crop") as display:
        yield display


@contextmanager
def keys() -> Iterator[Callable[[float], bool]]:
    """Take keys as they are pressed; give what waits for so many seconds and tells whether q was.

    Without a terminal to read from it only waits: then a signal is the way out.
    """
    source = sys.stdin.fileno()
    if not os.isatty(source):
        yield lambda seconds: bool(select((), (), (), seconds)[0])
        return
    before = termios.tcgetattr(source)
    tty.setcbreak(source, termios.TCSADRAIN)
    try:
        yield lambda seconds: leaves(source, seconds)
    finally:
        termios.tcsetattr(source, termios.TCSADRAIN, before)


def leaves(source: int, seconds: float) -> bool:
    """Wait for a key for so long; tell whether it says to leave, as the end of the terminal does."""
    if not select((source,), (), (), seconds)[0]:
        return False
    pressed = os.read(source, 64)
    return not pressed or b"q" in pressed.lower()
