"""The commands that change what is queued, or end what runs; see `commands` for the others."""

from typing import Any, Final

import rich_click as click

from policies.job import ENDED, State
from policies.transitions import TRANSITIONS, Move
from supervisor.cli.options import JOB, as_seconds, common, filters, selection


@click.command()
@click.argument("ids", type=JOB, nargs=-1, required=True, metavar="ID...")
@click.option("--timeout", callback=as_seconds, metavar="S", help="Give up after so long (default: never).")
@common()
def wait(**asked: Any) -> int:
    """Wait until jobs have ended; exit 1 when one of them was not done, or the time was up."""
    from supervisor.cli.wait import wait_command

    return wait_command(**asked)


@click.command()
@selection(TRANSITIONS[Move.CANCEL][0], "those that have not ended")
@common()
def cancel(**asked: Any) -> int:
    """End jobs: their late batches are refused at once, their processes are gone a moment later."""
    from supervisor.cli.cancel import cancel_command

    return cancel_command(**asked)


@click.command()
@selection(TRANSITIONS[Move.RESUME][0], "failed, failed_optional")
@click.option("--failed", is_flag=True, help="All jobs that failed.")
@click.option("--from-start", is_flag=True, help="Start over: what has landed is discarded.")
@click.option("--keep-rows", is_flag=True, help="With --from-start: leave what has landed where it is.")
@common(app=True)
def retry(**asked: Any) -> int:
    """Queue jobs that failed or were cancelled again; they go on after what has landed."""
    from supervisor.cli.retry import retry_command

    return retry_command(**asked)


@click.command()
@selection(TRANSITIONS[Move.SKIP][0], "all that wait")
@common()
def skip(**asked: Any) -> int:
    """Take jobs that wait out of the queue, for good."""
    from supervisor.cli.skip import skip_command

    return skip_command(**asked)


@click.command()
@selection(TRANSITIONS[Move.HOLD][0], "all that wait")
@click.option("--why", metavar="TEXT", help="With --kind alone: shown wherever one of its jobs waits.")
@common()
def hold(**asked: Any) -> int:
    """Have jobs that wait, wait on until unhold; --kind alone: the whole kind, those to come too."""
    from supervisor.cli.hold import hold_command

    return hold_command(**asked)


@click.command()
@selection({State.PENDING}, "those that are held")
@common()
def unhold(**asked: Any) -> int:
    """Let held jobs go on waiting for their turn; --kind alone: the whole kind."""
    from supervisor.cli.hold import unhold_command

    return unhold_command(**asked)


@click.command()
@click.option("--now", is_flag=True, help="Do not wait for the batches under way.")
@click.option(
    "--timeout", callback=as_seconds, metavar="S", help="Give up after so long (default: by the grace)."
)
@common()
def down(**asked: Any) -> int:
    """End the supervisor here, and say what was verified; what it ran keeps its place."""
    from supervisor.cli.down import down_command

    return down_command(**asked)


@click.command()
@click.option(
    "--older-than",
    callback=as_seconds,
    required=True,
    metavar="S",
    help="How long ago they ended: 30d, 12h, 0.",
)
@filters(ENDED, "done, skipped, cancelled")
@click.option("--dry-run", is_flag=True, help="Only count what would go.")
@common()
def prune(**asked: Any) -> int:
    """Delete jobs that ended long ago, with all of their history, and give the space back."""
    from supervisor.cli.prune import prune_command

    return prune_command(**asked)


@click.command("import")
@click.argument("file", metavar="FILE")
@common(app=True)
def import_(**asked: Any) -> int:
    """Copy the jobs of a queue file of an earlier version; the file is only read."""
    from supervisor.cli.import_ import import_command

    return import_command(**asked)


COMMANDS: Final = (wait, cancel, retry, skip, hold, unhold, import_, down, prune)
