"""What a supervisor or its client refuses at the door; every text is one line for a person."""

from collections.abc import Iterable
from typing import Any


class Refused(Exception):
    """Base: `complaints` are all that is wrong, one line each: where, what, what to do."""

    def __init__(self, complaints: Iterable[str]) -> None:
        self.complaints = tuple(complaints)
        super().__init__("\n".join(self.complaints))


class SettingsRefused(Refused):
    """The settings cannot be used.

    `rest` are those without what is wrong, to find out what else is; `hides_app` says that they may
    well name an application, which cannot be read.
    """

    def __init__(self, complaints: Iterable[str], rest: Any = None, *, hides_app: bool = False) -> None:
        super().__init__(complaints)
        self.rest = rest
        self.hides_app = hides_app


class ApplicationRefused(Refused):
    """The application does not load, or cannot be run; `rest` is what of it has loaded, if anything."""

    def __init__(self, complaints: Iterable[str], rest: Any = None) -> None:
        super().__init__(complaints)
        self.rest = rest


class OptionRefused(Refused):
    """A job's own options are unknown or have bad values."""


class WaitedTooLong(Exception):
    """Jobs had not ended when the time was up; `ids` are theirs."""

    def __init__(self, ids: Iterable[int]) -> None:
        self.ids = tuple(ids)
        super().__init__(f"not ended yet: {', '.join(f'#{one}' for one in self.ids)}")
