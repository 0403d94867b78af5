"""A run on a terminal: a bar for each job under way, sentences scrolling above them."""

from typing import Final, TextIO

from rich.console import Console
from rich.live import Live
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.text import Text

from supervisor import sensors
from supervisor.cli.lines import sentence
from supervisor.cli.output import plain
from supervisor.events import AttemptEnded, BatchLanded, Event, JobStarted, Warned
from supervisor.told.units import clock, count

REFRESH: Final = 0.2


class Bars:
    """Shows events on a terminal; with `sentences` off, bars and warnings only."""

    def __init__(self, stream: TextIO, *, sentences: bool) -> None:
        self._console = Console(file=stream, markup=False, emoji=False, highlight=False)
        self._sentences = sentences
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=30),
            TextColumn("{task.fields[far]}", markup=False),
            TextColumn("{task.fields[rate]}", markup=False),
            TimeElapsedColumn(),
            console=self._console,
        )
        self._live = Live(
            self._progress,
            console=self._console,
            auto_refresh=False,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._bars: dict[int, tuple[TaskID, float]] = {}
        self._next_draw = 0.0
        self._live.start()

    def show(self, event: Event) -> None:
        """Move the bars; say what is worth a sentence."""
        match event:
            case JobStarted():
                self._bar(event.job, event.kind)
            case BatchLanded():
                self._move(event)
                return
            case AttemptEnded() if event.job in self._bars:
                self._progress.remove_task(self._bars.pop(event.job)[0])
        if self._sentences or isinstance(event, Warned):
            now = sensors.now_micros()
            self._console.print(Text(f"{clock(now)}  {sentence(event, now)}"))

    def _bar(self, job: int, kind: str) -> tuple[TaskID, float]:
        if job not in self._bars:
            task = self._progress.add_task(f"{plain(kind)} #{job}", total=None, far="", rate="")
            self._bars[job] = task, sensors.monotonic()
        return self._bars[job]

    def _move(self, event: BatchLanded) -> None:
        task, began = self._bar(event.job, event.kind)
        seconds = sensors.monotonic() - began
        self._progress.update(
            task,
            total=event.total,
            completed=event.done or 0,
            far=f"{event.done or 0:,} of {event.total:,}" if event.total else count(event.rows, "row"),
            rate=f"{event.rows / seconds:,.0f} rows/s" if seconds > 1 else "",
        )

    def refresh(self) -> float | None:
        """Draw, five times a second at most; again soon while a job runs, because its time runs too."""
        now = sensors.monotonic()
        if now < self._next_draw:
            return self._next_draw - now
        self._next_draw = now + REFRESH
        self._live.refresh()
        return REFRESH if self._bars else None

    def close(self) -> None:
        """Take the bars away and give the terminal back."""
        self._live.stop()
