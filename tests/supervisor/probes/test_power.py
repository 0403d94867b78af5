"""What a machine runs on, read from made-up listings of power supplies."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from policies.readings import Power
from supervisor.probes.power import SUPPLIES, power

Write = Callable[[str, str], str]

LAPTOP = {"AC": {"type": "Mains", "online": "0"}, "BAT0": {"type": "Battery", "status": "Discharging"}}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A listing without an entry."""
    return tmp_path


def plug_in(root: Path, supplies: dict[str, dict[str, str]]) -> None:
    for name, files in supplies.items():
        (root / name).mkdir()
        for file, text in files.items():
            (root / name / file).write_text(f"{text}\n")


def battery(status: str, **files: str) -> dict[str, str]:
    return {"type": "Battery", "present": "1", "status": status, **files}


CASES = [
    pytest.param({}, Power.MAINS, "there is no battery", id="nothing"),
    pytest.param({"AC": LAPTOP["AC"]}, Power.MAINS, "there is no battery", id="a plug and no battery"),
    pytest.param(LAPTOP, Power.BATTERY, "BAT0 is discharging", id="a laptop in the train"),
    pytest.param(
        {"AC": {"type": "Mains", "online": "1"}, "BAT0": battery("Charging")},
        Power.MAINS,
        "AC is online",
        id="a laptop at its desk",
    ),
    pytest.param(
        {"hidpp_battery_0": {"type": "Battery", "scope": "Device", "status": "Discharging"}},
        Power.MAINS,
        "there is no battery",
        id="a desktop with a wireless mouse",
    ),
    pytest.param(
        {"ADP1": {"type": "Mains", "online": "1"}, "BAT0": battery("Not charging", capacity="80")},
        Power.MAINS,
        "ADP1 is online",
        id="a charge limit is reached",
    ),
    pytest.param(
        {"ucsi": {"type": "USB", "online": "1"}, "BAT0": battery("Discharging")},
        Power.BATTERY,
        "BAT0 is discharging",
        id="an adapter that is too weak",
    ),
    pytest.param(
        {"BAT0": battery("Full"), "BAT1": battery("Charging")},
        Power.MAINS,
        "BAT0 and BAT1: full, or charging",
        id="batteries that fill up, and no plug is listed",
    ),
    pytest.param(
        {"BAT0": battery("Full"), "BAT1": battery("Discharging")},
        Power.BATTERY,
        "BAT1 is discharging",
        id="one battery of two discharges",
    ),
    pytest.param(
        {"AC": LAPTOP["AC"], "BAT0": battery("Not charging")},
        Power.UNKNOWN,
        "BAT0: neither discharging nor charging, and no plug is online",
        id="nothing fits",
    ),
    pytest.param(
        {"BAT0": battery("Unknown")},
        Power.UNKNOWN,
        "BAT0: neither discharging nor charging, and no plug is online",
        id="a battery that says nothing",
    ),
    pytest.param(
        {"BAT0": battery("Discharging") | {"present": "0"}, "AC": LAPTOP["AC"]},
        Power.MAINS,
        "there is no battery",
        id="an empty bay",
    ),
    pytest.param(
        {"ups": {"type": "UPS", "status": "Discharging"}},
        Power.BATTERY,
        "ups is discharging",
        id="a UPS in a power cut",
    ),
]


@pytest.mark.parametrize(("supplies", "state", "source"), CASES)
def test_what_is_listed_and_what_it_says_tell_what_the_machine_runs_on(
    root: Path, supplies: dict[str, dict[str, str]], state: Power, source: str
) -> None:
    """C130, C134, U28."""
    plug_in(root, supplies)
    found = power(str(root))
    assert (found.state, found.source) == (state, source)


def test_a_kernel_that_knows_no_power_supplies_runs_on_mains(root: Path) -> None:
    """C134, U28."""
    assert power(str(root / "missing")).state is Power.MAINS


def test_a_listing_that_cannot_be_read_is_unknown(root: Path, write: Write) -> None:
    """C134, U28."""
    found = power(write("file", ""))
    assert found.state is Power.UNKNOWN
    assert found.source.endswith("cannot be listed: Not a directory")


@pytest.mark.parametrize(
    ("unreadable", "state", "source"),
    [
        ("BAT0/status", Power.UNKNOWN, "BAT0: neither discharging nor charging, and no plug is online"),
        ("BAT0/type", Power.UNKNOWN, "what BAT0 is cannot be read"),
    ],
)
def test_a_battery_that_cannot_be_read_is_there_all_the_same(
    root: Path, unreadable: str, state: Power, source: str
) -> None:
    """C134, U28: a folder in a file's place cannot be read, by root neither."""
    plug_in(root, LAPTOP)
    (root / unreadable).unlink()
    (root / unreadable).mkdir()
    found = power(str(root))
    assert (found.state, found.source) == (state, source)


@pytest.mark.parametrize(
    ("batteries", "percent"),
    [
        pytest.param([{"capacity": "81"}], 81.0, id="one"),
        pytest.param([{"capacity": "100"}, {"capacity": "20"}], 60.0, id="two"),
        pytest.param([{}], None, id="none says"),
        pytest.param([{"capacity": "80"}, {}], None, id="one of two does not say"),
        pytest.param([{"capacity": "much"}], None, id="garbage"),
        pytest.param([{"capacity": "-1"}], None, id="negative"),
        pytest.param([{"capacity": "255"}], None, id="over the whole"),
        pytest.param([{"capacity": "0"}], 0.0, id="empty"),
        pytest.param(
            [
                {"capacity": "100", "energy_now": "20000000", "energy_full": "20000000"},
                {"capacity": "10", "energy_now": "6000000", "energy_full": "60000000"},
            ],
            32.5,
            id="a small one and a large one",
        ),
        pytest.param([{"charge_now": "1500000", "charge_full": "3000000"}], 50.0, id="in charge"),
        pytest.param([{"energy_now": "51000000", "energy_full": "50000000"}], 100.0, id="more than full"),
        pytest.param([{"energy_now": "5", "energy_full": "0", "capacity": "7"}], 7.0, id="no size"),
    ],
)
def test_batteries_are_as_full_as_they_are_together(
    root: Path, batteries: list[dict[str, str]], percent: float | None
) -> None:
    """C134, U28: a share that nobody tells is unknown, never a number."""
    plug_in(root, {f"BAT{n}": battery("Discharging", **files) for n, files in enumerate(batteries)})
    assert power(str(root)).percent == percent


def test_a_share_that_cannot_be_read_is_unknown(root: Path) -> None:
    """C134, U28."""
    plug_in(root, LAPTOP)
    (root / "BAT0" / "capacity").mkdir()
    assert power(str(root)).percent is None


@pytest.mark.skipif(not os.path.isdir(SUPPLIES), reason="this system lists no power supplies")
def test_this_machine_says_what_it_runs_on() -> None:
    assert power().source != ""
