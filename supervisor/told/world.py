"""What was on while an attempt ran, in one line: how its child began, what ended its tree, what bound it.

Like the record of a kill, a world is read as any version may have written it.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from supervisor.told.kills import number, text
from supervisor.told.units import human_size, limit

SPAWN: Final = {"template": "template child", "cold": "cold child", "inproc": "on a thread of the supervisor"}
TREE: Final = {
    "cgroup": "whole tree ended by its cgroup",
    "guardian": "whole tree ended by its guardian",
    "thread": "which nothing can end",
    "group": "process group ended, what had left it not followed",
}
LIMITS: Final[Mapping[str, tuple[str, Callable[[float], str]]]] = {
    "memory_limit": ("memory limit", human_size),
    "process_limit": ("process limit", "{:,g}".format),
    "cpu_limit": ("CPU limit", limit),
    "open_files_limit": ("open files limit", "{:,g}".format),
    "file_size_limit": ("file size limit", human_size),
}


def is_plain(world: Mapping[str, Any]) -> bool:
    """Tell a world in which nothing was on that somebody had to ask for."""
    return not any(asked_for(world))


def in_words(world: Mapping[str, Any]) -> str:
    """Say what was on, in the order of a child's life; "" when nothing of it can be read."""
    return ", ".join(filter(None, [spawned(world), TREE.get(text(world, "kill")), *asked_for(world)]))


def spawned(world: Mapping[str, Any]) -> str:
    """Say how the child began; "cold", if that was not asked for, is followed by why there are no copies."""
    how, _, why = text(world, "spawn").partition(" ")
    words = SPAWN.get(how, "")
    return f"{words} ({why})" if words and why else words


def is_whole_tree(world: Mapping[str, Any] | None) -> bool:
    """Tell whether what a kill counted is all that there was; a process group may have been left."""
    return (world or {}).get("kill") != "group"


def asked_for(world: Mapping[str, Any]) -> Iterator[str]:
    """Yield the shield, the seal and the limits."""
    if shield := text(world, "shield"):
        yield f"shield ({shield})"
    if world.get("network") == "sealed":
        yield "network sealed"
    yield from limits_in_words(world)


def limits_in_words(world: Mapping[str, Any]) -> Iterator[str]:
    """Yield the limits that were set, with their figures."""
    for name, (words, figure) in LIMITS.items():
        if value := number(limits(world), name):
            yield f"{words} {figure(value)}"


def limits(world: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Return the limits of a world, none where it has none."""
    found = (world or {}).get("limits")
    return found if isinstance(found, Mapping) else {}
