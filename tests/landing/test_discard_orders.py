"""In whatever order a job's marks, rows, ends, retries and edits come: what is there then, and what is owed.

A case is a script. `rows` lands a row that bears its attempt's number, `mark` a batch without rows; a step
of an attempt claims first where none is under way. `replay`, `restart` and `bare` declare the lane anew.
"""

import pytest

from landing.batches import Discard
from landing.claim import Claimed
from landing.enqueue import Register
from landing.ledger import Report
from landing.retry import Retry
from policies.job import Outcome
from policies.options import Options
from policies.transitions import Move
from policies.verdict import Verdict
from tests.landing.stand import DONE, KINDS, Stand
from tests.landing.test_discard import forget

MODES = {"replay": ("replay", True), "restart": ("restart", True), "bare": ("restart", False)}
"""How the lane resumes, and whether it has a discard."""

ENDS = {
    "done": (DONE, Outcome.DONE),
    "skip": (Verdict(Move.COMPLETE, "skipped"), Outcome.SKIPPED),
    "fail": (Verdict(Move.FAIL, "failed"), Outcome.FAILED),
    "die": (Verdict(Move.RELEASE, "orphaned"), Outcome.INTERRUPTED),
}
MARKED = {"mark": "half", "skip": 0, "digest": b""}
ROW_AFTER_MARK = {"mark": "half", "skip": 1, "digest": b"\x01"}


class Script:
    """One job of a lane, step by step; `told` is the last attempt before it was told to start over."""

    def __init__(self, stand: Stand, mode: str) -> None:
        self.stand = stand
        self.declare(mode)
        self.job = stand.enqueue()
        self.claimed: Claimed | None = None
        self.discard: Discard | None = None
        self.told = 0

    def play(self, steps: str) -> None:
        for step in steps.split():
            self.take(step)
            row = self.stand.row(self.job)
            assert row["landed_rows"] == len(self.texts()), step
            if row["discards"]:
                assert all(int(text) <= self.told for text in self.texts()), f"{step}: nothing landed since"

    def take(self, step: str) -> None:
        match step:
            case "replay" | "restart" | "bare":
                self.declare(step)
            case "retry" | "from_start" | "keep":
                self.retry(step)
            case "cancel":
                self.stand.cancel(self.job, live=False)
                self.claimed = None
            case "mark":
                self.land()
            case "rows":
                self.land(str(self.claim().number))
            case _:
                self.end(step)

    def declare(self, mode: str) -> None:
        self.resume, self.has_discard = MODES[mode]
        discards = frozenset({"embed"} if self.has_discard else ())
        self.stand.write(Register("app", KINDS | {"embed": Options(resume=self.resume)}, discards))

    def retry(self, how: str) -> None:
        self.stand.write(Retry(self.job, from_start=how != "retry", keep_rows=how == "keep"))
        if how == "from_start":
            self.told = self.stand.row(self.job)["claims"]

    def claim(self) -> Claimed:
        if self.claimed is None:
            self.claimed = self.stand.claim()
            assert self.stand.start(self.claimed)
            restarts = self.resume == "restart"
            due = self.claimed.discards or (restarts and self.claimed.landed_rows)
            self.discard = Discard(forget, self.claimed) if due and self.has_discard else None
            self.told = self.claimed.number - 1 if restarts else self.told
        return self.claimed

    def land(self, *texts: str) -> None:
        claimed = self.claim()
        seq = self.stand.row(self.job)["landed_seq"] + 1
        point = ROW_AFTER_MARK if texts else MARKED
        rows = [(self.job, seq, text) for text in texts]
        self.stand.land(claimed, seq, *rows, point=point, discard=self.discard)
        self.discard = None if texts else self.discard

    def end(self, how: str) -> None:
        claimed, (verdict, outcome) = self.claim(), ENDS[how]
        seq = self.stand.row(self.job)["landed_seq"]
        self.stand.finish(claimed, verdict, seq, report=Report(outcome=outcome), discard=self.discard)
        self.claimed = None

    def texts(self) -> list[str]:
        return [text for _, _, text in self.stand.notes()]


CASES = [
    # a retry from the start: what was there goes with the first row, or with the end that has none
    ("replay", "from_start mark", "1 1", 1),
    ("replay", "from_start mark mark", "1 1", 1),
    ("replay", "from_start mark rows", "2", 0),
    ("replay", "from_start rows mark rows", "2 2", 0),
    ("replay", "from_start done", "", 0),
    ("replay", "from_start mark done", "", 0),
    ("replay", "from_start rows done", "2", 0),
    ("replay", "from_start mark die rows", "3", 0),
    ("replay", "from_start mark die mark die rows", "4", 0),
    ("replay", "from_start rows die rows", "2 3", 0),
    # there was nothing to do
    ("replay", "retry skip", "1 1", 0),
    ("replay", "from_start skip", "1 1", 1),
    ("replay", "from_start mark skip", "1 1", 1),
    ("replay", "from_start rows skip", "2", 0),
    ("restart", "retry skip", "1 1", 0),
    ("restart", "retry mark skip", "1 1", 1),
    ("restart", "retry rows skip", "2", 0),
    # told twice, or cancelled in between
    ("replay", "from_start mark fail from_start rows", "3", 0),
    ("replay", "from_start rows fail from_start", "2", 1),
    ("replay", "from_start rows fail from_start mark die rows", "4", 0),
    ("replay", "from_start cancel from_start rows", "2", 0),
    ("replay", "from_start cancel retry rows", "2", 0),
    ("replay", "from_start mark cancel retry rows", "3", 0),
    ("replay", "from_start rows cancel retry rows", "2 3", 0),
    ("restart", "retry mark cancel retry rows", "3", 0),
    ("restart", "retry rows cancel retry mark", "2", 1),
    ("replay", "retry rows die from_start", "1 1 2", 1),
    ("replay", "retry rows die from_start mark die rows", "4", 0),
    ("replay", "from_start mark die from_start from_start rows", "3", 0),
    ("replay", "from_start mark die keep rows", "1 1 3", 0),
    # told first that they go, then that they stay
    ("replay", "from_start fail keep rows", "1 1 3", 0),
    ("replay", "from_start mark fail keep mark rows", "1 1 3", 0),
    ("replay", "from_start mark fail keep die rows", "1 1 4", 0),
    ("replay", "from_start rows fail keep rows", "2 3", 0),
    ("replay", "from_start mark fail keep fail from_start rows", "4", 0),
    # a lane that starts over at every attempt
    ("restart", "retry mark", "1 1", 1),
    ("restart", "retry mark rows", "2", 0),
    ("restart", "retry mark die rows", "3", 0),
    ("restart", "retry mark die mark die rows", "4", 0),
    ("restart", "retry mark done", "", 0),
    ("restart", "retry rows die mark", "2", 1),
    ("restart", "retry rows die mark die rows", "4", 0),
    ("restart", "from_start mark die rows", "3", 0),
    ("bare", "retry mark rows", "1 1 2", 0),
    ("bare", "from_start mark die rows", "1 1 3", 0),
    ("bare", "retry done", "1 1", 0),
    # its mode is edited between attempts
    ("replay", "restart retry die replay rows", "1 1 3", 0),
    ("replay", "restart retry mark die replay rows", "3", 0),
    ("replay", "restart retry rows die replay rows", "2 3", 0),
    ("replay", "from_start restart mark die replay rows", "3", 0),
    ("replay", "from_start bare mark die replay rows", "3", 0),
    ("replay", "from_start bare rows die replay rows", "1 1 2 3", 0),
    ("replay", "from_start bare rows die restart rows", "3", 0),
    ("restart", "retry mark die bare rows die replay rows", "1 1 3 4", 0),
    ("bare", "retry rows die restart mark rows", "3", 0),
]


@pytest.mark.parametrize(("mode", "steps", "there", "owed"), CASES)
def test_rows_go_with_those_that_replace_them_and_never_under_those_built_on_them(
    stand: Stand, mode: str, steps: str, there: str, owed: int
) -> None:
    """K4, K2: after two rows and a failure; what is owed is owed until a row has landed since."""
    script = Script(stand, mode)
    script.play(f"rows rows fail {steps}")
    assert " ".join(script.texts()) == there
    assert stand.row(script.job)["discards"] == owed
