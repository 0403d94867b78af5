"""Showing a run while it happens, on a thread of its own: a terminal that stops reading stops no deadline.

loop thread: report(event) -> bounded queue -> this thread: display
"""

import json
import queue
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from types import TracebackType
from typing import Any, Final, Protocol, TextIO

from supervisor import sensors
from supervisor.cli.lines import sentence
from supervisor.cli.output import hint, print_line
from supervisor.cli.tally import Tally
from supervisor.events import AttemptEnded, BatchLanded, Event, JobStarted, Warned
from supervisor.told.units import clock, iso

WAITING: Final = 10_000
"""Events that may wait to be shown; what comes on top of that is counted, not shown."""
LAST_WORDS: Final = 2.0
PROGRESS_SECONDS: Final = 10.0


class Display(Protocol):
    """Somewhere events are shown."""

    def show(self, event: Event) -> None:
        """Show one event."""

    def refresh(self) -> float | None:
        """Bring the picture up to date; return the seconds to the next time, None to wait for an event."""

    def close(self) -> None:
        """Leave the terminal as it was."""


class Reporter:
    """The `report` of a run: counts on the calling thread, shows on another, never blocks or raises."""

    def __init__(self, display: Display) -> None:
        self.tally = Tally()
        self._display = display
        self._queue: queue.Queue[Event | None] = queue.Queue(WAITING)
        self._thread = threading.Thread(target=self._serve, name="report", daemon=True)

    def __call__(self, event: Event) -> None:
        """Take one event."""
        if isinstance(event, AttemptEnded):
            self.tally.add(event)
        with suppress(queue.Full):
            self._queue.put_nowait(event)

    def __enter__(self) -> "Reporter":
        """Begin to show."""
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Show what waits; a terminal that does not take it is left behind."""
        try:
            self._queue.put(None, timeout=LAST_WORDS)
        except queue.Full:
            return
        self._thread.join(LAST_WORDS)

    def _serve(self) -> None:
        try:
            self._show_all()
            self._display.close()
        except (OSError, ValueError):  # the reader of our output, or the stream, is gone; the run goes on
            self._drop_all()

    def _show_all(self) -> None:
        pause: float | None = None
        while True:
            try:
                event = self._queue.get(timeout=pause) if pause else self._queue.get(block=pause is None)
            except queue.Empty:
                pause = self._display.refresh()
                continue
            if event is None:
                return
            self._display.show(event)
            pause = 0.0

    def _drop_all(self) -> None:
        while self._queue.get() is not None:
            pass


class Quiet:
    """Nothing but warnings, on stderr: for a command whose stdout is its answer."""

    def show(self, event: Event) -> None:
        """Print a warning."""
        if isinstance(event, Warned):
            hint(event.text)

    def refresh(self) -> None:
        """Sleep: every line has been printed."""

    def close(self) -> None:
        """Nothing."""


class Lines:
    """One line for what happens, with its time; batches at most once in ten seconds a job."""

    def __init__(self) -> None:
        self._shown: dict[int, float] = {}

    def show(self, event: Event) -> None:
        """Print the sentence of an event that is worth one."""
        if isinstance(event, BatchLanded) and not self._is_news(event.job):
            return
        if isinstance(event, JobStarted):
            self._shown[event.job] = sensors.monotonic()
        elif isinstance(event, AttemptEnded):
            self._shown.pop(event.job, None)
        now = sensors.now_micros()
        print_line(f"{clock(now)}  {sentence(event, now)}")

    def _is_news(self, job: int) -> bool:
        now = sensors.monotonic()
        if now - self._shown.setdefault(job, now) < PROGRESS_SECONDS:
            return False
        self._shown[job] = now
        return True

    def refresh(self) -> None:
        """Sleep: every line has been printed."""

    def close(self) -> None:
        """Nothing: a log needs no last line."""


class JsonLines:
    """One JSON object a line into `stream`: `event`, `at` and the event's own fields."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def show(self, event: Event) -> None:
        """Print one event; batches and stale ones included."""
        self.print(type(event).__name__, asdict(event))

    def print(self, name: str, facts: Mapping[str, Any]) -> None:
        """Print one line."""
        line = {"event": name, "at": iso(sensors.now_micros()), **facts}
        print(json.dumps(line, default=dict), file=self._stream, flush=True)

    def refresh(self) -> None:
        """Sleep: every line has been printed."""

    def close(self) -> None:
        """Nothing."""
