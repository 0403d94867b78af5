"""Durations and sizes as people write them in settings and on the command line, and as screens show them."""

import re
from datetime import UTC, datetime
from typing import Final

SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
BYTES: Final = {
    "B": 1,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "KiB": 1 << 10,
    "MiB": 1 << 20,
    "GiB": 1 << 30,
}
HOW_TO_WRITE: Final = '; write 30, "30s", "2m", "1h" or "30d"'
HOW_TO_WRITE_SIZES: Final = '; write 65536, "256KiB", "500MB" or "6GB"'
QUANTITY: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", re.ASCII)


def seconds(value: object) -> float | None:
    """Return the seconds of a number or of a text like "10s", "5m", "2h"; None when it is neither."""
    return quantity(value, SECONDS)


def size(value: object) -> int | None:
    """Return the bytes of a whole number or of a text like "256KB", "2.01GB"; None when it is neither."""
    amount = quantity(value, BYTES)
    if amount is None:
        return None
    # A part of a GB is whole bytes, or meant so; floats miss them by a hair. A part of a byte is a slip.
    has_unit = isinstance(value, str) and not value.strip()[-1].isdigit()
    return round(amount) if has_unit or amount == int(amount) else None


def quantity(value: object, units: dict[str, float] | dict[str, int]) -> float | None:
    """Return a number, or a text's number times its unit; a text without a unit counts as the number."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return value if 0 <= value < 1e18 else None
    if not isinstance(value, str) or (match := QUANTITY.fullmatch(value)) is None:
        return None
    number, unit = match.groups()
    if unit and unit not in units:
        return None
    amount = float(number) * (units[unit] if unit else 1)
    return amount if amount < 1e18 else None


def duration(value: float) -> str:
    """Say how long, in at most two units: "3 ms", "0.4 s", "41 s", "6 min 20 s", "2 h 10 min", "3 d 4 h"."""
    if value < 0.0995:
        return f"{max(0.0, value) * 1000:.0f} ms"
    if value < 9.95:
        return f"{value:.1f} s"
    whole = round(value)
    for step, big, small, part in ((86400, "d", "h", 3600), (3600, "h", "min", 60), (60, "min", "s", 1)):
        if whole >= step:
            rest = whole % step // part
            return f"{whole // step} {big} {rest} {small}" if rest else f"{whole // step} {big}"
    return f"{whole} s"


def count(number: int, noun: str) -> str:
    """Say how many: "1 row", "3,000 rows", "2 batches", "0 processes"."""
    if number == 1:
        return f"1 {noun}"
    return f"{number:,} {noun}es" if noun.endswith(("ch", "s")) else f"{number:,} {noun}s"


def limit(value: float) -> str:
    """Say a limit as it was set: "120 s", "0.5 s"."""
    return f"{value:g} s"


def human_size(value: float) -> str:
    """Say how many bytes, in three digits at least: "812 B", "4.1 KB", "512 MB", "1.07 GB", "2,300 GB"."""
    unit = next((name for name in ("GB", "MB", "KB") if value >= 0.9995 * BYTES[name]), "B")
    amount = value / BYTES[unit]
    digits = 2 if amount < 9.995 else 1 if amount < 99.95 else 0
    text = f"{amount:,.{0 if unit == 'B' else digits}f}"
    return f"{text.rstrip('0').rstrip('.') if '.' in text else text} {unit}"


def iso(micros: int | None) -> str | None:
    """Return microseconds UTC as ISO text with six decimals and the zone, None as None."""
    if micros is None:
        return None
    return moment(micros).isoformat(timespec="microseconds")


def clock(micros: int) -> str:
    """Return microseconds UTC as the hour where the reader sits: "02:12:53"."""
    return f"{moment(micros).astimezone():%H:%M:%S}"


def moment(micros: int) -> datetime:
    """Return microseconds UTC as a moment; whole microseconds, so no float is involved."""
    whole, rest = divmod(micros, 1_000_000)
    return datetime.fromtimestamp(whole, UTC).replace(microsecond=rest)
