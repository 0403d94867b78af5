"""What this system can do to children: how surely it ends them, what it shuts them out of, how they begin.

Facts only, measured where they can be; `doctor` puts them into words, and a start goes by them.
"""

import os
import sys
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ipc.guardian import cgroup
from ipc.guardian.orders import CGROUP, GROUP, GUARDIAN
from ipc.guardian.shield import abi, described
from ipc.oom import Witness
from ipc.subreaper import adopting_orphans

if TYPE_CHECKING:
    from policies.readings import MemoryReading

SANDBOX: Final = "/usr/bin/sandbox-exec"
NO_SHIELD: Final = "this system has no Landlock (Linux 5.13 and newer), or it is switched off"
WHOLE: Final = 3
"""The first Landlock that also keeps a file from being truncated."""


@dataclass(frozen=True, slots=True)
class Shield:
    """What keeps children off the store here.

    Attributes:
        kept_off: what that is, for people; "" where there is no shield.
        gap: what of the promise is not kept, "" when it is whole.
    """

    kept_off: str
    gap: str = ""

    def __bool__(self) -> bool:
        return bool(self.kept_off)


def shield() -> Shield:
    """Return the shield of this system."""
    if sys.platform == "darwin":
        if not os.access(SANDBOX, os.X_OK):
            return Shield("")
        return Shield("sandbox-exec: store", "signals to the supervisor are not kept off")
    if not (version := abi()):
        return Shield("")
    return Shield(described(version), "" if version >= WHOLE else "the store can be truncated")


def memory() -> "MemoryReading":
    """Return how much memory there is; unknown where nobody can tell, or not in time."""
    from ipc.tool import run  # noqa: PLC0415 - only who asks for it waits for this and the probes
    from supervisor.probes.watch import MEMORY, look, native  # noqa: PLC0415 - as above
    from supervisor.settings.place import environment  # noqa: PLC0415 - as above

    return look({MEMORY: native(environment(), os.getuid(), run=run)[MEMORY]}).memory


def kill_tier() -> tuple[str, str]:
    """Return how surely a tree is ended (`ipc.guardian.orders`), and the folder of our cgroup or ""."""
    if (folder := cgroup.base()) is not None:
        return CGROUP, folder
    with adopting_orphans() as adopts:
        return GUARDIAN if adopts else GROUP, ""


def has_templates() -> bool:
    """Tell whether children may be copies of a template; on macOS a fork without exec is not safe."""
    return sys.platform == "linux"


def tells_of_oom() -> str:
    """Return the surest that says whether the kernel ended a process, out of memory; "" for nothing."""
    with closing(Witness()) as witness:
        look = witness.look()
    sources = {
        "its log names them": look.victims,
        "our memory cgroup counts them": look.group,
        "the machine counts them": look.machine,
    }
    return next((words for words, found in sources.items() if found is not None), "")
