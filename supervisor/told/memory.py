"""How much memory a running job holds: asked of /proc by whoever looks, so that a run pays nothing for it.

supervisor --> guardian --> worker --> what it has started
                   `------> orphans of the job, which the guardian has taken in

A number that a row keeps may be another process's by now: only a grandchild of the supervisor is believed.
Where there is no /proc, nobody can tell.
"""

from collections.abc import Iterable
from typing import Final

from supervisor import sensors

MOST: Final = 500
"""Processes of one job; a larger tree is not summed up, for somebody waits for the screen."""
LOOK_SECONDS: Final = 0.05
"""After so long no further tree is looked at."""


def sizes(workers: Iterable[int], supervisor: int) -> dict[int, int]:
    """Return the resident bytes of each worker and all that its job has started; of some, nobody can tell.

    A page that processes share counts for each of them.

    Args:
        workers: process ids as jobs' rows have them; 0 is none.
        supervisor: the process id of their run.
    """
    from ipc.guardian.meter import resident  # noqa: PLC0415 - a status without running jobs does without

    until = sensors.monotonic() + LOOK_SECONDS
    found = {}
    for worker in filter(None, workers):
        if sensors.monotonic() > until:
            break
        try:
            pids = tree(worker, supervisor)
        except OSError:  # no memory or no descriptor for a look
            continue
        if pids and (size := resident(pids)):
            found[worker] = size
    return found


def tree(worker: int, supervisor: int) -> list[int]:
    """Return a job's processes, none where the worker is not one of that supervisor's or they are too many.

    Beside the worker a guardian keeps the template that it is a copy of, which is older.
    """
    from ipc.guardian.meter import children, descendants  # noqa: PLC0415 - as above

    guardian, began = origin(worker)
    if not guardian or origin(guardian)[0] != supervisor:
        return []
    older = frozenset(child for child in children(guardian) if origin(child)[1] < began)
    found = descendants(guardian, older, MOST + 1)
    return found if len(found) <= MOST else []


def origin(pid: int) -> tuple[int, int]:
    """Return a process's parent, and when it began in ticks since the boot; (0, 0) of one that is gone."""
    from ipc.guardian.meter import read  # noqa: PLC0415 - as above

    # number (name, which may hold anything) state parent ..., the 20th after the name is the time
    fields = read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    return (int(fields[1]), int(fields[19])) if len(fields) > 19 else (0, 0)
