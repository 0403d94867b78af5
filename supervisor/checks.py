"""What is refused in a declaration, as soon as it is written: names, options, functions that do not fit.

Children import this file with the application, so it imports no store and no screen.
"""

from collections.abc import Collection, Iterable, Mapping
from inspect import signature
from typing import Any, Final

from policies.options import OPTION_NAMES, options_from

LANE_OPTIONS: Final = ("rows", "payload", *OPTION_NAMES)
OF_LANES: Final = frozenset(
    {
        "batch_rows",
        "batch_bytes",
        "batch_deadline",
        "start_deadline",
        "memory_limit",
        "resume",
        "mode",
        "env",
        "nice",
        "network",
        "shield",
        "process_limit",
        "cpu_limit",
        "open_files_limit",
        "file_size_limit",
        "jobs_per_child",
        "spawn",
    }
)
"""Options that say nothing to a handler: it has no rows and no process of its own."""
LIMITS_OF_PROCESSES: Final = (
    "memory_limit",
    "process_limit",
    "cpu_limit",
    "open_files_limit",
    "file_size_limit",
)
"""Limits that nothing holds a thread to."""
OF_PROCESSES: Final = (*LIMITS_OF_PROCESSES, "env", "nice", "jobs_per_child", "spawn")
"""Options that say nothing to a thread. So do `shield` and `network`, but who asks for them is refused."""
HANDLER_OPTIONS: Final = ("payload", *(name for name in OPTION_NAMES if name not in OF_LANES))


def check_kind(kind: Any, decorator: str, app: str, known: Iterable[Collection[str]]) -> None:
    """Refuse what can be no kind's name, or is one already.

    Raises:
        ValueError: saying so, for `@app.DECORATOR`.
    """
    if callable(kind):
        name = getattr(kind, "__name__", "one")
        raise ValueError(f'write @app.{decorator}("{name}"): a {decorator} needs the kind of its jobs')
    if not isinstance(kind, str) or not 0 < len(kind) <= 128 or not kind.isprintable() or " " in kind:
        raise ValueError(f"a kind is 1 to 128 printable characters without spaces, not {kind!r}")
    if any(kind in kinds for kinds in known):
        raise ValueError(f"kind {kind!r} is registered twice in app {app!r}")


def checked_options(what: str, options: Mapping[str, Any], allowed: tuple[str, ...]) -> dict[str, Any]:
    """Return options as they are kept.

    Raises:
        ValueError: some are bad, all complaints at once; `what` is the lane or handler.
    """
    if unknown := [unknown_option(name, allowed) for name in options if name not in allowed]:
        takes = f"a {what.partition(' ')[0]} takes {', '.join(allowed)}"
        raise ValueError(f"{what}: {'; '.join(unknown)}; {takes}")
    kept = dict(options)
    if "retry_on" in kept:
        kept["retry_on"] = tuple(class_name(one) for one in kept["retry_on"])
    try:
        options_from(kept)
    except ValueError as error:
        raise ValueError(f"{what}: " + "; ".join(str(error).splitlines())) from None
    return kept


def unknown_option(name: str, allowed: tuple[str, ...]) -> str:
    """Say that there is no such option, and which one may have been meant."""
    from supervisor.told.spelling import did_you_mean  # noqa: PLC0415 - children import this file

    return f"unknown option {name!r}{did_you_mean(name, allowed)}"


def check_takes(fn: Any, what: str, names: tuple[str, ...]) -> None:
    """Refuse a half that a call with these arguments cannot reach; one that shows no signature may pass.

    Raises:
        ValueError: saying what it must take and what it takes.
    """
    wanted = f"({', '.join(names)})"
    if not callable(fn):
        raise ValueError(f"{what} must be a function that takes {wanted}, not {fn!r}")
    try:
        takes = signature(fn)
    except (TypeError, ValueError):
        return
    try:
        takes.bind(*names)
    except TypeError:
        raise ValueError(f"{what} must take {wanted}, not {takes}") from None


def class_name(one: type[BaseException]) -> str:
    """Name an exception class as the wire does: module.qualname, builtins bare."""
    if not (isinstance(one, type) and issubclass(one, BaseException)):
        raise ValueError(f"retry_on holds exception classes, not {one!r}")
    return one.__qualname__ if one.__module__ == "builtins" else f"{one.__module__}.{one.__qualname__}"
