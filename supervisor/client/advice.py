"""What an application's router says of a job, where nobody else has said a tier (SPEC C110).

Asked before anything is written, in the process that enqueues: nothing slow happens inside a transaction. A
tier that it names is followed where the store knows it; what becomes of all other answers is a warning.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from landing.enqueue import Enqueue, Enqueued
from policies.payload import payload_from, payload_text
from policies.routing import Advice, Router, ask, is_open, no_tier
from supervisor.api import App
from supervisor.application import Application, lanes_of
from supervisor.client.order import job_of

NOT_ASKED: Final = Advice(None)


def routers_of(app: App | Application | None) -> dict[str, Router]:
    """Return whom to ask about which kind: an application's router about those of its own that are open."""
    return {kind: router for router, kind, tier in open_to(app) if is_open(kind, None, tier)}


def open_to(app: App | Application | None) -> Iterator[tuple[Router, str, str]]:
    """Yield each kind of an application that has a router, with the tier that it declares."""
    if isinstance(app, Application):
        for one in (loaded.app for loaded in app.apps):
            if one.adviser is not None:
                yield from ((one.adviser, kind, app.kinds[kind].options.tier) for kind, _ in lanes_of(one))
    elif app is not None and app.adviser is not None:
        yield from ((app.adviser, kind, lane.options.tier) for kind, lane in lanes_of(app))


def ordered(
    router: Router | None, kind: str, payloads: Iterable[Any], options: Mapping[str, Any]
) -> Iterator[tuple[Enqueue, Advice]]:
    """Yield what inserts each job, with what the router says of it; it sees the payload as the job will.

    Raises:
        PayloadRefused: a payload is not strict JSON or too large.
        OptionRefused: an option is unknown or has a bad value.
    """
    for payload in payloads:
        text = payload_text(payload)
        job, advice = job_of(kind, text, options), NOT_ASKED
        if router is not None and is_open(kind, options.get("tier"), None):
            advice = ask(router, kind, payload_from(text))
        yield replace(job, advice=advice.tier), advice


def warning(advice: Advice, answer: Enqueued) -> str:
    """Say why a router's answer was of no use, "" where it was or nobody was asked."""
    unheeded = answer.unheeded and advice.tier is not None
    return no_tier(advice.tier or "") if unheeded else advice.fallback
