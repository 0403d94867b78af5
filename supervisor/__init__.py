"""laneway: a durable job supervisor for one machine.

The public names are loaded when they are first used (PEP 562), so that a child
which imports the user's application (`from supervisor import App`) loads
neither the store nor the screens.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ipc.endings import Fail, Retry, Skip
    from supervisor.api import App, Lane
    from supervisor.client import Client
    from supervisor.halves import Context, Job, Landing, Rows
    from supervisor.secrets import Authority
    from supervisor.secrets.minter import signing_authority

__all__ = [
    "App",
    "Authority",
    "Client",
    "Context",
    "Fail",
    "Job",
    "Landing",
    "Lane",
    "Retry",
    "Rows",
    "Skip",
    "signing_authority",
]

_HOMES = {
    "App": "supervisor.api",
    "Authority": "supervisor.secrets",
    "Client": "supervisor.client",
    "Context": "supervisor.halves",
    "Fail": "ipc.endings",
    "Job": "supervisor.halves",
    "Landing": "supervisor.halves",
    "Lane": "supervisor.api",
    "Retry": "ipc.endings",
    "Rows": "supervisor.halves",
    "Skip": "ipc.endings",
    "signing_authority": "supervisor.secrets.minter",
}


def __getattr__(name: str) -> Any:
    if (home := _HOMES.get(name)) is None:
        raise AttributeError(f"module 'supervisor' has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415 - the whole point is to import late

    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return sorted(__all__)
