"""The one table of moves between states: the code, the tests and the drawing read it.

    enqueue -> queued | pending     pending --wake--> queued --claim--> leased --start--> running
    running --complete--> done      queued --hold_back--> pending
    pending, leased, running --fail--> failed      leased, running --fail_optional--> failed_optional
    leased, running --back_off--> pending          leased, running --release--> queued
    leased, running --defer--> deferred --wake--> queued
    pending, queued, deferred --hold--> pending
    pending, queued, deferred --skip--> skipped
    everything but done, skipped and cancelled --cancel--> cancelled
    failed, failed_optional, cancelled --resume--> queued, --resume_waiting--> pending
    failed --reopen--> pending

Only `claim` makes an in-flight row and only `start` makes a running one (SPEC U1).
"""

from enum import StrEnum
from typing import Final

from policies.job import IN_FLIGHT, WAITING, State


class Move(StrEnum):
    """Why a row changes its state."""

    WAKE = "wake"
    HOLD_BACK = "hold_back"
    HOLD = "hold"
    CLAIM = "claim"
    START = "start"
    COMPLETE = "complete"
    FAIL = "fail"
    FAIL_OPTIONAL = "fail_optional"
    BACK_OFF = "back_off"
    RELEASE = "release"
    DEFER = "defer"
    SKIP = "skip"
    CANCEL = "cancel"
    RESUME = "resume"
    RESUME_WAITING = "resume_waiting"
    REOPEN = "reopen"


TRANSITIONS: Final[dict[Move, tuple[frozenset[State], State]]] = {
    Move.WAKE: (frozenset({State.PENDING, State.DEFERRED}), State.QUEUED),
    Move.HOLD_BACK: (frozenset({State.QUEUED}), State.PENDING),
    Move.HOLD: (WAITING, State.PENDING),
    Move.CLAIM: (frozenset({State.QUEUED}), State.LEASED),
    Move.START: (frozenset({State.LEASED}), State.RUNNING),
    Move.COMPLETE: (frozenset({State.RUNNING}), State.DONE),
    Move.FAIL: (IN_FLIGHT | {State.PENDING}, State.FAILED),
    Move.FAIL_OPTIONAL: (IN_FLIGHT, State.FAILED_OPTIONAL),
    Move.BACK_OFF: (IN_FLIGHT, State.PENDING),
    Move.RELEASE: (IN_FLIGHT, State.QUEUED),
    Move.DEFER: (IN_FLIGHT, State.DEFERRED),
    Move.SKIP: (WAITING, State.SKIPPED),
    Move.CANCEL: (frozenset(State) - {State.DONE, State.SKIPPED, State.CANCELLED}, State.CANCELLED),
    Move.RESUME: (frozenset({State.FAILED, State.FAILED_OPTIONAL, State.CANCELLED}), State.QUEUED),
    Move.RESUME_WAITING: (frozenset({State.FAILED, State.FAILED_OPTIONAL, State.CANCELLED}), State.PENDING),
    Move.REOPEN: (frozenset({State.FAILED}), State.PENDING),
}


def allows(move: Move, state: State) -> bool:
    """Tell whether `move` may start from `state`."""
    return state in TRANSITIONS[move][0]


def target(move: Move) -> State:
    """Return the state that `move` leads to."""
    return TRANSITIONS[move][1]
