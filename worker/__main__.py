"""Entry of the child: guard the process first, then import what the user wrote."""

import sys
from collections.abc import Sequence
from typing import NoReturn

from worker.arguments import USAGE, parse
from worker.guard import guard


def main(argv: Sequence[str]) -> NoReturn:
    """Serve jobs until the supervisor is gone, then end the process."""
    if (arguments := parse(argv)) is None:
        sys.stderr.write(USAGE)
        sys.exit(2)
    guard(arguments.channel, arguments.stack, arguments.parent)
    if arguments.sealed:
        from worker.seal import seal  # noqa: PLC0415 - only kinds without network pay for it

        seal()
    # The rest is imported under guard: the codec takes longer than everything before it.
    from worker.start import start  # noqa: PLC0415

    start(arguments)


if __name__ == "__main__":
    main(sys.argv[1:])
