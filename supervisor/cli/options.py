"""Options that several commands share: where the store is, which jobs are meant, how long."""

from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar

import rich_click as click

from policies.job import State
from supervisor.told import units

Function = TypeVar("Function", bound=Callable[..., Any])
Decorator = Callable[[Function], Function]

HOME: Final = "The store's folder (LANEWAY_HOME; default: the nearest .supervisor/ upwards)."
APP: Final = (
    "The application: MODULE[:ATTR] or FILE.py[:ATTR] (LANEWAY_APP; default: app in supervisor.toml)."
)


MODE: Final = click.option(
    "--mode",
    multiple=True,
    metavar="KIND=MODE",
    help="Run a kind inproc, on a thread, or as a subprocess; may be repeated.",
)


class JobId(click.IntRange):
    """A job's id as it is typed: 7, or #7 as every line names it."""

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return the number."""
        digits = str(value).removeprefix("#")
        if not (digits.isascii() and digits.isdigit() and len(digits) < 100 and 0 < int(digits) < 2**63):
            self.fail(f"{value!r} is no job id; write 7 or '#7'", param, ctx)
        return int(digits)


JOB: Final = JobId(1, 2**63 - 1)


def as_seconds(_ctx: Any, _option: Any, text: str | None) -> float | None:
    """Read a duration: 30, 30s, 2m, 1h, 30d."""
    if text is None:
        return None
    if (amount := units.seconds(text)) is None:
        raise click.BadParameter(f"{text!r} is no duration{units.HOW_TO_WRITE}")
    return amount


def as_bytes(_ctx: Any, _option: Any, text: str | None) -> int | None:
    """Read a size: 65536, 256KiB, 500MB, 6GB."""
    if text is None:
        return None
    if (amount := units.size(text)) is None:
        raise click.BadParameter(f"{text!r} is no size{units.HOW_TO_WRITE_SIZES}")
    return amount


def common(*, app: bool = False) -> Decorator[Any]:
    """Give a command the options that every one takes, and --app to those that need the application."""

    def decorate(command: Any) -> Any:
        if app:
            command = click.option("--app", metavar="SPEC", help=APP)(command)
        command = click.option("--json", "as_json", is_flag=True, help="Print JSON.")(command)
        return click.option("--home", metavar="DIR", help=HOME)(command)

    return decorate


def filters(states: Iterable[State], default: str) -> Decorator[Any]:
    """Give a command --state, --kind and --tag; `default` says which states are meant without --state."""
    choice = click.Choice([str(state) for state in State if state in frozenset(states)])

    def decorate(command: Any) -> Any:
        command = click.option("--tag", help="Only jobs with this label.")(command)
        command = click.option("--kind", help="Only jobs of this kind.")(command)
        text = f"Only jobs in this state; may be repeated (default: {default})."
        return click.option("--state", "states", type=choice, multiple=True, help=text)(command)

    return decorate


def selection(states: Iterable[State], default: str) -> Decorator[Any]:
    """Give a command its jobs: ids, or any of --state, --kind and --tag."""

    def decorate(command: Any) -> Any:
        command = filters(states, default)(command)
        return click.argument("ids", type=JOB, nargs=-1, metavar="[ID...]")(command)

    return decorate
