"""`supervisor lanes`: each kind, where it runs and who said so, what limits its jobs, what they wait for."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Final

from policies.admission import NO_TIER, rule_of
from policies.gates.vocabulary import CHOSEN
from policies.job import Mode, OnGate
from policies.options import DURATIONS, SIZES, Options
from policies.routing import Tier
from supervisor.application import LoadedKind, load_application
from supervisor.checks import LIMITS_OF_PROCESSES
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
)
"""What bounds the jobs of a kind once somebody has set it."""
HEADS: Final = ("kind", "mode", "why", "limits", "queue", "tier", "gates")


def lanes_command(*, home: str | None, app: str | None, as_json: bool, mode: tuple[str, ...]) -> int:
    """Print every kind that a run started here would have."""
    settings = load_settings(Flags(home=home, app=app, modes=mode))
    loaded, tiers = load_application(settings).kinds, settings.scheduling.tiers
    kinds = [facts(loaded[kind], tiers) for kind in sorted(loaded)]
    if as_json:
        print_json({"kinds": kinds})
    else:
        for line in page([HEADS, *map(row, kinds)]):
            print(plain(line))
    return 0


def facts(loaded: LoadedKind, tiers: Mapping[str, Tier]) -> dict[str, Any]:
    """Return what there is to know of a kind, in seconds and bytes; `gates` are those that hold for it.

    `gates_by` is who has chosen them: "kind", or "tier" where the kind lists none.
    """
    options, on, is_inproc = loaded.options, limits_on(loaded.options), loaded.choice.mode is Mode.INPROC
    gates = rule_of(loaded.kind, options, tiers.get(options.tier, NO_TIER)).gates
    return {
        "kind": loaded.kind,
        "mode": str(loaded.choice.mode),
        "why": loaded.choice.why,
        "limits": on,
        "without_effect": [name for name in LIMITS_OF_PROCESSES if name in on and is_inproc],
        "max_running": options.max_running,
        "unique": options.unique,
        "exclusive_by": options.exclusive_by or None,
        "tier": options.tier,
        "gates": [str(gate) for gate in CHOSEN if gate in gates],
        "gates_by": "tier" if options.gates is None else "kind",
        "on_gate": str(options.on_gate),
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
    queue = [f"{name} {kind[name]}" for name in ("max_running", "unique", "exclusive_by") if kind[name]]
    gates = list(kind["gates"])
    if kind["on_gate"] == OnGate.YIELD:
        gates.append("on_gate yield")
    cells = (limits, queue, [kind["tier"]] if kind["tier"] else [], gates)
    return kind["kind"], kind["mode"], kind["why"], *(", ".join(cell) or "-" for cell in cells)


def figure(name: str, value: float) -> str:
    """Say a limit with its unit."""
    if name in DURATIONS:
        return limit(value)
    return human_size(value) if name in SIZES else f"{value:,g}"
