"""The command line. `main` is the one door: streams, exit codes, one line for whatever goes wrong.

argv --status?--> fast path (nothing but the store is loaded)
     --else-----> `commands` (click) -> one file for each command -> exit code
"""

import os
import sys
from collections.abc import Sequence
from io import TextIOWrapper

from supervisor.cli.output import complain
from supervisor.settings.place import wants_traceback


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code, whatever happens.

    Codes: 0 done, 1 the thing asked for failed, 2 usage, settings or application, 3 another
    supervisor holds the store, 4 store error, 130 interrupted.
    """
    if sys.platform == "win32":
        print("error: laneway needs POSIX signals and file locks, which Windows has not", file=sys.stderr)
        return 2
    open_what_is_closed()
    escape_what_cannot_be_shown()
    try:
        code = answer(list(sys.argv[1:] if argv is None else argv))
        sys.stdout.flush()
    except BrokenPipeError:
        return leave_quietly()
    except KeyboardInterrupt:
        return 130
    except Exception as error:  # noqa: BLE001 - a person gets a line, never a traceback
        return explain(error)
    return code


def answer(argv: list[str]) -> int:
    """Run the command that `argv` asks for."""
    if argv[:1] == ["status"]:
        from supervisor.cli.status import plain_request, status_command

        if (request := plain_request(argv[1:])) is not None:
            return status_command(request)
    from supervisor.cli.commands import dispatch

    return dispatch(argv)


def explain(error: Exception) -> int:
    """Print what went wrong and return the code for it; LANEWAY_DEBUG=1 adds the traceback."""
    from supervisor.cli.codes import code_of, lines_of

    if wants_traceback():
        import traceback

        traceback.print_exception(error)
    try:
        for line in lines_of(error):
            complain(line)
    except BrokenPipeError:
        leave_quietly()
    return code_of(error)


def open_what_is_closed() -> None:
    """Put the null device where a standard stream is closed (`>&-`), before anything else gets its number."""
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:
            null = os.open(os.devnull, os.O_RDWR)
            if null != number:
                os.dup2(null, number)
                os.close(null)
            stream = open(number, mode, encoding="utf-8", closefd=False)  # noqa: SIM115 - as long as we live
            setattr(sys, name, stream)


def escape_what_cannot_be_shown() -> None:
    """Print anything in any locale: what the encoding lacks, or a lone surrogate, becomes an escape."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def leave_quietly() -> int:
    """Our reader has gone (`| head`): it got what it wanted, and the last flush must not complain either."""
    null = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        os.dup2(null, stream.fileno())
    os.close(null)
    return 0
