"""Why a job waits: the reason's name for programs, and the same in words for people."""

from policies.job import MICROS

SETTLED_SECONDS = 2.0
"""A queued job that nobody took for so long, while nothing runs, is not just about to be taken."""

WORDS = {
    "no_supervisor": "no supervisor runs here",
    "kind_not_loaded": "kind not loaded by the running supervisor",
    "orphaned": "was running when the supervisor died",
    "queued": "queued",
    "run_ending": "the run is ending",
    "app_changed": "the application has changed since the run loaded it",
    "app_start_failed": "the application does not start",
}


def why_queued(*, live: bool, running: int, waited: int, ending: bool = False, held: str = "") -> str:
    """Return the name of what holds a queued job.

    Args:
        live: whether a supervisor runs here.
        running: how many jobs are in flight.
        waited: microseconds since it was queued.
        ending: whether the supervisor was asked to stop, and claims nothing more.
        held: why the supervisor claims no more of its kind, "" where it does.
    """
    if not live:
        return "no_supervisor"
    if ending:
        return "run_ending"
    if held:
        return held
    if running:
        return "others_run"
    return "kind_not_loaded" if waited > SETTLED_SECONDS * MICROS else "queued"


def in_words(reason: str, running: int) -> str:
    """Say a reason to a person."""
    if reason == "others_run":
        return "the one worker is busy" if running == 1 else f"all {running} workers busy"
    return WORDS.get(reason, reason.replace("_", " "))
