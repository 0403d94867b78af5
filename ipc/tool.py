"""Runs one of the system's programs for an answer: no input, an end to its time, plain English words."""

import subprocess
from collections.abc import Sequence

ENVIRONMENT = {"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "LC_ALL": "C"}


def run(argv: Sequence[str], seconds: float) -> str:
    """Return what a program printed.

    Raises:
        OSError: it is not there, or failed; `TimeoutError` when it took longer, and it is dead.
    """
    try:
        done = subprocess.run(  # noqa: S603 - the caller's own words, no shell
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env=ENVIRONMENT,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise TimeoutError(f"{argv[0]} took longer than {seconds:g} s") from error
    if done.returncode:
        raise OSError(f"{argv[0]} ended with {done.returncode}")
    return done.stdout.decode(errors="replace")
