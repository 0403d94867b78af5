"""What happens in a round, drawn from the seed: pure, but for the dice that are handed in.

Times are fractions of the time that a supervisor takes from its start to its first landed row, so
that a seed means much the same on a fast machine and on a slow one.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from random import Random
from signal import SIGKILL, SIGTERM
from typing import Final

from landing import faults as lander
from supervisor import faults

SELDOM: Final = {lander.CHECKPOINT, *(point for point in lander.POINTS if point.startswith("renew."))}
"""Reached after 32 MiB of WAL, or after 30 s: never in a round."""
OFTEN: Final = {"begin", "commit", "land", "receive", "ack", "claim", "start", "finish", "send", "other"}
POINTS: Final = tuple(point for point in faults.POINTS if point not in SELDOM)
LANES: Final = {"replay": 2500, "checkpoint": 2500, "restart": 500}
"""The most rows that a job of each lane has; one that restarts must get done between two kills."""

PATIENCE: Final = 4.0
"""A point that is not reached by then was not to be reached in this round."""


class Act(StrEnum):
    """What is done to a supervisor, or beside it, from outside."""

    ENQUEUE = "enqueue"
    CANCEL = "cancel"
    RETRY = "retry"
    RETRY_FROM_START = "retry --from-start"
    KILL_GUARDIAN = "kill a guardian"
    KILL_TEMPLATE = "kill a template"
    KILL_WORKER = "kill a worker"
    TERM = "SIGTERM"
    KILL = "SIGKILL"
    KILL_TOGETHER = "SIGKILL, and its guardians too"


RETRIES: Final = (Act.RETRY, Act.RETRY_FROM_START)
BELOW: Final = (Act.KILL_GUARDIAN, Act.KILL_TEMPLATE, Act.KILL_WORKER)
LAST: Final = (Act.KILL, Act.KILL_TOGETHER)


@dataclass(frozen=True, slots=True)
class Step:
    """An act, when it is due, and (for a new job) the lane and its payload."""

    at: float
    act: Act
    kind: str = ""
    payload: dict[str, int] = field(default_factory=dict)
    pick: float = 0.0

    def __str__(self) -> str:
        what = f" {self.kind} {self.payload}" if self.kind else f" (pick {self.pick:.3f})"
        return f"{self.at:.3f} {self.act}{what if self.act not in {Act.TERM, *LAST} else ''}"


@dataclass(frozen=True, slots=True)
class Round:
    """One life of a supervisor: the faults it is started with, and what comes from outside, in order."""

    faults: tuple[str, ...]
    steps: tuple[Step, ...]

    def __str__(self) -> str:
        return f"LANEWAY_FAULTS={','.join(self.faults) or '(none)'}; " + "; ".join(map(str, self.steps))

    @property
    def deadly_point(self) -> str | None:
        """Return the point at which it is to die, None where it is killed from outside."""
        return next((one.split(":")[0] for one in self.faults if ":kill" in one), None)

    @property
    def exits(self) -> set[int]:
        """Return how it may end: killed, idle or stopped, and by itself if an error was injected."""
        acts = {step.act for step in self.steps}
        killed = {-SIGKILL} if acts & {*LAST} else set()
        stopped = {-SIGTERM} if Act.TERM in acts else set()  # it came before the handler was there
        broken = {1, 4} if any(":raise" in one or ":ioerr" in one for one in self.faults) else set()
        return {0} | killed | stopped | broken


def draw(dice: Random, backlog: int) -> Round:
    """Draw a round.

    Args:
        dice: the seed's.
        backlog: how many jobs have not ended; there are always enough that no supervisor runs dry.
    """
    way = dice.choices(("point", "outside", "stop"), (60, 34, 6))[0]
    faults_drawn = list(draw_faults(dice, deadly=way == "point"))
    steps = [draw_job(dice) for _ in range(max(dice.randrange(3), 6 - backlog))]
    if dice.random() < 0.3:
        steps.append(Step(dice.uniform(0.5, 2.0), dice.choice(BELOW), pick=dice.random()))
    steps += [Step(dice.uniform(0.0, 2.0), Act.CANCEL, pick=dice.random())] if dice.random() < 0.15 else []
    if dice.random() < 0.3:
        steps.append(Step(dice.uniform(0.0, 2.0), dice.choice(RETRIES), pick=dice.random()))
    if way == "stop" or any(one.startswith("close") for one in faults_drawn):
        steps.append(Step(dice.uniform(0.3, 2.0), Act.TERM))
    together = way != "point" and dice.random() < 0.3
    at = PATIENCE if way == "point" else dice.uniform(0.0, 2.2)
    last = Step(at, Act.KILL_TOGETHER if together else Act.KILL)
    steps = [step for step in steps if step.at < last.at]
    return Round(tuple(faults_drawn), (*sorted(steps, key=lambda step: step.at), last))


def draw_job(dice: Random) -> Step:
    """Draw a new job and when it comes; one in ten has no rows at all, or one."""
    kind = dice.choice(tuple(LANES))
    rows = dice.randrange(2) if dice.random() < 0.1 else dice.randrange(LANES[kind])
    at = 0.0 if dice.random() < 0.5 else dice.uniform(0.0, 2.0)
    payload = {"rows": rows, "unit": dice.choice((0, 7, 40, 300)), "leaves": int(dice.random() < 0.25)}
    return Step(at, Act.ENQUEUE, kind, payload)


def draw_faults(dice: Random, *, deadly: bool) -> list[str]:
    """Draw the kill, if there is to be one, and in one round of four something less deadly before it."""
    drawn = []
    if deadly:
        point = dice.choice(POINTS)
        drawn.append(f"{point}:kill@{draw_count(dice, point)}")
    if dice.random() < 0.25:
        drawn += draw_trouble(dice)
    return drawn


def draw_trouble(dice: Random) -> list[str]:
    """Draw a delay or an error; not two errors: a batch that fails twice is given up, as it should be."""
    point = dice.choice(POINTS)
    n = draw_count(dice, point)
    match dice.choices(("delay", "raise", "ioerr", "full", "readonly"), (30, 30, 10, 15, 15))[0]:
        case "delay":
            return [f"{point}:delay={dice.uniform(0.01, 0.2):.3f}@{n}"]
        case "raise":
            return [f"{point}:raise@{n}"]
        case "ioerr":
            return [f"commit:ioerr@{n}"]
        case kind:
            times = dice.choice((1, 2))  # alone, too, it meets it again, and waits
            return [f"commit:{kind}@{n + k}" for k in range(times)]


def draw_count(dice: Random, point: str) -> int:
    """Draw at which time a point is meant: mostly the first few, now and then much later."""
    if point.split(".", 1)[0] not in OFTEN:
        return 1
    return 1 + int(dice.expovariate(1 / 6 if point.startswith(("land", "ack", "receive")) else 1 / 2))
