"""What a run of chaos came to, in figures and in lines."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

FROM_OUTSIDE = "from outside"


@dataclass
class Figures:
    """Counts of one run; `slowest_gone` is in seconds from a supervisor's death to its last child's."""

    kills: Counter[str] = field(default_factory=Counter)
    ends: Counter[str] = field(default_factory=Counter)
    acts: Counter[str] = field(default_factory=Counter)
    jobs: Counter[str] = field(default_factory=Counter)
    rounds: int = 0
    attempts: int = 0
    rows: int = 0
    slowest_gone: float = 0.0
    slowest_check: float = 0.0
    seconds: float = 0.0

    def progress(self, seconds: float) -> str:
        """Return one line on how far it is."""
        return (
            f"{self.kills.total():,} kills in {seconds:.0f} s, {self.rounds:,} rounds; slowest child gone "
            f"after {self.slowest_gone * 1000:.0f} ms, slowest check {self.slowest_check * 1000:.0f} ms"
        )

    def lines(self) -> Iterator[str]:
        """Yield the summary."""
        yield self.progress(self.seconds)
        yield f"jobs: {counted(self.jobs)}; {self.attempts:,} attempts, as many receipts; {self.rows:,} rows"
        yield f"beside the kills: {counted(self.acts)}"
        yield f"other ends of a supervisor: {counted(self.ends) or 'none'}"
        yield f"killed at: {counted(self.kills)}"


def counted(counts: Counter[str]) -> str:
    """Return counts in words, the most frequent first."""
    return ", ".join(f"{name} {n:,}" for name, n in counts.most_common())
