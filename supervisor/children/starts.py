"""What keeps children from being started (CONTRACTS K13).

A start that fails: each waits longer for the next, three in a row hold the profile.
A child that has loaded other code than the supervisor: its application is held at once.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from ipc.sources import Own
from supervisor.application import Profile

STARTS: Final = 3
WAIT: Final = 0.1
"""Seconds after the first failed start; ten times as long after the next."""
START_FAILED: Final = "app_start_failed"
CHANGED: Final = "app_changed"


@dataclass(frozen=True, slots=True)
class Held:
    """Why no more children are started: app_start_failed or app_changed, in words, and what to do."""

    code: str
    text: str
    remedy: str = ""

    def __str__(self) -> str:
        return f"{self.text}; {self.remedy}" if self.remedy else self.text


class Starts:
    """Counts failed starts in a row, by profile. Args: `monotonic` in seconds.

    Attributes:
        held: the profiles that are not tried again, each with the reason.
        own: what the supervisor has loaded of the applications.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._failures: dict[Profile, int] = {}
        self._not_before: dict[Profile, float] = {}
        self.held: dict[Profile, Held] = {}
        self.own = Own({})

    def may_start(self, profile: Profile) -> bool:
        """Tell whether a child of `profile` may be started now."""
        return self.holds(profile) is None and self._monotonic() >= self._not_before.get(profile, 0.0)

    def holds(self, profile: Profile) -> Held | None:
        """Say why no child of `profile` is started or given work: an application changes for all profiles."""
        if profile in self.held:
            return self.held[profile]
        same = (why for one, why in self.held.items() if one.specs == profile.specs)
        return next((why for why in same if why.code == CHANGED), None)

    def failed(self, profile: Profile, why: str) -> None:
        """Count a failed start."""
        failures = self._failures[profile] = self._failures.get(profile, 0) + 1
        self._not_before[profile] = self._monotonic() + WAIT * 10 ** (failures - 1)
        if failures >= STARTS and profile not in self.held:
            where = ", behind the shield," if profile.shield else ""
            text = f"children of {', '.join(profile.specs)}{where} do not start: {why}"
            self.held[profile] = Held(START_FAILED, text)

    def agrees(self, profile: Profile, sources: bytes) -> bool:
        """Tell whether a child has loaded what the supervisor has; if not, its application is held."""
        if not (files := self.own.differing(sources)):
            return True
        if self.holds(profile) is None:
            self.held[profile] = Held(CHANGED, changed(files), "start again, or run with --reload")
        return False

    def changed(self) -> Held | None:
        """Say which application has changed, None for none."""
        return next((why for why in self.held.values() if why.code == CHANGED), None)

    def held_up(self, profile: Profile) -> None:
        """A child of `profile` started and was given work: the count begins anew."""
        self._failures.pop(profile, None)
        self._not_before.pop(profile, None)

    def next_try(self) -> float | None:
        """Return when the next start that waits may be tried, or None when none waits."""
        now = self._monotonic()
        waits = (at for one, at in self._not_before.items() if at > now and self.holds(one) is None)
        return min(waits, default=None)


def changed(files: Sequence[str]) -> str:
    """Say that files are not what this run has loaded; there may be hundreds."""
    more = f" and {len(files) - 1} more" if len(files) > 1 else ""
    return f"{files[0]}{more} changed since this run loaded the application"
