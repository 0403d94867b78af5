"""Run the benchmarks that are named, or all; NAME=NUMBER makes one of another size."""

import sys

from benchmarks import claims, enqueue, growth, idle, kill, land, latency, look, memory, spawn, wal

BENCHMARKS = {"land": land.run, "memory": memory.run, "kill": kill.run, "spawn": spawn.run}
SIZED = {
    "growth": growth.run,
    "wal": wal.run,
    "enqueue": enqueue.run,
    "claims": claims.run,
    "latency": latency.run,
    "idle": idle.run,
    "look": look.run,
}
"""Take a number: of jobs, of seconds that a reader holds its snapshot, of jobs for each process, of jobs
in the deepest store, of jobs, of seconds, of jobs."""


def main(words: list[str]) -> int:
    """Run them in order; exit code 2 for a name that is none, or has no such number."""
    known = BENCHMARKS | SIZED
    for word in words:
        name, _, number = word.partition("=")
        if name not in known or (number and (name not in SIZED or not number.isdecimal())):
            sizes = ", ".join(f"{one}[=NUMBER]" if one in SIZED else one for one in known)
            print(f"no benchmark {word!r}; there are: {sizes}", file=sys.stderr)
            return 2
    for word in words or known:
        name, _, number = word.partition("=")
        if number:
            SIZED[name](int(number))
        else:
            known[name]()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
