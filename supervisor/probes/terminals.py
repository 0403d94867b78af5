"""When somebody last typed at a terminal: its access time moves when a program reads a keystroke.

What programs print moves it not. The kernel moves it in steps of 8 s. No list of logins is needed, which
newer systems have no more (OS facts 6).

A console (/dev/tty1) is root's also while nobody is logged in there, and its times are then those of the
boot. A login, and the prompt for one, take it over, which moves its change time: what was read after that
was typed. So root's consoles count by that, whoever typed, and those of people always.
"""

from collections.abc import Callable, Iterator
from os import stat_result
from pathlib import Path
from typing import Final

from supervisor.sensors import now_micros

DEVICES: Final = "/dev"
CONSOLES: Final = "tty[1-9]*"
NOBODY: Final = 65534
FIRST_PERSON: Final = 1000
FIRST_MAC_PERSON: Final = 501
MICROS: Final = 1_000_000


def is_person(uid: int) -> bool:
    """Tell whether somebody may be logged in under a user id; services have the others."""
    return uid == 0 or (uid >= FIRST_PERSON and uid != NOBODY)


def is_mac_person(uid: int) -> bool:
    """Tell the same of a user id on macOS, where every terminal that nobody uses is root's."""
    return uid >= FIRST_MAC_PERSON


def terminal_idle(
    devices: str = DEVICES,
    names: str = "pts/[0-9]*",
    counts: Callable[[int], bool] = is_person,
    now: Callable[[], int] = now_micros,
) -> tuple[float, str] | None:
    """Return since how many seconds nobody typed at any terminal, and the one that was used last.

    Args:
        devices: the folder of the terminals.
        names: which of them, as a pattern.
        counts: whose terminals, by user id.
        now: the wall clock, in microseconds.

    Returns:
        None where there is no terminal.

    Raises:
        OSError: they cannot be listed.
    """
    last = max(uses(Path(devices), names, counts), default=None)
    return None if last is None else (max(0.0, now() / MICROS - last[0]), last[1])


def console_idle(
    devices: str = DEVICES, counts: Callable[[int], bool] = is_person, now: Callable[[], int] = now_micros
) -> tuple[float, str] | None:
    """Return the same of the consoles of this machine; see the module. Raises: OSError."""
    last = max(uses(Path(devices), CONSOLES, counts, is_console_in_use), default=None)
    return None if last is None else (max(0.0, now() / MICROS - last[0]), last[1])


def is_console_in_use(console: stat_result) -> bool:
    """Tell whether somebody is logged in at a console, or has typed there since it was taken over. Pure."""
    return console.st_uid != 0 or console.st_atime > console.st_ctime


def device_idle(path: str, now: Callable[[], int] = now_micros) -> float | None:
    """Return since how many seconds nobody typed at one terminal; None where that cannot be told."""
    try:
        return max(0.0, now() / MICROS - Path(path).stat().st_atime)
    except OSError:
        return None


def uses(
    devices: Path,
    names: str,
    counts: Callable[[int], bool],
    is_used: Callable[[stat_result], bool] = lambda _: True,
) -> Iterator[tuple[float, str]]:
    """Yield when each terminal was used last, in seconds of the wall clock, and its name."""
    below, _, pattern = names.rpartition("/")
    try:
        found = list((devices / below).iterdir())
    except FileNotFoundError:
        return
    for path in found:
        if not path.match(pattern):
            continue
        try:
            seen = path.stat()
        except OSError:  # closed meanwhile
            continue
        if counts(seen.st_uid) and is_used(seen):
            yield seen.st_atime, f"/dev/{path.relative_to(devices)}"
