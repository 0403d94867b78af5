"""In which mode a kind runs, and who said so (SPEC U20)."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from policies.job import Mode
from supervisor.api import Handler, Lane

if TYPE_CHECKING:
    from supervisor.settings.values import Settings


class Choice(NamedTuple):
    """A mode, and who chose it: handler, command line, settings, decorator or default."""

    mode: Mode
    why: str


def choice(lane: Lane[Any, Any] | Handler, settings: "Settings") -> Choice:
    """Choose the mode of a kind.

    A handler has nothing that a child could run. The command line comes before [kinds.X], that before the
    decorator, that before [defaults] and default_mode, which leave the kinds of which `is_apart` holds alone.
    """
    if isinstance(lane, Handler):
        return Choice(Mode.INPROC, "handler")
    own = settings.kinds.get(lane.kind, {})
    for said, why in (
        (settings.modes.get(lane.kind), "command line"),
        (own.get("mode"), "settings"),
        (lane.declared.get("mode"), "decorator"),
    ):
        if said is not None:
            return Choice(Mode(said), why)
    general = settings.defaults.get("mode") or settings.default_mode
    if general == Mode.INPROC and is_apart({**settings.defaults, **lane.declared, **own}):
        return Choice(Mode.SUBPROCESS, "sealed or shielded")
    return Choice(Mode(general), "settings") if general else Choice(Mode.SUBPROCESS, "default")


def is_apart(options: Mapping[str, Any]) -> bool:
    """Tell whether a kind is to be kept from the network or the store, which only a process can be."""
    return bool(options.get("shield")) or options.get("network") is False
