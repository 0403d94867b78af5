"""Starts that fail: each waits longer for the next, three in a row hold the application (CONTRACTS K13)."""

from collections.abc import Callable
from typing import Final

from supervisor.application import Profile

STARTS: Final = 3
WAIT: Final = 0.1
"""Seconds after the first failed start; ten times as long after the next."""


class Starts:
    """Counts failed starts in a row, by profile. Args: `monotonic` in seconds.

    Attributes:
        held: the profiles that are not tried again, each with what went wrong last.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._failures: dict[Profile, int] = {}
        self._not_before: dict[Profile, float] = {}
        self.held: dict[Profile, str] = {}

    def may_start(self, profile: Profile) -> bool:
        """Tell whether a child of `profile` may be started now."""
        return profile not in self.held and self._monotonic() >= self._not_before.get(profile, 0.0)

    def failed(self, profile: Profile, why: str) -> None:
        """Count a failed start."""
        failures = self._failures[profile] = self._failures.get(profile, 0) + 1
        self._not_before[profile] = self._monotonic() + WAIT * 10 ** (failures - 1)
        if failures >= STARTS:
            self.held[profile] = why

    def held_up(self, profile: Profile) -> None:
        """A child of `profile` started and was given work: the count begins anew."""
        self._failures.pop(profile, None)
        self._not_before.pop(profile, None)

    def next_try(self) -> float | None:
        """Return when the next start that waits may be tried, or None when none waits."""
        now = self._monotonic()
        waits = (at for one, at in self._not_before.items() if one not in self.held and at > now)
        return min(waits, default=None)
