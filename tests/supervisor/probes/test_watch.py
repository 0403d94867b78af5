"""Probes are asked off the loop: real threads answer, hang and raise; the clock is the test's."""

import queue
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any

import pytest

from policies.readings import MemoryReading, Power, PowerReading, PresenceReading, Readings
from supervisor.loop import Loop
from supervisor.probes.news import is_news
from supervisor.probes.watch import INTERVALS, Watch, look, native, runs_nothing
from supervisor.sensors import monotonic

MAINS = PowerReading(Power.MAINS, 80.0, "AC is online")
BATTERY = PowerReading(Power.BATTERY, 79.0, "BAT0 is discharging")
POWER = frozenset({"power"})
PATIENCE = 20.0
LATE = "the probe did not answer in 5 s"


@dataclass
class Machine:
    """One made-up probe, whose answers a test gives, and what its thread has posted.

    Attributes:
        questions: how often it has been asked.
        news: the readings that the listener was told.
    """

    says: queue.SimpleQueue[Any] = field(default_factory=queue.SimpleQueue)
    posted: queue.SimpleQueue[Any] = field(default_factory=queue.SimpleQueue)
    questions: int = 0
    news: list[Readings] = field(default_factory=list)

    def power(self) -> PowerReading:
        self.questions += 1
        said = self.says.get()
        if isinstance(said, BaseException):
            raise said
        return said

    def post(self, call: Callable[[Any], object], answer: Any) -> None:
        self.posted.put((call, answer))

    def deliver(self) -> None:
        """Run the next call that is posted, as the loop would."""
        call, answer = self.posted.get(timeout=PATIENCE)
        call(answer)

    def answer(self, said: Any) -> None:
        """Have the probe say something, and deliver it."""
        self.says.put(said)
        self.deliver()


@pytest.fixture
def machine() -> Iterator[Machine]:
    machine = Machine()
    yield machine
    machine.says.put(MAINS)  # whoever still hangs comes back


@pytest.fixture
def watch(machine: Machine) -> Iterator[Watch]:
    watch = Watch({"power": machine.power}, machine.post, machine.news.append)
    yield watch
    watch.close()


def test_what_nobody_wants_is_never_asked(machine: Machine, watch: Watch) -> None:
    """C134: and nothing is run when it is made."""
    watch.turn(100.0)
    assert (watch.next_due(), machine.questions, watch.readings) == (inf, 0, Readings())


@pytest.fixture(autouse=True)
def intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the same intervals on every system."""
    monkeypatch.setitem(INTERVALS, "power", 3.0)


def test_what_is_wanted_is_asked_at_once_and_again_after_its_interval(machine: Machine, watch: Watch) -> None:
    """U42: a job that yields on battery goes on for no longer."""
    watch.want(POWER)
    assert watch.next_due() == -inf
    watch.turn(100.0)
    assert watch.next_due() == 105.0
    machine.answer(MAINS)
    assert (watch.readings, watch.next_due()) == (Readings(power=MAINS), 103.0)
    watch.turn(102.9)
    assert watch.next_due() == 103.0
    watch.turn(103.0)
    machine.answer(BATTERY)
    assert watch.readings.power == BATTERY
    assert machine.questions == 2


def test_what_only_the_floor_goes_by_is_asked_at_leisure_until_a_job_depends_on_it(
    machine: Machine, watch: Watch
) -> None:
    """An idle run wakes for it no oftener; whoever comes to depend on it goes by no old reading."""
    watch.want(POWER, calm=POWER)
    watch.turn(100.0)
    machine.answer(MAINS)
    assert watch.next_due() == 115.0
    watch.want(POWER, calm=POWER)
    assert watch.next_due() == 115.0
    watch.want(POWER)
    assert (watch.next_due(), watch.readings.power) == (-inf, MAINS)
    watch.turn(104.0)
    machine.answer(BATTERY)
    watch.want(POWER)
    assert watch.next_due() == 107.0
    watch.want(POWER, calm=POWER)
    watch.turn(107.0)
    machine.answer(BATTERY)
    assert watch.next_due() == 122.0


def test_a_probe_that_hangs_is_unknown_and_not_asked_again_until_it_is_back(
    machine: Machine, watch: Watch
) -> None:
    """C62, C134, U28."""
    watch.want(POWER)
    watch.turn(100.0)
    machine.answer(MAINS)
    watch.turn(115.0)
    watch.turn(119.9)
    assert watch.readings.power == MAINS
    watch.turn(120.0)
    assert watch.readings.power == PowerReading(source=LATE)
    assert machine.news[-1].power.state is Power.UNKNOWN
    watch.turn(5000.0)
    assert watch.next_due() == inf
    machine.answer(MAINS)
    assert (machine.questions, machine.posted.empty()) == (2, True)


def test_an_answer_that_comes_too_late_is_not_used_but_asked_for_anew(machine: Machine, watch: Watch) -> None:
    """C62: nobody knows when that probe looked."""
    watch.want(POWER)
    watch.turn(100.0)
    watch.turn(105.0)
    machine.answer(MAINS)
    assert (watch.readings.power.source, watch.next_due()) == (LATE, -inf)
    watch.turn(400.0)
    machine.answer(BATTERY)
    assert watch.readings.power == BATTERY


def test_a_hung_probe_that_is_wanted_anew_is_told_as_such(machine: Machine, watch: Watch) -> None:
    watch.want(POWER)
    watch.turn(100.0)
    watch.turn(105.0)
    watch.want(frozenset())
    watch.want(POWER)
    assert watch.readings.power.source == LATE


@pytest.mark.parametrize(
    ("said", "source"),
    [
        (OSError("no such tool"), "OSError: no such tool"),
        (FileNotFoundError(2, "No such file or directory", "/bin/pm"), "/bin/pm: No such file or directory"),
        (SystemExit(3), "SystemExit"),
        (None, "the probe said NoneType"),
        (0.8, "the probe said float"),
        (MemoryReading(), "the probe said MemoryReading"),
    ],
)
def test_a_probe_that_raises_or_says_something_else_is_unknown_with_the_reason(
    machine: Machine, watch: Watch, said: Any, source: str
) -> None:
    """C61, C62, C134, U28: also when it has answered before; and the next question is answered."""
    watch.want(POWER)
    watch.turn(100.0)
    machine.answer(MAINS)
    watch.turn(115.0)
    machine.answer(said)
    assert watch.readings.power == PowerReading(source=source)
    watch.turn(130.0)
    machine.answer(MAINS)
    assert watch.readings.power == MAINS


def test_what_nobody_wants_any_more_is_unknown(machine: Machine, watch: Watch) -> None:
    """Nobody may go by an old reading when it is wanted again."""
    watch.want(POWER)
    watch.turn(100.0)
    machine.answer(MAINS)
    watch.want(frozenset())
    assert (watch.readings, watch.next_due()) == (Readings(), inf)
    watch.want(POWER)
    watch.turn(101.0)
    machine.answer(MAINS)
    assert len(machine.news) == 2


def test_an_answer_that_nobody_waits_for_changes_nothing(machine: Machine, watch: Watch) -> None:
    watch.want(POWER)
    watch.turn(100.0)
    watch.want(frozenset())
    machine.answer(MAINS)
    assert (watch.readings, machine.news) == (Readings(), [])


def test_what_has_no_probe_cannot_be_wanted(watch: Watch) -> None:
    with pytest.raises(KeyError):
        watch.want(frozenset({"weather"}))
    watch.turn(100.0)


def test_the_listener_hears_of_news_only(machine: Machine, watch: Watch) -> None:
    watch.want(POWER)
    for now, said in ((0.0, MAINS), (15.0, replace(MAINS, source="ADP1 is online")), (30.0, BATTERY)):
        watch.turn(now)
        machine.answer(said)
    assert [told.power for told in machine.news] == [MAINS, BATTERY]


def test_memory_that_drifts_is_news_when_it_has_drifted_far(machine: Machine) -> None:
    watch = Watch({"memory": machine.power}, machine.post, machine.news.append)
    watch.want(frozenset({"memory"}))
    mib = 1 << 20
    for turn, available in enumerate((4000, 3970, 3940, 3930, 3900)):
        watch.turn(turn * 2.0)
        machine.answer(MemoryReading(available * mib, 8000 * mib, 0.0, "MemAvailable"))
    watch.close()
    assert [told.memory.available for told in machine.news] == [4000 * mib, 3930 * mib]
    assert watch.readings.memory.available == 3900 * mib


def test_closing_waits_for_no_probe_that_hangs(machine: Machine, watch: Watch) -> None:
    """C62."""
    watch.want(POWER)
    watch.turn(100.0)
    thread = watch._askers["power"]._thread
    assert thread is not None
    watch.close()
    assert (watch.next_due(), thread.is_alive()) == (inf, True)
    machine.answer(MAINS)
    assert watch.readings == Readings()
    thread.join(PATIENCE)
    assert not thread.is_alive()


def test_a_real_loop_wakes_for_an_answer(machine: Machine) -> None:
    """The probe runs on a thread of its own, the listener on the loop's."""
    loop = Loop(monotonic)
    heard: list[tuple[Readings, threading.Thread]] = []
    asked: list[threading.Thread] = []

    def probe() -> PowerReading:
        asked.append(threading.current_thread())
        return MAINS

    watch = Watch({"power": probe}, loop.post, lambda told: heard.append((told, threading.current_thread())))
    watch.want(POWER)
    until = monotonic() + PATIENCE
    while not heard and monotonic() < until:
        watch.turn(monotonic())
        loop.turn(watch.next_due())
    watch.close()
    loop.close()
    assert heard == [(Readings(power=MAINS), threading.current_thread())]
    assert asked[0] is not threading.current_thread()


# --- what is news


def idle(seconds: float | None, *, inhibited: bool = False) -> PresenceReading:
    return PresenceReading(seconds, "somebody", inhibited)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (idle(None), idle(None), False),
        (idle(None), idle(5.0), True),
        (idle(5.0), idle(None), True),
        (idle(5.0), idle(10.0), False),
        (idle(5.0), idle(2.0), True),
        (idle(299.0), idle(300.0), True),
        (idle(300.0), idle(305.0), False),
        (idle(400.0), idle(inf), False),
        (idle(inf), idle(inf), False),
        (idle(5.0), idle(inf), True),
        (idle(inf), idle(400.0), True),
        (idle(400.0), idle(405.0, inhibited=True), True),
        (MAINS, replace(MAINS, source="ADP1"), False),
        (MAINS, replace(MAINS, percent=None), True),
        (MAINS, replace(MAINS, percent=81.0), True),
        (MAINS, replace(MAINS, percent=80.9), False),
        (MAINS, replace(MAINS, percent=79.9), True),
        (MAINS, replace(MAINS, state=Power.UNKNOWN), True),
        (MemoryReading(), MemoryReading(source="other"), False),
        (MemoryReading(), MemoryReading(available=0), True),
        (MemoryReading(total=5), MemoryReading(total=6), True),
        (MemoryReading(pressure=0.0), MemoryReading(pressure=0.9), False),
        (MemoryReading(pressure=0.0), MemoryReading(pressure=1.1), True),
        (MemoryReading(pressure=0.0), MemoryReading(), True),
    ],
)
def test_a_reading_is_news_when_a_gate_might_decide_otherwise(old: Any, new: Any, expected: bool) -> None:
    """An idle time that grows is none until it passes the threshold, and where a reading is from never."""
    assert is_news(old, new, 300.0) is expected


# --- one look


def test_one_look_asks_all_and_waits_for_none_that_hangs() -> None:
    """C62."""
    hold = threading.Event()

    def hangs() -> PresenceReading:
        hold.wait(PATIENCE)
        return PresenceReading()

    def fails() -> MemoryReading:
        raise OSError("no such file")

    found = look({"presence": hangs, "power": lambda: MAINS, "memory": fails}, limit=0.5)
    hold.set()
    assert found == Readings(
        PresenceReading(source="the probe did not answer in 0.5 s"),
        MAINS,
        MemoryReading(source="OSError: no such file"),
    )


def test_this_machine_answers_all_three() -> None:
    """C62: each says where it has its answer from."""
    found = look(native({}, 1000))
    assert not any(
        "did not answer" in one.source or "nobody has looked" in one.source
        for one in (found.presence, found.power, found.memory)
    )


def test_a_program_that_nobody_runs_is_named() -> None:
    with pytest.raises(OSError, match="/usr/bin/pmset was not run"):
        runs_nothing(("/usr/bin/pmset", "-g"), 5.0)
