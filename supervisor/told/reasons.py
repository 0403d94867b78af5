"""Why a job waits: the reason's name for programs, and the same in words for people."""

from collections.abc import Container, Iterator, Mapping
from typing import Any, Final, NamedTuple

from policies.job import MICROS

SETTLED_SECONDS = 2.0
"""A queued job that nobody took for so long, while nothing runs, is not just about to be taken."""

WORDS = {
    "no_supervisor": "no supervisor runs here",
    "kind_not_loaded": "kind not loaded by the running supervisor",
    "orphaned": "was running when the supervisor died",
    "queued": "queued",
    "thread_busy": "its thread has a job",
    "run_ending": "the run is ending",
    "app_changed": "the application has changed since the run loaded it",
    "app_start_failed": "the application does not start",
    "exclusive": "another job that it may not run beside is before it",
}
UNTIL: Final[Mapping[str, str]] = {"kind_not_loaded": "an application that has it runs"}
"""What ends a reason, where its words do not say it."""
GUESSES = frozenset({"others_run", "kind_not_loaded"})
"""What is said of a queued job of which nothing better is known."""


class Wait(NamedTuple):
    """One reason that holds a job now: its name, its words, until when (ISO) or until what."""

    reason: str
    text: str
    until: str | None = None


HANDLER_MISSING = Wait(
    "handler_missing", "no application has declared this kind here", "one that has it runs"
)
"""Why imported jobs wait whose kind nobody ever had here (CONTRACTS K14)."""
NO_CHILD = Wait("no_child", "no child is ready for it yet")
"""Why nobody has taken a queued job of a kind that the run has loaded, while nothing runs."""


class Room(NamedTuple):
    """What a run says of itself: can it run the kind, how many jobs at once; None where it does not say."""

    loaded: bool | None = None
    slots: int | None = None


UNKNOWN_ROOM: Final = Room()


def why_queued(
    *,
    live: bool,
    running: int,
    waited: int,
    ending: bool = False,
    stopped: str = "",
    room: Room = UNKNOWN_ROOM,
) -> str:
    """Return the name of what holds a queued job.

    Args:
        live: whether a supervisor runs here.
        running: how many jobs are in flight.
        waited: microseconds since it was queued.
        ending: whether the supervisor was asked to stop, and claims nothing more.
        stopped: why the supervisor claims no more of its kind, "" where it does.
        room: what the run says of itself; where it says nothing, the answer is guessed.
    """
    if not live:
        return "no_supervisor"
    if ending:
        return "run_ending"
    if stopped:
        return stopped
    if room.loaded is False:
        return "kind_not_loaded"
    if running and running >= (room.slots or 1):
        return "others_run"
    guessed = room.loaded is None and not running and waited > SETTLED_SECONDS * MICROS
    return "kind_not_loaded" if guessed else "queued"


def in_words(reason: str, running: int) -> str:
    """Say a reason to a person."""
    if reason == "others_run":
        return "the one worker is busy" if running == 1 else f"all {running} workers busy"
    return WORDS.get(reason, reason.replace("_", " "))


def of_kind(kind: str, holds: Mapping[str, str], declared: Container[str]) -> Iterator[Wait]:
    """Yield what holds all jobs of a kind, whoever runs: nobody knows it, or somebody holds it."""
    if kind not in declared:
        yield HANDLER_MISSING
    if kind in holds:
        yield held_kind(kind, holds[kind])


def held_kind(kind: str, why: str) -> Wait:
    """Return the reason of a kind that somebody holds."""
    return Wait("kind_held", f"kind {kind} is held{f': {why}' if why else ''}")


def closed_gates(run: Mapping[str, Any], kind: str) -> Iterator[Wait]:
    """Yield the gates that keep a run from starting jobs of a kind, as its row tells; garbage tells nothing.

    A held kind is not among them: the store itself says that, whoever runs.
    """
    told = run.get("told") or {}
    by_kind = told.get("blocked")
    found = by_kind.get(kind) if isinstance(by_kind, dict) else None
    for one in (told.get("total"), *(found if isinstance(found, list) else ())):
        if not isinstance(one, dict) or one.get("gate") == "held":
            continue
        gate, text, until = one.get("gate"), one.get("text"), one.get("until") or None
        if isinstance(gate, str) and isinstance(text, str) and isinstance(until, str | None):
            yield Wait(gate, text, until)
