"""Asks the probes off the loop, and brings what they say back to it.

    turn --ask--> a thread for each probe --answer--> post -> readings, and the listener if it is news
      `--5 s without an answer--> unknown; asked again when that answer has come, which is too old by then

Only what is wanted is asked: while nothing is, no thread wakes.
"""

import queue
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import inf
from typing import Any, Final

from landing.text import error_text
from policies.readings import MemoryReading, PowerReading, PresenceReading, Readings
from supervisor.probes import macos
from supervisor.probes.macos import Run
from supervisor.probes.memory import memory
from supervisor.probes.news import Reading, is_news
from supervisor.probes.power import power
from supervisor.sensors import monotonic

PRESENCE: Final = "presence"
POWER: Final = "power"
MEMORY: Final = "memory"

Probe = Callable[[], Reading]
Post = Callable[[Callable[[Any], object], Any], object]

LIMIT: Final = 5.0
"""Seconds in which a probe must answer."""
AT_LEISURE: Final[Mapping[str, float]] = {POWER: 15.0}
"""Seconds from one question to the next where only the floor goes by the answer, and no job's gate."""
INTERVALS: Final[Mapping[str, float]] = {
    PRESENCE: 5.0,
    POWER: AT_LEISURE[POWER] if sys.platform == "darwin" else 3.0,  # there it is a process each time
    MEMORY: 2.0,
}
"""Seconds from one question to the next: a job that yields on battery goes on for so long at most."""
UNKNOWN: Final[Mapping[str, Reading]] = {
    PRESENCE: PresenceReading(),
    POWER: PowerReading(),
    MEMORY: MemoryReading(),
}
FIGURES: Final = ("idle_s", "percent", "available", "total", "pressure")
THRESHOLD: Final = 300.0


def runs_nothing(argv: Sequence[str], _seconds: float) -> str:
    """Run no program. Raises: OSError."""
    raise OSError(f"{argv[0]} was not run")


class Watch:
    """Keeps the readings fresh that something depends on. Loop thread only.

    Args:
        probes: how each reading is taken, by its name in `Readings`; what raises is unknown, with its error.
        post: has `call(answer)` run on the loop thread, from any thread (`supervisor.loop.Loop.post`).
        listener: told the readings when one has changed in a way that matters.
        threshold_s: an idle time that merely grows is news when it passes this.
        limit: seconds in which each must answer.
    """

    def __init__(
        self,
        probes: Mapping[str, Probe],
        post: Post,
        listener: Callable[[Readings], object],
        threshold_s: float = THRESHOLD,
        limit: float = LIMIT,
    ) -> None:
        self._askers = {name: Asker(name, probe, post) for name, probe in probes.items()}
        self._listener = listener
        self._threshold = threshold_s
        self._limit = limit
        self._readings = Readings()
        self._told = dict(UNKNOWN)
        self._wanted: frozenset[str] = frozenset()
        self._calm: frozenset[str] = frozenset()
        self._closed = False

    @property
    def readings(self) -> Readings:
        """Return what is known now; what nobody wants is unknown."""
        return self._readings

    def want(self, names: frozenset[str], calm: frozenset[str] = frozenset()) -> None:
        """Keep these fresh from now on, and only these; those that are `calm` need be less so.

        Raises:
            KeyError: there is no probe of that name.
        """
        for name in (self._calm - calm) & names & AT_LEISURE.keys():
            self._askers[name].due = -inf
        for name in names - self._wanted:
            self._askers[name].due = -inf
            if self._askers[name].overdue:
                self._readings = changed(self._readings, name, unknown(name, late(self._limit)))
        for name in self._wanted - names:  # nobody may go by it when it is wanted again
            self._readings = changed(self._readings, name, UNKNOWN[name])
            self._told[name] = UNKNOWN[name]
        self._wanted, self._calm = names, calm

    def next_due(self) -> float:
        """Return when `turn` has something to do, monotonic; infinite while it can only wait for answers."""
        return min((self._askers[name].next_due(self._limit) for name in self._wanted), default=inf)

    def turn(self, now: float) -> None:
        """Ask whoever is due, and give up on whoever has had its time."""
        for name in sorted(self._wanted):
            asker = self._askers[name]
            if asker.next_due(self._limit) > now:
                continue
            if asker.asked_at is None:
                asker.ask(now, partial(self._answered, name))
            else:
                asker.overdue = True
                self._note(name, unknown(name, late(self._limit)))

    def close(self) -> None:
        """Ask no more; a probe that hangs is left behind."""
        self._closed = True
        self._wanted = frozenset()
        for asker in self._askers.values():
            asker.close()

    def _answered(self, name: str, reading: Reading) -> None:
        asker = self._askers[name]
        overdue, asked_at = asker.overdue, asker.asked_at
        asker.asked_at, asker.overdue = None, False
        if self._closed or asked_at is None or name not in self._wanted:
            return
        if overdue:  # it may have looked long ago
            asker.due = -inf
            return
        calm = AT_LEISURE if name in self._calm else {}
        asker.due = asked_at + calm.get(name, INTERVALS[name])
        self._note(name, reading)

    def _note(self, name: str, reading: Reading) -> None:
        self._readings = changed(self._readings, name, reading)
        matters = is_news(self._told[name], reading, self._threshold)
        if matters or not isinstance(reading, MemoryReading):  # what memory drifts by adds up
            self._told[name] = reading
        if matters:
            self._listener(self._readings)


class Asker:
    """Asks one probe, in a thread of its own that sleeps until it is to ask; it is started when first needed.

    Attributes:
        due: when it is to be asked next, monotonic.
        asked_at: since when it has been asked, None while it is not.
        overdue: it has had its time, and has not come back.
    """

    def __init__(self, name: str, probe: Probe, post: Post) -> None:
        self._name = name
        self._probe = probe
        self._post = post
        self._inbox: queue.SimpleQueue[Callable[[Reading], object] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self.due = -inf
        self.asked_at: float | None = None
        self.overdue = False

    def next_due(self, limit: float) -> float:
        """Return when something is to be done about it."""
        if self.asked_at is None:
            return self.due
        return inf if self.overdue else self.asked_at + limit

    def ask(self, now: float, then: Callable[[Reading], object]) -> None:
        """Have it asked; `then(reading)` is posted."""
        self.asked_at = now
        try:
            if self._thread is None:
                thread = threading.Thread(target=self._serve, name=f"probe {self._name}", daemon=True)
                thread.start()
                self._thread = thread
        except RuntimeError as error:  # this process has as many as it may
            self._post(then, unknown(self._name, error_text(error)))
        else:
            self._inbox.put(then)

    def close(self) -> None:
        """Have its thread end when it is back."""
        self._inbox.put(None)

    def _serve(self) -> None:
        while (then := self._inbox.get()) is not None:
            self._post(then, answer(self._name, self._probe))


def answer(name: str, probe: Probe) -> Reading:
    """Return what a probe says; unknown, with the reason, where it says nothing that can be used."""
    try:
        reading = probe()
    except OSError as error:
        return unknown(name, f"{error.filename}: {error.strerror}" if error.filename else error_text(error))
    except BaseException as error:  # noqa: BLE001 - also SystemExit: the next question needs this thread
        return unknown(name, error_text(error))
    if type(reading) is not type(UNKNOWN[name]):
        return unknown(name, f"the probe said {type(reading).__name__}")
    for figure in FIGURES:
        value = getattr(reading, figure, None)
        if value is not None and (type(value) not in {int, float} or value != value):  # noqa: PLR0124 - NaN
            return unknown(name, f"the probe said {value!r:.40} for {figure}")
    return reading


def unknown(name: str, source: str) -> Reading:
    """Return the unknown reading of a name, with its reason."""
    return replace(UNKNOWN[name], source=source)


def late(limit: float) -> str:
    """Say that a probe has had its time."""
    return f"the probe did not answer in {limit:g} s"


def changed(readings: Readings, name: str, reading: Reading) -> Readings:
    """Return the readings with one of them changed. Pure."""
    changes: dict[str, Any] = {name: reading}
    return replace(readings, **changes)


def look(probes: Mapping[str, Probe], limit: float = LIMIT) -> Readings:
    """Ask all probes at once and return what they say within `limit` seconds, for whoever has no loop."""
    answers: queue.SimpleQueue[tuple[str, Reading]] = queue.SimpleQueue()

    def ask(name: str, probe: Probe) -> None:
        answers.put((name, answer(name, probe)))

    found = Readings()
    for name, probe in probes.items():
        found = changed(found, name, unknown(name, late(limit)))
        threading.Thread(target=ask, args=(name, probe), name=f"probe {name}", daemon=True).start()
    until = monotonic() + limit
    for _ in probes:
        try:
            found = changed(found, *answers.get(timeout=max(0.0, until - monotonic())))
        except queue.Empty:
            break
    return found


def native(
    environment: Mapping[str, str], uid: int, threshold_s: float = THRESHOLD, run: Run = runs_nothing
) -> Mapping[str, Probe]:
    """Return the probes of this system.

    Args:
        environment: the process's; it may name a screen and the buses.
        uid: whose the process is.
        threshold_s: presence looks no further than the first source below this.
        run: runs the programs that macOS answers by.
    """
    if sys.platform == "darwin":
        return {
            PRESENCE: lambda: macos.presence(run, threshold_s),
            POWER: lambda: macos.power(run),
            MEMORY: lambda: macos.memory(run),
        }
    from supervisor.probes.presence import Desk, PresenceProbe  # noqa: PLC0415 - D-Bus takes 20 ms to import

    return {PRESENCE: PresenceProbe(Desk.of(environment, uid), threshold_s), POWER: power, MEMORY: memory}
