"""`supervisor run`: the daemon, with what happens shown as it does."""

import sys
from pathlib import Path

from supervisor.application import Application, load_application
from supervisor.cli.codes import FAILED, INTERRUPTED, STORE, USAGE
from supervisor.cli.output import complain, page, plain, print_line, short
from supervisor.cli.report import Display, JsonLines, Lines, Reporter
from supervisor.errors import ApplicationRefused
from supervisor.run.serve import Served, serve
from supervisor.settings.values import Flags, load_settings
from supervisor.told.names import strangers
from supervisor.told.status import status


def run_command(
    *,
    home: str | None,
    app: str | None,
    as_json: bool,
    until_idle: bool,
    max_workers: int | None,
    strict: bool,
) -> int:
    """Run until told to stop, or until idle; return why it ended as an exit code."""
    settings = load_settings(Flags(home=home, app=app, max_workers=max_workers))
    if lines := list(strangers()):
        raise ApplicationRefused(lines)
    application = load_application(settings)
    with Reporter(display(as_json=as_json)) as reporter:
        served = serve(application, settings, until_idle=until_idle, report=reporter)
    if not as_json:
        print_line(f"{served.ended.replace('_', ' ')}: {reporter.done:,} done, {reporter.failed:,} failed")
        if until_idle:
            print_rest(settings.home, application)
    return code_of(served, failed=strict and reporter.failed > 0)


def display(*, as_json: bool) -> Display:
    """Choose how to show a run: live on a terminal, lines elsewhere."""
    if as_json:
        return JsonLines()
    if sys.stdout.isatty():
        from supervisor.cli.live import Bars

        return Bars(sys.stdout, sentences=True)
    return Lines()


def code_of(served: Served, *, failed: bool) -> int:
    """Return the exit code of a run, saying what is wrong if anything is."""
    match served.ended:
        case "broken":
            complain(served.detail)
            return STORE
        case "app_start_failed":
            complain(served.detail)
            return USAGE
        case "interrupted":
            return INTERRUPTED
        case _:
            return FAILED if failed else 0


def print_rest(home: Path, application: Application) -> None:
    """Print what still waits, and why nobody took it."""
    rows = [
        (f"{group['jobs']:,}", plain(group["kind"]), why(group["kind"], group["reason"], application))
        for group in status(home)["waiting"]
    ]
    if rows:
        print_line("still waiting:")
        for line in page(rows, indent="  "):
            print_line(line)


def why(kind: str, reason: str, application: Application) -> str:
    """Say why jobs of a kind wait."""
    if kind not in application.kinds:
        return f"kind_not_loaded: {plain(application.name)} has no such lane"
    return short(reason, 100)
