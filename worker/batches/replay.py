"""A new attempt in a `replay` lane: rows that landed are yielded again and dropped (CONTRACTS K4)."""

from typing import Final

from ipc.messages import Progress, Run
from worker.batches.line import Line, Meter
from worker.batches.refusal import Refusal
from worker.batches.trail import Trail

REMEDY: Final = (
    'a lane with resume="replay" must yield the same rows after the same mark; '
    'declare it resume="checkpoint" or "restart", then start the job over: laneway retry {} --from-start'
)


class Replay:
    """Drops the first rows after the mark and compares them with those that landed.

    Args:
        run: its point is where the last landed batch ended; the point's `skip` rows are dropped.
        trail: started at the point's mark.

    Attributes:
        left: rows still to drop.
    """

    def __init__(self, run: Run, trail: Trail, line: Line, meter: Meter) -> None:
        self._job = run.job
        self._point = run.point
        self._trail = trail
        self._line = line
        self._meter = meter
        self.left = run.point.skip

    @property
    def silent(self) -> bool:
        """Tell whether nothing has been dropped and reported yet."""
        return self.left == self._point.skip

    def drop(self, rows: int, encoded: memoryview) -> None:
        """Drop so many rows and report it, which counts as progress.

        Raises:
            Refusal: they were the last to drop and are not the rows that landed.
        """
        self._trail.add(rows, encoded)
        self.left -= rows
        replayed = self._point.skip - self.left
        self._line.send(Progress(self._meter.done, self._meter.total, replayed))
        if not self.left and self._trail.point() != self._point:
            raise self.mismatch(
                f"what was yielded after {self._place()} is not the {counted(replayed)} that landed"
            )

    def mismatch(self, what: str) -> Refusal:
        """Return the refusal of a replay that went another way."""
        return Refusal("resume_mismatch", f"{what}: {REMEDY.format(self._job)}")

    def cut_short(self, by: str) -> Refusal:
        """Return the refusal of `by` having come before all landed rows were yielded again."""
        landed = self._point.skip
        return self.mismatch(
            f"{by} came {counted(landed - self.left)} after {self._place()}, {landed} have landed"
        )

    def _place(self) -> str:
        return "the start" if self._point.mark is None else f"mark {self._point.mark[:80]!r}"


def counted(number: int) -> str:
    """Say how many: "1 row", "5 rows"."""
    return f"{number} row{'' if number == 1 else 's'}"
