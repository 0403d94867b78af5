"""The words that statements share; no state name is written twice."""

from typing import Final

from policies.job import State
from policies.transitions import TRANSITIONS, Move


def sources(move: Move) -> str:
    """Return the states that `move` may start from, as the inside of an SQL IN list."""
    return ", ".join(f"'{state}'" for state in sorted(TRANSITIONS[move][0]))


def to(move: Move) -> str:
    """Return the state that `move` leads to, as an SQL literal."""
    return f"'{TRANSITIONS[move][1]}'"


def whole(column: str) -> str:
    """Return an expression for a count that garbage in its cell makes 0."""
    return f"IIF(typeof({column}) = 'integer' AND {column} BETWEEN 0 AND 1 << 53, {column}, 0)"


NOT_BEGUN: Final = ", ".join(f"'{state}'" for state in (State.PENDING, State.QUEUED))
"""A request may meet an earlier one in these states (SPEC U2)."""

IN_FLIGHT: Final = sources(Move.RELEASE)  # which starts from every state in flight
