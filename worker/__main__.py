"""Entry of the child: guard the process first, then import what the user wrote."""

import sys
from collections.abc import Sequence
from typing import NamedTuple

from worker.guard import guard

USAGE = "usage: python -P -m worker --channel FD --stack FD --parent PID APP [APP...]\n"


class Arguments(NamedTuple):
    """What the command line says."""

    channel: int
    stack: int
    parent: int
    apps: Sequence[str]


def parse(argv: Sequence[str]) -> Arguments | None:
    """Read the command line, which a program wrote: three numbers by name, then applications."""
    match list(argv):
        case ["--channel", channel, "--stack", stack, "--parent", parent, *apps] if apps:
            numbers = (channel, stack, parent)
            if all(number.isascii() and number.isdigit() for number in numbers):
                return Arguments(int(channel), int(stack), int(parent), apps)
    return None


def main(argv: Sequence[str]) -> int:
    """Serve jobs until the supervisor is gone; return the exit code."""
    if (arguments := parse(argv)) is None:
        sys.stderr.write(USAGE)
        return 2
    guard(arguments.channel, arguments.stack, arguments.parent)
    # The rest is imported under guard: the codec takes longer than everything before it.
    from worker.start import start  # noqa: PLC0415

    return start(arguments.channel, arguments.apps)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
