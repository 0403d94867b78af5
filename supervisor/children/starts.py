"""What keeps children from being started (CONTRACTS K13).

A start that fails: each waits longer for the next, three in a row hold the profile. Those that are
under way together count as one; until one was good, there is one at a time.
A system that lacks processes, memory or descriptors: no fault of the application, starts wait for it.
A child that has loaded other code than the supervisor: its application is held at once.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from errno import EAGAIN, EMFILE, ENFILE, ENOMEM
from typing import Final

from ipc.guardian.orders import AT_FAULT
from ipc.sources import Own
from supervisor.application import Profile
from supervisor.children.roll import SLOW_START

STARTS: Final = 3
WAIT: Final = 0.1
"""Seconds after the first failed start; ten times as long after the next."""
LACKS: Final = frozenset({EAGAIN, ENOMEM, EMFILE, ENFILE})
"""The errors of a system that has no room for one more process now."""
LONGEST_WAIT: Final = 5.0
"""Seconds between two starts while there is no room."""
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
        cold: those whose templates make no copies that are of use, each with the reason.
        good: those whose last start led to a child that had loaded the application.
        lack: what the system had no room for when a start had to wait first, "" for never.
        own: what the supervisor has loaded of the applications.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._failures: dict[Profile, int] = {}
        self._not_before: dict[Profile, float] = {}
        self._lacks: dict[Profile, int] = {}
        self._put_off: dict[Profile, int] = {}
        self.good: set[Profile] = set()
        self.lack = ""
        self.held: dict[Profile, Held] = {}
        self.cold: dict[Profile, str] = {}
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

    def patience(self, profile: Profile) -> float:
        """Return how many seconds a start may take while others wait for its place; each time twice."""
        return float(SLOW_START * 2 ** self._put_off.get(profile, 0))

    def put_off(self, profile: Profile) -> None:
        """Try others first: a start has taken too long."""
        self.good.discard(profile)
        self._not_before[profile] = self._monotonic() + self.patience(profile)
        self._put_off[profile] = self._put_off.get(profile, 0) + 1

    def began_well(self, profile: Profile) -> None:
        """A child of `profile` has loaded the application."""
        self.good.add(profile)
        self._put_off.pop(profile, None)

    def failed(self, profile: Profile, why: str, began: float, number: int = 0) -> None:
        """Count a failed start, unless another had failed since it `began`, or the system had no room for it.

        `number` is the system's error, 0 for none.
        """
        if began < self._not_before.get(profile, 0.0):
            return
        if number in LACKS:
            self._wait_for_room(profile, why)
            return
        self.good.discard(profile)
        failures = self._failures[profile] = self._failures.get(profile, 0) + 1
        self._not_before[profile] = self._monotonic() + WAIT * 10 ** (failures - 1)
        if failures >= STARTS and profile not in self.held:
            where = ", behind the shield," if profile.shield else ""
            text = f"children of {', '.join(profile.specs)}{where} do not start: {why}"
            self.held[profile] = Held(START_FAILED, text)

    def _wait_for_room(self, profile: Profile, why: str) -> None:
        lacks = self._lacks[profile] = self._lacks.get(profile, 0) + 1
        self._not_before[profile] = self._monotonic() + min(LONGEST_WAIT, WAIT * 2 ** min(lacks - 1, 9))
        self.lack = self.lack or why

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

    def came(self, profile: Profile, spawn: str) -> None:
        """Note why a child of `profile` was no copy, where that is its template's fault."""
        _, _, why = spawn.partition(" ")
        if why.startswith(AT_FAULT):
            self.cold.setdefault(profile, why)

    def held_up(self, profile: Profile) -> None:
        """A child of `profile` started and was given work: the count begins anew."""
        for counts in (self._failures, self._not_before, self._lacks):
            counts.pop(profile, None)

    def next_try(self) -> float | None:
        """Return when the next start that waits may be tried, or None when none waits."""
        now = self._monotonic()
        waits = (at for one, at in self._not_before.items() if at > now and self.holds(one) is None)
        return min(waits, default=None)


def changed(files: Sequence[str]) -> str:
    """Say that files are not what this run has loaded; there may be hundreds."""
    more = f" and {len(files) - 1} more" if len(files) > 1 else ""
    return f"{files[0]}{more} changed since this run loaded the application"
