"""Which tier a kind is of: what must be loaded for it, and which gates hold it back."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from policies.options import Options
from policies.routing import RULES, LoaderName, route
from supervisor.settings.values import Settings

if TYPE_CHECKING:
    from supervisor.api import Lane


def kept_model(options: Options, settings: Settings) -> str:
    """Return the model that the kind's children keep, "" where they keep none."""
    tier = settings.scheduling.tiers.get(options.tier)
    return tier.model or "" if tier is not None and tier.loader == LoaderName.CHILD else ""


def routed(lane: "Lane[Any, Any]", options: Options, settings: Settings) -> Options:
    """Give a kind the tier and the priority of the rules where decorator and settings say none."""
    return ruled(
        lane.kind, options, {**settings.defaults, **lane.declared, **settings.kinds.get(lane.kind, {})}
    )


def ruled(kind: str, options: Options, said: Mapping[str, Any]) -> Options:
    """Give a kind the tier and the priority of the rules where nobody has `said` any (SPEC C110-C112)."""
    if kind not in RULES:
        return options
    plan = route(
        kind,
        windows={options.tier: 0},  # whether there is such a tier is asked elsewhere
        declared_tier=options.tier,
        declared_priority=said.get("priority"),
    )
    return replace(options, tier=plan.tier, priority=plan.priority)
