"""What the command line of a child says. A program wrote it, so it is taken or refused as a whole."""

from collections.abc import Sequence

USAGE = (
    "usage: python -P -m worker --channel FD --stack FD --parent PID [--template FD] [--sealed]"
    " [--jobs N] [--cpu SECONDS] [--open-files N] [--file-size BYTES] APP [APP...]\n"
)
DIGITS = 18


class Arguments:
    """Descriptors and process ids, -1 where none was named; limits, 0 where there is none.

    Attributes:
        channel: the wire.
        stack: the file that stacks are dumped to.
        parent: the process to live no longer than.
        template: where copies of this process are asked for.
        sealed: nothing but loopback may be connected to.
        jobs: how many jobs this child may be given, one after another.
        cpu: CPU seconds of one job.
        open_files: descriptors that may be open at once.
        file_size: bytes that a file may grow to.
        apps: the specs of the applications.
    """

    def __init__(self) -> None:
        self.channel = self.stack = self.parent = self.template = -1
        self.sealed = False
        self.jobs = 1
        self.cpu = self.open_files = self.file_size = 0
        self.apps: Sequence[str] = ()


def parse(argv: Sequence[str]) -> Arguments | None:
    """Read the command line; None when it is not as USAGE says."""
    arguments, words = Arguments(), list(argv)
    numbers = {name for name, value in vars(arguments).items() if type(value) is int}
    while words and words[0].startswith("--"):
        name = words.pop(0)[2:].replace("-", "_")
        if name == "sealed":
            arguments.sealed = True
        elif name in numbers and words and is_number(words[0]):
            setattr(arguments, name, int(words.pop(0)))
        else:
            return None
    arguments.apps = words
    whole = words and min(arguments.channel, arguments.stack, arguments.parent) >= 0
    return arguments if whole else None


def is_number(word: str) -> bool:
    """Tell whether a word is a whole number that is no absurdity."""
    return word.isascii() and word.isdigit() and len(word) <= DIGITS
