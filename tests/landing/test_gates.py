"""The claim site: each gate alone holds a job back, and without it the job starts."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from landing.claim import ClaimReply
from landing.enqueue import Register, RegisterTiers
from landing.hold import HoldKind
from policies.admission import Admission
from policies.gates import union
from policies.gates.vocabulary import Gate, Limits
from policies.job import Priority
from policies.options import Options
from policies.readings import MemoryReading, Power, PowerReading, PresenceReading, Readings
from policies.routing import Tier
from tests.landing.stand import Stand

TIERS = {
    "synthesis": Tier("synthesis", model="large", memory=1 << 30, window=8192, heavy=True),
    "routine": Tier("routine", model="small", window=4096),
    "pinned": Tier("pinned", model="tiny", pinned=True),
}
KINDS = {
    "dream": Options(tier="synthesis", max_running=1),
    "tidy": Options(tier="routine", priority=60),
    "sync": Options(tier="pinned", priority=100),
}
OPEN = Admission(
    kinds=KINDS,
    tiers=TIERS,
    limits=Limits(quiet=((1320, 420),)),
    readings=Readings(
        PresenceReading(float("inf"), "test"),
        PowerReading(Power.MAINS, 80.0, "test"),
        MemoryReading(16 << 30, 32 << 30, 0.0, "test"),
    ),
    minute=720,
)
"""All gates are open: nobody is there, mains, memory is free, at noon."""

Case = tuple[Admission, Callable[[Stand], object]]


def nothing(_stand: Stand) -> None:
    """No more than the readings is needed."""


def take(stand: Stand, kind: str) -> None:
    """Have a job of a kind in flight."""
    stand.enqueue(kind, priority=Priority.REACTIVE)
    assert look(stand, OPEN).claimed is not None


def reading(**more: object) -> Admission:
    return replace(OPEN, readings=replace(OPEN.readings, **more))  # type: ignore[arg-type]


CASES: dict[str, Case] = {
    "held": (OPEN, lambda stand: stand.write(HoldKind("dream", "tax"))),
    "presence": (reading(presence=PresenceReading(10.0, "test")), nothing),
    "power": (reading(power=PowerReading(Power.BATTERY, 80.0, "test")), nothing),
    "memory": (reading(memory=MemoryReading(1 << 30, 32 << 30, 0.0, "test")), nothing),
    "quiet": (replace(OPEN, minute=1320), nothing),
    "model": (OPEN, lambda stand: take(stand, "tidy")),
    "max_running": (OPEN, lambda stand: take(stand, "dream")),
}
"""By gate: a world in which it alone holds a `dream` back."""

AT_NO_CLAIM = {Gate.POWER_FLOOR}
"""What is asked before anything is claimed, and is no part of the union."""


def look(stand: Stand, admission: Admission) -> ClaimReply:
    return stand.look(loaded=KINDS, admit=admission)


@pytest.fixture
def dreams(stand: Stand) -> Stand:
    stand.write(RegisterTiers({tier.name: tier.window for tier in TIERS.values()}))
    stand.write(Register("app", KINDS))
    return stand


def test_every_gate_of_a_claim_has_its_case() -> None:
    """C131: the table goes by the names of the gates, so that none can leave the union unnoticed."""
    assert CASES.keys() == set(Gate) - AT_NO_CLAIM


@pytest.mark.parametrize("name", CASES)
def test_a_gate_holds_a_job_back_and_without_it_the_job_starts(
    dreams: Stand, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """C63, C128, C129, C130, C131, U27: a gate that is taken out of the union is missed here."""
    admission, prepare = CASES[name]
    prepare(dreams)
    job = dreams.enqueue("dream")
    reply = look(dreams, admission)
    assert reply.claimed is None
    assert [one.gate for one in reply.blocked["dream"]] == [Gate(name)]
    monkeypatch.setattr(union, "UNION", tuple(gate for gate in union.UNION if gate.__name__ != name))
    claimed = look(dreams, admission).claimed
    assert claimed is not None
    assert claimed.job == job


@pytest.mark.parametrize("name", ["presence", "power", "memory", "quiet"])
def test_routine_and_pinned_work_goes_on_while_heavy_work_waits(dreams: Stand, name: str) -> None:
    """C63, C79, C171: what is behind the heavy job is claimed."""
    admission, _prepare = CASES[name]
    dreams.enqueue("dream", priority=Priority.REACTIVE)
    tidy, sync = dreams.enqueue("tidy"), dreams.enqueue("sync")
    first = look(dreams, admission).claimed
    assert first is not None
    assert first.job == tidy
    dreams.start(first)
    dreams.finish(first)
    second = look(dreams, admission).claimed
    assert second is not None
    assert second.job == sync


def test_all_that_holds_a_kind_back_is_said_at_once(dreams: Stand) -> None:
    """U27: every reason, each with its own name."""
    dreams.write(HoldKind("dream", "tax"))
    take(dreams, "tidy")
    dreams.enqueue("dream")
    worst = replace(OPEN, readings=Readings(memory=MemoryReading(0, 32 << 30, 0.0, "test")), minute=1320)
    gates = {one.gate for one in look(dreams, worst).blocked["dream"]}
    assert gates == {Gate.HELD, Gate.PRESENCE, Gate.POWER, Gate.MEMORY, Gate.QUIET, Gate.MODEL}


def test_a_model_that_is_in_use_bars_the_others_until_its_job_has_ended(dreams: Stand) -> None:
    """C129: nothing is remembered that a crash could leave shut."""
    dreams.enqueue("tidy")
    claimed = look(dreams, OPEN).claimed
    assert claimed is not None
    dream, sync = dreams.enqueue("dream"), dreams.enqueue("sync")
    second = look(dreams, OPEN).claimed
    assert second is not None
    assert second.job == sync  # a pinned model is in nobody's way
    opened = dreams.open_run()  # the supervisor has died
    dreams.run = opened.run
    third = look(dreams, OPEN).claimed
    assert third is not None
    assert third.job == dream


def test_a_tier_whose_model_was_refused_waits_with_the_refusal(dreams: Stand) -> None:
    """C136, U27."""
    dreams.enqueue("dream")
    full = replace(OPEN, refused={"synthesis": "ceiling: 30.0 GB of 24.0"})
    (one,) = look(dreams, full).blocked["dream"]
    assert (one.gate, one.text) == (Gate.MODEL, "ceiling: 30.0 GB of 24.0")
