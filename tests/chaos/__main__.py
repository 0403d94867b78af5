"""`python -m tests.chaos --kills 1000 --seed 7`: exit 0 when all held, 1 and the story when it did not."""

import argparse
import shutil
import sys
import tempfile
from pathlib import Path
from random import SystemRandom

from tests.chaos.runner import Chaos, Violation

SECONDS_A_KILL = 3.0


def main() -> int:
    """Run one seed; the store of a run that went wrong is kept."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.chaos", description="Kill supervisors, lose nothing."
    )
    parser.add_argument("--kills", type=int, default=1000, help="how many (default: %(default)s)")
    parser.add_argument(
        "--seed", type=int, default=SystemRandom().randrange(10**6), help="default: a new one"
    )
    asked = parser.parse_args()
    say(f"seed {asked.seed}, {asked.kills:,} kills")
    folder = Path(tempfile.mkdtemp(prefix="chaos-"))
    chaos = Chaos(folder, asked.seed, say)
    try:
        figures = chaos.run(asked.kills, max_seconds=60.0 + asked.kills * SECONDS_A_KILL)
    except Violation as wrong:
        say(f"VIOLATION, seed {asked.seed}, {wrong}\nthe store is kept: {chaos.home}")
        return 1
    for line in figures.lines():
        say(line)
    shutil.rmtree(folder)
    return 0


def say(line: str) -> None:
    """Print at once, also into a file."""
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
