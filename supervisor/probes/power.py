"""What a Linux machine runs on: the listing of its power supplies says what there is, their files how it is.

A battery that cannot be read is there all the same, and a machine without one is on mains (OS facts 7).
"""

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from policies.readings import Power, PowerReading

SUPPLIES: Final = "/sys/class/power_supply"
STORES: Final = ("Battery", "UPS")
PLUGS: Final = ("Mains", "USB", "Wireless")
AMOUNTS: Final = (("energy_now", "energy_full"), ("charge_now", "charge_full"))


@dataclass(frozen=True, slots=True)
class Supply:
    """One entry of the listing. A text is "" where there is no such file, None where it cannot be read."""

    folder: Path
    type: str | None
    status: str | None
    online: str | None

    @property
    def name(self) -> str:
        """Return what the kernel calls it."""
        return self.folder.name


def power(root: str = SUPPLIES) -> PowerReading:
    """Return what the machine runs on, and how full its batteries are together.

    The batteries of mice and keyboards are not the machine's. One battery that discharges outweighs a plug:
    its adapter is too weak.
    """
    try:
        folders = sorted(Path(root).iterdir())
    except FileNotFoundError:
        return PowerReading(Power.MAINS, None, "this kernel knows no power supplies")
    except OSError as error:
        return PowerReading(source=f"{root} cannot be listed: {error.strerror}")
    supplies = [supply(folder) for folder in folders if text_of(folder / "scope") != "Device"]
    stores = [one for one in supplies if one.type in STORES and text_of(one.folder / "present") != "0"]
    if not stores:
        unreadable = next((one.name for one in supplies if one.type is None), "")
        if unreadable:
            return PowerReading(source=f"what {unreadable} is cannot be read")
        return PowerReading(Power.MAINS, None, "there is no battery")
    state, source = judgement(stores, [one for one in supplies if one.type in PLUGS])
    return PowerReading(state, percent(stores), source)


def judgement(stores: list[Supply], plugs: list[Supply]) -> tuple[Power, str]:
    """Return what batteries and plugs say together, and which of them said it. Pure."""
    for one in stores:
        if one.status == "Discharging":
            return Power.BATTERY, f"{one.name} is discharging"
    for one in plugs:
        if one.online == "1":
            return Power.MAINS, f"{one.name} is online"
    names = " and ".join(one.name for one in stores)
    if all(one.status in ("Full", "Charging") for one in stores):
        return Power.MAINS, f"{names}: full, or charging"
    return Power.UNKNOWN, f"{names}: neither discharging nor charging, and no plug is online"


def percent(stores: list[Supply]) -> float | None:
    """Return how full all are together, by what they hold where each says it; None where one says nothing."""
    for now, full in AMOUNTS:
        held = [amount(one.folder / now) for one in stores]
        whole = [amount(one.folder / full) for one in stores]
        if None not in held and all(whole):
            share = 100 * sum(filter(None, held)) / sum(filter(None, whole))
            return min(100.0, share)  # a new battery holds more than it was made for
    shares = [amount(one.folder / "capacity") for one in stores]
    known = [share for share in shares if share is not None and share <= 100]
    return sum(known) / len(known) if len(known) == len(stores) else None


def supply(folder: Path) -> Supply:
    """Read one entry."""
    return Supply(folder, *(text_of(folder / name) for name in ("type", "status", "online")))


def amount(path: Path) -> float | None:
    """Return a number that a file holds, None where there is none that makes sense."""
    with suppress(ValueError):
        number = int(text_of(path) or "")
        return float(number) if number >= 0 else None
    return None


def text_of(path: Path) -> str | None:
    """Return what a file says; "" where it is not there, None where it cannot be read."""
    try:
        return path.read_text("ascii", "replace").strip()
    except FileNotFoundError:
        return ""
    except OSError:
        return None
