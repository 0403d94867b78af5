"""Load the applications, or say why that failed; then serve, in this process or in copies of it."""

import atexit
import os
from contextlib import suppress
from typing import NoReturn

from ipc.channel import Pipe
from ipc.errors import AppError, ChannelClosed
from ipc.messages import Failed
from worker.arguments import Arguments
from worker.host import flush_output
from worker.limits import set_limits
from worker.registry import load_lanes
from worker.serve import Allowance, serve
from worker.template import Place, stay


def start(arguments: Arguments) -> NoReturn:
    """Serve the lanes of the applications over the wire, then end this process."""
    try:
        loaded = load_lanes(arguments.apps)
    except AppError as error:
        with suppress(ChannelClosed):
            text = str(error)[:1000]
            Pipe(arguments.channel).send(Failed(0, "unstated", "app_start_failed", "AppError", text))
        leave(1)
    place = Place(arguments.channel, arguments.stack, arguments.parent)
    if arguments.template >= 0 and not stay(arguments.template, place):
        leave(0)
    if arguments.sealed:
        from worker.seal import seal  # noqa: PLC0415 - only kinds without network pay for it

        seal()  # of a copy it is asserted too: never inherited unseen
    set_limits(arguments.open_files, arguments.file_size)
    allowance = Allowance(arguments.cpu, last=arguments.jobs == 1)
    pipe = Pipe(arguments.channel)
    os.register_at_fork(after_in_child=pipe.give_up)  # what user code forks is no worker
    serve(pipe, loaded, allowance)
    leave(0)


def leave(code: int) -> NoReturn:
    """End the process: what the application has registered for its exit is run, nothing is taken apart.

    To clear every module out of memory that the kernel is about to take back is most of the time of
    a small job, and touches pages that a copy shares with its template. Threads end with the process,
    daemons or not: the job that started them is over.
    """
    with suppress(BaseException):
        atexit._run_exitfuncs()  # noqa: SLF001 - as multiprocessing does for its children
    flush_output()
    os._exit(code)
