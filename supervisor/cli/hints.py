"""Commands as a hint names them, so that they work where they are read.

The program has the name it was called by; `--home` and `--app` are those that were given.
"""

import shlex
import sys
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final

from supervisor.settings.place import names_app

PROGRAMS: Final = ("supervisor", "laneway")
TAKE_AN_APP: Final = frozenset({"run", "enqueue", "check", "retry", "import", "lanes", "deskcheck"})
BUILT_IN_KINDS: Final = frozenset({"vault_sync"})


def command(words: str, argv: Sequence[str] | None = None) -> str:
    """Return `words` as a command line: "laneway show 5 --home /srv/jobs".

    Args:
        words: a command with its own arguments, as a shell takes them.
        argv: what this process was called with; default: sys.argv.
    """
    argv = sys.argv if argv is None else argv
    options = ("--home", "--app") if words.split(maxsplit=1)[0] in TAKE_AN_APP else ("--home",)
    given = [(option, value) for option in options if (value := given_value(option, argv))]
    return " ".join([program(argv), words, *(shlex.join(pair) for pair in given)])


def run(kinds: Iterable[str] = (), argv: Sequence[str] | None = None) -> str:
    """Return the command that starts a supervisor for jobs of these kinds, an application always named."""
    argv = sys.argv if argv is None else argv
    if given_value("--app", argv) or names_app():
        return command("run", argv)
    app = "supervisor.lanes" if BUILT_IN_KINDS.issuperset(found := set(kinds)) and found else "FILE.py"
    return f"{command('run', argv)} --app {app}"


def retry(job: int, *, from_start: bool) -> str:
    """Return the command that helps a job that did not get done."""
    return command(f"retry {job}{' --from-start' if from_start else ''}")


def program(argv: Sequence[str]) -> str:
    """Return the name that this program was called by."""
    name = Path(argv[0]).name if argv else ""
    return name if name in PROGRAMS else PROGRAMS[0]


def given_value(option: str, argv: Sequence[str]) -> str | None:
    """Return the last value of an option on a command line, None where it was not given."""
    found = None
    for word, after in pairwise([*argv, ""]):
        if word == option:
            found = after
        elif word.startswith(f"{option}="):
            found = word.partition("=")[2]
    return found or None
