"""Run the benchmarks that are named, or all."""

import sys

from benchmarks import kill, land, memory

BENCHMARKS = {"land": land.run, "memory": memory.run, "kill": kill.run}


def main(names: list[str]) -> int:
    """Run them in order; exit code 2 for a name that is none."""
    if unknown := [name for name in names if name not in BENCHMARKS]:
        print(f"no benchmark {unknown[0]!r}; there are: {', '.join(BENCHMARKS)}", file=sys.stderr)
        return 2
    for name in names or BENCHMARKS:
        BENCHMARKS[name]()
    return 0


sys.exit(main(sys.argv[1:]))
