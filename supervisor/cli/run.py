"""`supervisor run`: the daemon, with what happens shown as it does."""

import atexit
import os
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple, NoReturn, TextIO

from landing import views
from landing.errors import StoreError
from landing.snapshot import snapshot
from policies.job import ENDED
from supervisor import sensors
from supervisor.application import Application, load_application
from supervisor.cli.anew import STOPS, beginning, wait_for_change
from supervisor.cli.check import refuse_vain
from supervisor.cli.codes import FAILED, INTERRUPTED, STORE, USAGE
from supervisor.cli.output import complain, page, plain, print_line, short
from supervisor.cli.report import Display, JsonLines, Lines, Reporter
from supervisor.cli.tally import Tally
from supervisor.errors import ApplicationRefused
from supervisor.faults import reach_for
from supervisor.run.daemon import Served
from supervisor.run.serve import serve
from supervisor.settings.place import environment
from supervisor.settings.values import Flags, Settings, load_settings
from supervisor.told.reasons import HANDLER_MISSING, closed_gates
from supervisor.told.status import status

UNSHOWN: Final = (OSError, ValueError)
"""What printing raises where the stream is gone: its descriptor, or the object itself."""


class Asked(NamedTuple):
    """What `run` was asked for."""

    home: str | None
    app: str | None
    as_json: bool
    until_idle: bool
    max_workers: int | None
    strict: bool
    reload: bool
    mode: tuple[str, ...] = ()


def run_command(asked: Asked) -> int:
    """Run until told to stop, or until idle; return why it ended as an exit code."""
    begun = beginning() if asked.reload else None
    settings = load_settings(
        Flags(home=asked.home, app=asked.app, max_workers=asked.max_workers, modes=asked.mode)
    )
    began, application = sensors.now_micros(), None
    try:
        application = load_application(settings)
        refuse_vain(application, settings)
        served, tally, left = supervise(application, settings, asked)
    except (ApplicationRefused, StoreError) as error:
        if begun is None or settings.app is None or not is_of_application(error, application):
            raise
        if number := wait_for_change(settings, error, (began * 1000, sensors.now_micros() * 1000)):
            return INTERRUPTED if asked.until_idle and number == signal.SIGINT else 0
        begun.again()
    if begun is not None and served.ended == "app_changed":
        begun.again()
    if asked.until_idle and not asked.as_json and served.ended != "broken":
        print_rest(settings.home, application)
    cut_short = asked.until_idle and (served.ended, served.detail) == ("stopped", "SIGINT") and left > 0
    return INTERRUPTED if cut_short else end_with(served, failed=asked.strict and tally.failed > 0)


def is_of_application(error: ApplicationRefused | StoreError, application: Application | None) -> bool:
    """Tell whether an error is one of the application, or of its migrations, and not of the store."""
    apps = () if application is None else application.apps
    return isinstance(error, ApplicationRefused) or error.subject in {loaded.app.name for loaded in apps}


def supervise(application: Application, settings: Settings, asked: Asked) -> tuple[Served, Tally, int]:
    """Serve, and show it; return how that ended, what it came to, and how many jobs are left."""
    reach = reach_for(settings.home, environment())
    with display(as_json=asked.as_json) as shown:
        with Reporter(shown) as reporter:
            served = serve(
                application,
                settings,
                until_idle=asked.until_idle,
                report=reporter,
                reload=asked.reload,
                reach=reach,
            )
        if not (asked.reload and served.ended == "app_changed"):  # another image is to hear them
            leave_on_signals(code_of(served, failed=False))
        # Of a broken store there may be nothing left to read.
        tally, left = reporter.tally, 0 if served.ended == "broken" else unfinished(settings.home)
        broken = served.ended == "broken"
        with suppress(*UNSHOWN if broken else ()):  # it may be the very descriptor that was lost
            show_end(shown, served, tally, left)
        if broken and served.stuck:  # nothing more may be done by what the run holds
            end_with(served, failed=False)
    return served, tally, left


def show_end(shown: Display, served: Served, tally: Tally, left: int) -> None:
    """Show how a run ended and what it came to."""
    if isinstance(shown, JsonLines):
        counts = {"done": tally.done, "failed": tally.failed, "failed_optional": tally.optional}
        shown.print("RunEnded", {"ended": served.ended, "detail": served.detail, **counts, "left": left})
    else:
        print_line(last_line(served, tally, left))


@contextmanager
def display(*, as_json: bool) -> Iterator[Display]:
    """Choose how to show a run: JSON lines when asked, live on a terminal, lines elsewhere."""
    if as_json:
        with own_stdout() as stream:
            yield JsonLines(stream)
    elif sys.stdout.isatty():
        from supervisor.cli.live import Bars

        yield Bars(sys.stdout, sentences=True)
    else:
        yield Lines()


@contextmanager
def own_stdout() -> Iterator[TextIO]:
    """Lend stdout to one writer; what anything else prints meanwhile, a lander say, goes to stderr."""
    sys.stdout.flush()
    kept = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    try:
        with open(kept, "w", encoding="utf-8", closefd=False) as stream:
            yield stream
    finally:
        sys.stdout.flush()
        os.dup2(kept, sys.stdout.fileno())
        os.close(kept)


def unfinished(home: Path) -> int:
    """Count the jobs that have not ended."""
    with snapshot(home) as db:
        return sum(jobs for state, jobs in views.counts(db).items() if state not in ENDED)


def leave_on_signals(code: int) -> None:
    """Have a signal to stop end a process whose run is over with the code that the run has come to.

    Who asks twice, as `down --now` does, may be later with it than the run, and must not make it look killed.
    """
    for number in STOPS:
        signal.signal(number, lambda *_: leave_now(code))
        # The interpreter gives up its handlers before its last steps, and would die of the signal in them.
        atexit.register(signal.signal, number, signal.SIG_IGN)


def leave_now(code: int) -> NoReturn:
    """End the process without waiting for a thread that did not come back, nor for what it waits for."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(*UNSHOWN):
            stream.flush()
    os._exit(code)


def last_line(served: Served, tally: Tally, left: int) -> str:
    """Say how a run ended and what it came to."""
    return f"{served.ended.replace('_', ' ')}: {tally}" + (f", {left:,} left" if left else "")


def end_with(served: Served, *, failed: bool) -> int:
    """Return the exit code of a run, saying what is wrong if anything is."""
    if served.ended in {"broken", "app_start_failed", "app_changed"}:
        with suppress(*UNSHOWN):
            complain(served.detail)
    code = code_of(served, failed=failed)
    return leave_now(code) if served.stuck else code


def code_of(served: Served, *, failed: bool) -> int:
    """Return the exit code of a run."""
    match served.ended:
        case "broken":
            return STORE
        case "app_start_failed" | "app_changed":
            return USAGE
        case "interrupted":
            return INTERRUPTED
        case _:
            return FAILED if failed else 0


def print_rest(home: Path, application: Application) -> None:
    """Print what still waits, and why nobody took it."""
    with snapshot(home) as db:
        run = views.last_run(db) or {}
    rows = [
        (f"{group['jobs']:,} x", plain(group["kind"]), why(group, application, run))
        for group in status(home)["waiting"]
    ]
    if rows:
        print_line("still waiting:")
        for line in page(rows, indent="  "):
            print_line(line)


def why(group: Mapping[str, Any], application: Application, run: Mapping[str, Any]) -> str:
    """Say why jobs of a kind wait; the run that has just ended is ours."""
    if group["reason"] == HANDLER_MISSING.reason:
        return f"{HANDLER_MISSING.text}; run one that has it, or cancel them"
    if group["kind"] not in application.kinds:
        return f"kind not loaded: {plain(application.name)} has no such lane"
    if group["reason"] == "no_supervisor":
        gate = next(closed_gates(run, group["kind"]), None)
        return short(gate.text, 100) if gate is not None else "the run has ended"
    return short(group["text"], 100)
