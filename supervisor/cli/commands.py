"""The surface: every command with its arguments and options. What a command does is in a file of its own."""

import sys
from copy import copy
from typing import Any

import rich_click as click

from policies.job import State
from supervisor.cli import control, hints
from supervisor.cli.options import JOB, MODE, as_bytes, as_seconds, common
from supervisor.errors import Refused


def dispatch(argv: list[str]) -> int:
    """Parse and run one command; return its exit code.

    Raises:
        Refused: bad usage, in one line.
    """
    try:
        code = commands.main(args=argv, prog_name=hints.program(sys.argv), standalone_mode=False)
    except click.Abort:
        raise KeyboardInterrupt from None
    except SystemExit:  # click's own answer to a reader that has gone
        raise BrokenPipeError from None
    except click.ClickException as error:
        raise Refused([usage_line(error)]) from None
    return int(code or 0)


def usage_line(error: click.ClickException) -> str:
    """Return what click says in one line, and where the usage is told."""
    said = " ".join(error.format_message().split()).rstrip(".")
    ctx = getattr(error, "ctx", None)
    where = " ".join(ctx.command_path.split()[1:]) if ctx is not None else ""
    usage = " ".join(filter(None, (hints.program(sys.argv), where, "--help")))
    return f"{said}; {usage} shows how"


@click.group(invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--version", is_flag=True, help="Print the version.")
@click.pass_context
def commands(ctx: Any, *, version: bool) -> None:
    """Background work that hangs, leaks and crashes, on this machine, and none of it lost.

    Exit codes: 0 done, 1 the thing asked for failed, 2 usage, settings or application,
    3 another supervisor holds the store, 4 store error, 130 interrupted.
    """
    if version:
        from supervisor import sensors

        print(f"laneway {sensors.version()}")
    elif ctx.invoked_subcommand is None:
        raise click.UsageError("which command?")


@commands.command()
@click.option("--until-idle", is_flag=True, help="End when nothing is left that may run; waits for backoff.")
@click.option("--max-workers", type=int, metavar="N", help="Children at once (default: cores - 1).")
@MODE
@click.option("--strict", is_flag=True, help="Exit 1 when jobs failed in this run.")
@click.option("--reload", is_flag=True, help="Start anew whenever a file of the application changes.")
@common(app=True)
def run(**asked: Any) -> int:
    """Supervise: claim, run, land, kill, until Ctrl-C (twice: stop now)."""
    refuse_strangers()
    from supervisor.cli.run import Asked, run_command

    return run_command(Asked(**asked))


@commands.command()
@click.argument("kind")
@click.argument("payload", required=False, metavar="[JSON|-]")
@click.option("--lines", metavar="FILE|-", help="One JSON payload a line; all are queued, or none.")
@click.option("--priority", type=int, metavar="N", help="Lower runs first (default: the kind's own).")
@click.option("--tier", metavar="NAME", help="What must be loaded for it (default: the kind's own).")
@click.option("--key", help="While a job with this key waits, the same again adds none.")
@click.option("--tag", help="A label, to find the job again.")
@click.option(
    "--batch-deadline", callback=as_seconds, metavar="S", help="Kill it when no batch comes for so long."
)
@click.option("--start-deadline", callback=as_seconds, metavar="S", help="The same, up to the first row.")
@click.option("--job-deadline", callback=as_seconds, metavar="S", help="Kill it when it runs for longer.")
@click.option(
    "--memory-limit", callback=as_bytes, metavar="SIZE", help="Kill it when its processes hold more memory."
)
@common(app=True)
def enqueue(**asked: Any) -> int:
    """Queue a job of KIND and print its id. The payload is JSON, by default {}; - reads it from stdin."""
    from supervisor.cli.enqueue import enqueue_command

    return enqueue_command(**asked)


@commands.command()
@click.option("--state", type=click.Choice([str(state) for state in State]), help="Only jobs in this state.")
@click.option("--kind", help="Only jobs of this kind.")
@click.option("--tag", help="Only jobs with this label.")
@click.option("--limit", type=click.IntRange(1, 1000), default=50, show_default=True, help="How many.")
@click.option("--before", type=JOB, metavar="ID", help="The next page: jobs below this id.")
@common()
def jobs(**asked: Any) -> int:
    """List jobs, newest first."""
    from supervisor.cli.jobs import jobs_command

    return jobs_command(**asked)


@commands.command()
@click.argument("job", type=JOB, metavar="ID")
@click.option("--full", is_flag=True, help="With the last attempt's whole traceback or stack, and its log.")
@common()
def show(**asked: Any) -> int:
    """Tell a job's story: attempts, receipts, what landed, where it was killed."""
    from supervisor.cli.show import show_command

    return show_command(**asked)


@commands.command()
@click.argument("job", type=JOB, metavar="ID")
@common()
def logs(**asked: Any) -> int:
    """Print the tail of what the job's last finished attempt wrote to stdout and stderr."""
    from supervisor.cli.jobs import logs_command

    return logs_command(**asked)


@commands.command()
@click.option("--strict", is_flag=True, help="Exit 1 when jobs failed or health is bad.")
@common()
def status(*, home: str | None, as_json: bool, strict: bool) -> int:
    """Say what is, why it waits, and what to do."""
    from supervisor.cli.status import Request, status_command

    return status_command(Request(home, as_json, strict))


@commands.command()
@common()
def top(*, home: str | None, as_json: bool) -> int:
    """Show the status again every second, until q or Ctrl-C; once where stdout is no terminal."""
    from supervisor.cli.top import top_command

    return top_command(home=home, as_json=as_json)


@commands.command()
@common(app=True)
def check(**asked: Any) -> int:
    """Check settings and application; all complaints at once."""
    from supervisor.cli.check import check_command

    return check_command(**asked)


@commands.command()
@MODE
@common(app=True)
def lanes(**asked: Any) -> int:
    """List every kind: where it runs and who said so, what limits it."""
    from supervisor.cli.lanes import lanes_command

    return lanes_command(**asked)


@commands.command()
@click.argument("kind")
@click.argument("payload", default="{}", metavar="[JSON]")
@common(app=True)
def deskcheck(**asked: Any) -> int:
    """Run one job as a process and on a thread, in scratch stores, and compare the rows that landed.

    It starts at once: no gate is asked (power, presence, quiet hours, memory), no model of a tier is loaded.
    """
    refuse_strangers()
    from supervisor.cli.deskcheck import deskcheck_command

    return deskcheck_command(**asked)


@commands.command()
@common()
def doctor(**asked: Any) -> int:
    """Check the machine: versions, name clashes, the store's disk."""
    from supervisor.cli.doctor import doctor_command

    return doctor_command(**asked)


@commands.command()
@click.argument("path", metavar="PATH")
@click.option(
    "--exclude", multiple=True, metavar="NAME", help="Leave out this name or glob; may be repeated."
)
@common()
def index(**asked: Any) -> int:
    """Index a folder of notes, text or source code; again: only what changed."""
    refuse_strangers()
    from supervisor.cli.index import index_command

    return index_command(**asked)


@commands.command()
@click.argument("words", nargs=-1, required=True, metavar="WORDS...")
@click.option("--limit", type=click.IntRange(1, 1000), default=10, show_default=True, help="How many hits.")
@common()
def search(**asked: Any) -> int:
    """Search what was indexed: all WORDS, pre* for a beginning, a "phrase in quotes"."""
    from supervisor.cli.search import search_command

    return search_command(**asked)


for command in control.COMMANDS:
    commands.add_command(command)


def alias(command: click.Command, name: str) -> None:
    """Answer to another name, too, which no list of commands shows."""
    hidden = copy(command)
    hidden.hidden = True
    commands.add_command(hidden, name)


alias(index, "vault")
alias(control.retry, "resume")


def refuse_strangers() -> None:
    """Refuse to run where one of our names leads to somebody else's module, before any of them is loaded.

    Raises:
        ApplicationRefused: with one line for each.
    """
    from supervisor.errors import ApplicationRefused
    from supervisor.told.names import strangers

    if lines := list(strangers()):
        raise ApplicationRefused(lines)
