"""`supervisor.toml` while it is checked: every look at it adds what is wrong to one list of complaints."""

import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from policies.job import Mode
from policies.options import DURATIONS, OPTION_NAMES, SIZES, complaint_about
from supervisor.settings.gates import Scheduling, scheduling
from supervisor.told import units
from supervisor.told.spelling import did_you_mean

SECTIONS: Final = ("defaults", "kinds", "tiers", "gates", "order")
TOP_LEVEL: Final = ("app", "home", "max_workers", "default_mode", *SECTIONS)
MOST_WORKERS: Final = 512


class SettingsFile:
    """The settings file at `path`, if there is one. `complaints` are lines: file, section, what is wrong."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.complaints: list[str] = []
        read = self._read()
        self.exists = read is not None or bool(self.complaints)
        self.is_unread = read is None and self.exists
        self._content: dict[str, Any] = read or {}

    def _read(self) -> dict[str, Any] | None:
        try:
            return tomllib.loads(self.path.read_bytes().decode())
        except FileNotFoundError:
            return None
        except OSError as error:
            self.complaints.append(f"{self.path} cannot be read: {error.strerror}")
        except UnicodeDecodeError as error:
            self.complaints.append(f"{self.path} is not UTF-8, from byte {error.start} on")
        except tomllib.TOMLDecodeError as error:
            self.complaints.append(f"{self.path} is not TOML: {error}")
        return None

    def complain(self, text: str) -> None:
        """Note one line, with the file before it."""
        self.complaints.append(f"{self.path}: {text}")

    def text(self, name: str) -> str | None:
        """Return a top-level text, None where there is none."""
        value = self._content.get(name)
        if value is None or (isinstance(value, str) and value and "\0" not in value):
            return value
        self.complain(f"{name} must be a text, not {value!r}")
        return None

    def hides(self, name: str) -> bool:
        """Tell whether the file may say a top-level text that cannot be read."""
        return self.is_unread or not isinstance(self._content.get(name, ""), str)

    def workers(self) -> int | None:
        """Return max_workers, None where it is not set."""
        value = self._content.get("max_workers")
        if value is None or is_workers(value):
            return value
        self.complain(f"max_workers must be a whole number from 1 to {MOST_WORKERS}, not {value!r}")
        return None

    def default_mode(self) -> str | None:
        """Return default_mode, None where it is not set."""
        value = self._content.get("default_mode")
        if value is None or value in tuple(Mode):
            return None if value is None else Mode(value)
        self.complain(f"default_mode must be {' or '.join(Mode)}, not {value!r}")
        return None

    def scheduling(self) -> Scheduling:
        """Return what [gates], [tiers] and [order] say."""
        return scheduling(self._content, self.complain)

    def defaults(self) -> dict[str, Any]:
        """Return the options of [defaults], in seconds and bytes."""
        return self._options("[defaults]", self._content.get("defaults", {}))

    def kinds(self) -> dict[str, dict[str, Any]]:
        """Return the options of every [kinds.X], in seconds and bytes."""
        tables = self._content.get("kinds", {})
        if isinstance(tables, dict):
            return {kind: self._options(f"[kinds.{kind}]", table) for kind, table in tables.items()}
        self.complain(f"kinds must be sections like [kinds.embed], not {tables!r}")
        return {}

    def _options(self, where: str, table: Any) -> dict[str, Any]:
        if isinstance(table, dict):
            return dict(self._good_options(where, table))
        self.complain(f"{where} must be a section, not {table!r}")
        return {}

    def _good_options(self, where: str, table: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
        for name, written in table.items():
            if name not in OPTION_NAMES:
                self.complain(f"{where} has no key {name!r}{did_you_mean(name, OPTION_NAMES)}")
                continue
            value = in_units(name, written)
            complaint = complaint_about(name, value)
            if complaint is None:
                yield name, tuple(value) if isinstance(value, list) else value
            else:
                self.complain(f"{where} {complaint}{how_to_write(name)}")

    def refuse_unknown(self) -> None:
        """Complain about every top-level key and section that this version does not read."""
        for name, value in self._content.items():
            if name not in TOP_LEVEL:
                what = f"section [{name}]" if isinstance(value, dict) else f"key {name!r}"
                self.complain(f"unknown {what}{place_of(name)}")


def place_of(name: str) -> str:
    """Say where a key that is unknown at the top level belongs, or what may have been meant."""
    if name in OPTION_NAMES:
        return "; it belongs into [defaults] or [kinds.X]"
    return did_you_mean(name, TOP_LEVEL)


def is_workers(value: object) -> bool:
    """Tell whether `value` is a number of workers."""
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MOST_WORKERS


def how_to_write(name: str) -> str:
    """Say how the values of an option are written, where that is not plain from what they must be."""
    if name in DURATIONS:
        return units.HOW_TO_WRITE
    return units.HOW_TO_WRITE_SIZES if name in SIZES else ""


def in_units(name: str, value: Any) -> Any:
    """Turn a text like "5m" or "6GB" into seconds or bytes; one that is neither stays, to be refused."""
    if not isinstance(value, str):
        return value
    convert: Callable[[object], float | int | None] | None = None
    if name in DURATIONS:
        convert = units.seconds
    elif name in SIZES:
        convert = units.size
    amount = convert(value) if convert is not None else None
    return value if amount is None else amount
