"""Each gate by itself, at its edges and where nobody can tell."""

import pytest

from policies.gates.held import held
from policies.gates.memory import memory, reserve
from policies.gates.model import model
from policies.gates.power import power, power_floor
from policies.gates.presence import is_present, presence
from policies.gates.quiet import is_within, quiet
from policies.gates.running import max_running
from policies.gates.union import CAN_YIELD, UNION, blockers, should_yield, total_hold
from policies.gates.vocabulary import CHOSEN, Blocked, Gate, Limits, Rule, World
from policies.job import InFlight
from policies.readings import MemoryReading, Power, PowerReading, PresenceReading, Readings

HEAVY = Rule(kind="dream", gates=frozenset(CHOSEN), tier="big", model="large", memory=4 << 30)
LIGHT = Rule(kind="tidy")
LIMITS = Limits()
GB = 1 << 30


def there(idle_s: float | None, *, inhibited: bool = False, limits: Limits = LIMITS) -> Blocked | None:
    return presence(
        HEAVY, World(readings=Readings(PresenceReading(idle_s, "test", inhibited)), limits=limits)
    )


@pytest.mark.parametrize(
    ("idle_s", "is_there"), [(0, True), (299.9, True), (300, False), (float("inf"), False)]
)
def test_the_owner_is_there_when_idle_for_less_than_the_limit(idle_s: float, is_there: bool) -> None:
    """C60: exactly 300 s is away."""
    assert (there(idle_s) is not None) is is_there


def test_where_nobody_can_tell_the_owner_is_taken_to_be_there() -> None:
    """C61, U28: heavy work waits, unless that is switched off."""
    blocked = there(None)
    assert blocked is not None
    assert (blocked.gate, blocked.text) == (Gate.PRESENCE, "you may be here (test)")
    assert there(None, limits=Limits(unknown_is_present=False)) is None


def test_what_keeps_the_screen_on_counts_as_somebody_there() -> None:
    """C60: a film is watched without a touch."""
    assert there(10_000, inhibited=True) is not None


def test_a_machine_at_which_nobody_sits_has_no_presence() -> None:
    """C60: also an unknown one."""
    dedicated = Limits(presence=0)
    assert not any(is_present(PresenceReading(idle), dedicated) for idle in (None, 0.0))


def on(state: Power, percent: float | None = None, limits: Limits = LIMITS) -> Blocked | None:
    return power(HEAVY, World(readings=Readings(power=PowerReading(state, percent, "test")), limits=limits))


def test_heavy_work_waits_for_mains() -> None:
    """C130, U28: unknown counts as discharging."""
    assert on(Power.MAINS) is None
    assert [getattr(on(state, 62.0), "text", None) for state in (Power.BATTERY, Power.UNKNOWN)] == [
        "on battery (62 %)",
        "power unknown (test)",
    ]
    assert on(Power.BATTERY, limits=Limits(power=False)) is None


@pytest.mark.parametrize(
    ("state", "percent", "holds"),
    [
        (Power.BATTERY, 19.9, True),
        (Power.BATTERY, 20.0, False),
        (Power.BATTERY, None, False),
        (Power.UNKNOWN, 5.0, True),
        (Power.UNKNOWN, None, False),
        (Power.MAINS, 5.0, False),
    ],
)
def test_below_the_floor_nothing_at_all_starts(state: Power, percent: float | None, holds: bool) -> None:
    """C132, C134, U28: a charge that nobody could read arms nothing; exactly at the floor is not below."""
    world = World(readings=Readings(power=PowerReading(state, percent, "test")))
    assert (total_hold(world) is not None) is holds


def test_a_floor_can_be_switched_off() -> None:
    """C132."""
    empty = PowerReading(Power.BATTERY, 1.0)
    assert power_floor(empty, LIMITS) is not None
    assert power_floor(empty, Limits(power_floor=0)) is power_floor(empty, Limits(power=False)) is None


def free(available: int | None, pressure: float | None = 0.0, promised: int = 0) -> Blocked | None:
    reading = MemoryReading(available, 16 * GB, pressure, "test")
    return memory(HEAVY, World(readings=Readings(memory=reading), promised=promised))


def test_a_job_starts_only_where_what_it_needs_is_free() -> None:
    """C136, U27: equality fits; the reserve and what others were promised are not free."""
    assert reserve(MemoryReading(total=16 * GB), LIMITS) == 2 * GB
    assert free(6 * GB) is None
    assert free(6 * GB - 1) is not None
    assert free(7 * GB, promised=GB) is None
    assert free(7 * GB, promised=GB + 1) is not None


def test_memory_that_nobody_can_tell_bars_nothing_and_pressure_does() -> None:
    """U28."""
    assert free(None) is None
    assert free(6 * GB, pressure=None) is None
    assert free(6 * GB, pressure=10.0) is None
    assert free(6 * GB, pressure=10.1) is not None


def test_the_reserve_is_the_larger_of_two_gib_and_a_tenth() -> None:
    """U27."""
    assert reserve(MemoryReading(total=100 * GB), LIMITS) == 10 * GB
    assert reserve(MemoryReading(), LIMITS) == 2 * GB
    assert reserve(MemoryReading(total=100 * GB), Limits(memory_reserve=5)) == 5


@pytest.mark.parametrize(
    ("minute", "start", "end", "inside"),
    [
        (1320, 1320, 420, True),
        (0, 1320, 420, True),
        (419, 1320, 420, True),
        (420, 1320, 420, False),
        (1319, 1320, 420, False),
        (600, 600, 660, True),
        (660, 600, 660, False),
        (600, 600, 600, False),
    ],
)
def test_quiet_hours_are_half_open_and_may_pass_midnight(
    minute: int, start: int, end: int, inside: bool
) -> None:
    """A46, U12: an empty span is none."""
    assert is_within(minute, start, end) is inside
    world = World(minute=minute, limits=Limits(quiet=((start, end),)))
    assert (quiet(HEAVY, world) is not None) is inside
    assert quiet(LIGHT, world) is None


def test_quiet_hours_say_when_they_end() -> None:
    """A46."""
    world = World(minute=0, limits=Limits(quiet=((600, 660), (1320, 425))))
    assert quiet(HEAVY, world) == Blocked(Gate.QUIET, "quiet hours", "07:05")


BIG = InFlight(7, "dream", "big")


def test_a_model_in_use_bars_every_other_but_its_own_and_pinned_ones() -> None:
    """C129."""
    world = World(in_flight=(BIG,), models={"big": "large", "small": "little", "pin": "tiny"})
    other = Rule(kind="tidy", tier="small", model="little")
    assert model(other, world) == Blocked(Gate.MODEL, "model large is in use by #7", "#7 ends")
    assert model(HEAVY, world) is None
    assert model(LIGHT, world) is None
    assert model(Rule(kind="sync", tier="pin", model="tiny", pinned=True), world) is None
    assert model(other, World(models=world.models)) is None
    pinned = World(in_flight=(InFlight(8, "sync", "pin"),), models=world.models, pinned=frozenset({"pin"}))
    assert model(other, pinned) is None


def test_no_more_of_a_kind_run_at_once_than_it_allows() -> None:
    """U27."""
    two = Rule(kind="dream", max_running=2)
    assert max_running(two, World(in_flight=(BIG, InFlight(8, "tidy")))) is None
    assert max_running(two, World(in_flight=(BIG, BIG))) is not None
    assert max_running(LIGHT, World(in_flight=(InFlight(8, "tidy"),) * 100)) is None


def test_a_held_kind_waits_with_the_reason_that_was_given() -> None:
    """U27."""
    world = World(held={"dream": "tax", "tidy": ""})
    assert [getattr(held(rule, world), "text", None) for rule in (HEAVY, LIGHT)] == ["held: tax", "held"]
    assert held(Rule(kind="sync"), world) is None


def test_gates_that_a_kind_does_not_ask_for_do_not_bar_it() -> None:
    """C63, U27: whatever the readings are."""
    limits = Limits(quiet=((0, 1440),))
    assert blockers(LIGHT, World(limits=limits)) == ()
    names = [one.gate for one in blockers(HEAVY, World(limits=limits))]
    assert names == [Gate.PRESENCE, Gate.POWER, Gate.MEMORY, Gate.QUIET]


def test_every_gate_has_a_name_of_its_own_and_one_predicate() -> None:
    """U27."""
    names = [gate.__name__ for gate in UNION]
    assert sorted([*names, Gate.POWER_FLOOR]) == sorted(Gate)


def test_only_gates_that_the_world_closes_have_a_running_job_yield() -> None:
    """C133, U42: and only where its kind asks for it."""
    yielding = Rule(kind="dream", gates=frozenset(CHOSEN), max_running=1, memory=64 * GB, yields=True)
    crowded = World(
        readings=Readings(
            PresenceReading(float("inf")), PowerReading(Power.MAINS), MemoryReading(0, 16 * GB, 90.0)
        ),
        in_flight=(BIG,),
    )
    assert blockers(yielding, crowded) != ()
    assert should_yield(yielding, crowded) is None
    dark = World(readings=Readings(PresenceReading(float("inf")), PowerReading(Power.BATTERY, 3.0)))
    reason = should_yield(yielding, dark)
    assert reason is not None
    assert reason.gate is Gate.POWER
    assert reason.gate in CAN_YIELD
    assert should_yield(HEAVY, dark) is None
