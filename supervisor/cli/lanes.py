"""`supervisor lanes`: each kind, where it runs and who said so, and what limits it."""

from dataclasses import asdict
from typing import Any, Final

from policies.job import Mode
from policies.options import DURATIONS, SIZES, Options
from supervisor.application import LoadedKind, load_application
from supervisor.cli.output import page, plain, print_json
from supervisor.settings.values import Flags, load_settings
from supervisor.told.units import human_size, limit

LIMITS: Final = (
    "start_deadline",
    "batch_deadline",
    "job_deadline",
    "memory_limit",
    "process_limit",
    "cpu_limit",
    "open_files_limit",
    "file_size_limit",
    "max_running",
)
"""What bounds the jobs of a kind once somebody has set it."""
OF_PROCESSES: Final = (
    "memory_limit",
    "process_limit",
    "cpu_limit",
    "open_files_limit",
    "file_size_limit",
)
"""What nothing holds a thread to."""
HEADS: Final = ("kind", "mode", "why", "limits", "tier", "gates")


def lanes_command(*, home: str | None, app: str | None, as_json: bool, mode: tuple[str, ...]) -> int:
    """Print every kind that a run started here would have."""
    application = load_application(load_settings(Flags(home=home, app=app, modes=mode)))
    kinds = [facts(application.kinds[kind]) for kind in sorted(application.kinds)]
    if as_json:
        print_json({"kinds": kinds})
    else:
        for line in page([HEADS, *map(row, kinds)]):
            print(plain(line))
    return 0


def facts(loaded: LoadedKind) -> dict[str, Any]:
    """Return what there is to know of a kind: seconds and bytes, None for gates that its tier decides."""
    options = loaded.options
    on = limits_on(options)
    return {
        "kind": loaded.kind,
        "mode": str(loaded.choice.mode),
        "why": loaded.choice.why,
        "limits": on,
        "without_effect": [name for name in OF_PROCESSES if name in on and loaded.choice.mode is Mode.INPROC],
        "tier": options.tier,
        "gates": None if options.gates is None else list(options.gates),
    }


def limits_on(options: Options) -> dict[str, float]:
    """Return the limits that are not off."""
    return {name: value for name, value in asdict(options).items() if name in LIMITS and value}


def row(kind: dict[str, Any]) -> tuple[str, ...]:
    """Return the cells of a kind; what cannot be held in its mode is said with the limit."""
    limits = [
        f"{name} {figure(name, value)}{' (not on a thread)' if name in kind['without_effect'] else ''}"
        for name, value in kind["limits"].items()
    ]
    gates = "of its tier" if kind["gates"] is None else ", ".join(kind["gates"]) or "none"
    return kind["kind"], kind["mode"], kind["why"], ", ".join(limits) or "none", kind["tier"] or "-", gates


def figure(name: str, value: float) -> str:
    """Say a limit with its unit."""
    if name in DURATIONS:
        return limit(value)
    return human_size(value) if name in SIZES else f"{value:,g}"
