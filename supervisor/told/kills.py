"""What the record of a kill says to people: why, where it was stuck, what it took, who is left.

A receipt also records the ladder when a child was stopped for a failure of its own (its lander
raised, it broke the wire's rules); that is told as the failure, never as a kill. A record is read
as an older or newer version may have written it: what it lacks is not told.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from ipc.ladder import BEFORE_KILL, Rung
from policies.job import Outcome
from supervisor.told.stuck import call_path, stuck_at
from supervisor.told.units import count, human_size, limit

KILLED: Final = frozenset({"timed_out", "memory", "cancelled", "interrupted"})
OVER_LIMIT: Final = frozenset({"timed_out", "memory"})
"""Outcomes that are called by what was done about them: killed."""
DIED: Final = frozenset({"died", "memory"})
"""Outcomes of a process that ended without a word of its own, unless a kill of ours ended it."""
THE_WORKER_DIED: Final = "the worker died: "
FORCED: Final = frozenset(Rung) - BEFORE_KILL
WHY_ALIVE: Final = "not ours to signal, or stuck in the kernel"

Kill = Mapping[str, Any] | None


def is_kill(outcome: str, kill: Kill) -> bool:
    """Tell whether an attempt ended because it was killed, not by a failure of its own."""
    return bool(kill) and (outcome in KILLED or is_crowd(outcome, kill))


def is_crowd(outcome: str, kill: Kill) -> bool:
    """Tell whether it was killed for being too many processes, which has no outcome of its own."""
    return outcome == Outcome.DIED and (kill or {}).get("reason") == "process_limit"


def is_stop(kill: Mapping[str, Any]) -> bool:
    """Tell whether it was killed because its run stopped; its grace is then the time that it had to yield."""
    return kill.get("reason") == Outcome.INTERRUPTED


def end(outcome: str, kill: Kill, why: str) -> str:
    """Say how an attempt ended: "killed: no batch for 120 s", "died: exit code 3", "cancelled".

    A kill that left somebody alive is never told as a plain one (FIELD A7), and to leave a thread is none.
    """
    is_over = outcome in OVER_LIMIT or is_crowd(outcome, kill)
    if is_over and is_kill(outcome, kill) and not is_abandoned(kill):
        name = "killed"
    elif outcome in DIED:
        name, why = "died", why.removeprefix(THE_WORKER_DIED)
    else:
        name = outcome.replace("_", " ")
    return ": ".join(filter(None, (with_survivors(name, kill), why)))


def with_survivors(words: str, kill: Kill) -> str:
    """Add who is still alive, and why that may be."""
    if is_abandoned(kill):
        return f"{words}, its thread left behind"
    left = survivors(kill)
    return f"{words}, survivors: {left} ({WHY_ALIVE})" if left else words


def is_abandoned(kill: Kill) -> bool:
    """Tell whether it ran on a thread that did not leave, which nothing can end."""
    return (kill or {}).get("abandoned") is True


def survivors(kill: Kill) -> str:
    """Name the processes that could not be ended, "" when there are none."""
    return ", ".join(f"pid {pid}" for pid in pids(kill))


def pids(kill: Kill) -> list[int]:
    """Return the processes that could not be ended."""
    found = (kill or {}).get("survivors")
    return [pid for pid in found if type(pid) is int and 0 < pid < 2**31] if isinstance(found, list) else []


def alive(job: str, kill: Kill, exists: Callable[[int], bool]) -> tuple[list[int], str]:
    """Return what is left of a job and still exists, by the system's numbers, and that in words.

    A thread is known to Linux alone by a number like a process's; elsewhere it is not found.
    """
    thread = int(number(kill or {}, "thread"))
    if is_abandoned(kill):
        return [thread] if thread and exists(thread) else [], f"{job} has left thread {thread} stuck behind"
    left = [pid for pid in pids(kill) if exists(pid)]
    return left, with_survivors(f"{job} was killed", {"survivors": left})


def where(kill: Mapping[str, Any], most: int = 4) -> str:
    """Say where it hung, or why nobody knows; "" when it had no frame and went when it was asked to."""
    if frames := stuck_at(text(kill, "stack")):
        return f"stuck in {call_path(frames, most)}"
    grace = number(kill, "grace_s")
    if by_force(kill) and grace and not is_stop(kill) and "abandoned" not in kill:
        return f"ignored SIGTERM, ended by SIGKILL after its grace of {limit(grace)}"
    return ""


def by_force(kill: Mapping[str, Any]) -> bool:
    """Tell whether it took SIGKILL."""
    return text(kill, "rung") in FORCED


def cause(kill: Mapping[str, Any], limits: Mapping[str, Any]) -> str:
    """Say what it was killed for, with figures: "memory limit 500 MB crossed at 512 MB in 3 processes".

    Args:
        kill: the record.
        limits: those that the attempt had, by name; only the record knows what it crossed.
    """
    name = str(kill.get("reason")).replace("_", " ")
    memory = kill.get("memory")
    if not isinstance(memory, Mapping):
        return f"{kill.get('reason')} {limit(number(kill, 'deadline_s'))}" if is_deadline(kill) else name
    processes = count(int(number(memory, "processes")), "process")
    if kill.get("reason") == "process_limit":
        most = number(limits, "process_limit")
        return f"{name}{f' {most:,g}' if most else ''} crossed at {processes}"
    held = human_size(number(memory, "used"))
    return f"{name} {human_size(number(memory, 'limit'))} crossed at {held} in {processes}"


def is_deadline(kill: Mapping[str, Any]) -> bool:
    """Tell whether one of its clocks had run out."""
    return kill.get("deadline_s") is not None


def tally(kill: Mapping[str, Any]) -> str:
    """Say how many processes were ended and how many live; "" for a record that counted none."""
    if "ended" not in kill:
        return ""
    return f"{count(int(number(kill, 'ended')), 'process')} ended, {count(len(pids(kill)), 'survivor')}"


def text(facts: Mapping[str, Any], name: str) -> str:
    """Return a text of a record, "" where it has none."""
    found = facts.get(name)
    return found if isinstance(found, str) else ""


def number(facts: Mapping[str, Any], name: str) -> float:
    """Return a figure of a record, 0 where it has none."""
    found = facts.get(name)
    return found if isinstance(found, int | float) and 0 <= found < 1e18 else 0
