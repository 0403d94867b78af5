"""Deaths told apart: what ended a child that never said how its job did, and what it had gone over.

exit code | signal | CPU limit | the kernel, out of memory | a guardian that was killed | memory, processes
"""

import signal
from typing import Final

from ipc.child import Exit
from ipc.keeper import Crossed
from ipc.oom import Evidence
from policies.job import Outcome
from policies.options import Options
from supervisor.attempt.ending import Ending
from supervisor.children.worker import Worker
from supervisor.told.units import count, human_size

LIMIT_GRACE: Final = 0.25
"""Seconds between SIGTERM and SIGKILL for a job that is over a limit: enough to say where it is."""

FOUND_BY: Final = {
    Evidence.NAMED: "the kernel killed it, out of memory",
    Evidence.GROUP: "the kernel killed it, out of memory in its control group",
    Evidence.MACHINE: "SIGKILL, while the kernel ended processes because the machine was out of memory",
}


def over_limit(found: Crossed, options: Options) -> Ending:
    """End an attempt whose processes together hold more than they may, or are too many.

    They are counted first, and then what they hold is only a rough figure.
    """
    memory = not 0 < options.process_limit < found.processes
    many = count(found.processes, "process")
    if memory:
        limit, used = human_size(options.memory_limit), human_size(found.memory)
        text = f"memory limit {limit} crossed at {used} in {many}"
    else:
        text = f"process limit {options.process_limit} crossed at {many}"
    return Ending(
        outcome=Outcome.MEMORY if memory else Outcome.DIED,
        code="memory_limit" if memory else "process_limit",
        error=said(text),
        hung=True,
    )


def died(worker: Worker, options: Options, evidence: Evidence) -> Ending:
    """End an attempt whose child is gone without a last word."""
    child = worker.child
    stack = child.stack()
    if worker.lost:
        text = "the worker's guardian was killed, and the worker with it"
        return Ending(outcome=Outcome.DIED, code="guardian_died", error=said(text))
    ended = child.exit
    if ended is None:
        return Ending(outcome=Outcome.DIED, code="died", error=said("the worker hung up"))
    if options.cpu_limit and evidence is not Evidence.NAMED and is_cpu(ended, child.cpu, options):
        text = f"the worker used its {options.cpu_limit:g} s of CPU time"
        return Ending(outcome=Outcome.DIED, code="cpu_limit", error=said(text, stack))
    if ended.signal == signal.SIGKILL and evidence in FOUND_BY:
        text = f"the worker died: {FOUND_BY[evidence]} ({human_size(child.peak)} resident at most)"
        return Ending(outcome=Outcome.MEMORY, code="kernel_oom", error=said(text, stack))
    by_hand = ", which laneway did not send" if ended.signal == signal.SIGKILL else ""
    return Ending(outcome=Outcome.DIED, code="died", error=said(f"the worker died: {ended}{by_hand}", stack))


def was_stopped(worker: Worker) -> bool:
    """Tell whether it was the ladder that ended a child, and not its own exit that came meanwhile."""
    ended, climb = worker.child.exit, worker.climb
    if worker.lost or climb is None or climb.last is None:
        return False
    return ended is None or ended.signal in {signal.SIGTERM, signal.SIGKILL}


def is_cpu(ended: Exit, used: float, options: Options) -> bool:
    """Tell whether a signal was that of the CPU limit: the kernel's last word on it is a SIGKILL.

    It says that only to a child of one job, whose limit is for good.
    """
    by_force = ended.signal == signal.SIGKILL and options.jobs_per_child == 1
    return ended.signal == signal.SIGXCPU or (by_force and used > options.cpu_limit)


def said(text: str, stack: str = "") -> dict[str, str]:
    """Return an error that no exception has made."""
    return {"type": "", "message": text, "traceback": stack}
