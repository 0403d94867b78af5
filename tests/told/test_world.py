"""What was on while an attempt ran, in words."""

from typing import Any

import pytest

from supervisor.told.world import in_words, is_plain, limits

PLAIN = {"spawn": "template", "kill": "guardian", "shield": None, "network": "open", "limits": {}}
ALL = {
    "memory_limit": 500_000_000,
    "process_limit": 1200,
    "cpu_limit": 90.5,
    "open_files_limit": 256,
    "file_size_limit": 2_000_000_000,
}


@pytest.mark.parametrize(
    ("facts", "plain", "said"),
    [
        ({}, True, "template child, whole tree ended by its guardian"),
        ({"spawn": "cold", "kill": "cgroup"}, True, "cold child, whole tree ended by its cgroup"),
        (
            {"spawn": "cold", "kill": "group"},
            True,
            "cold child, process group ended, what had left it not followed",
        ),
        (
            {"shield": "landlock 7: store, signals", "network": "sealed", "limits": {"memory_limit": 5e8}},
            False,
            "template child, whole tree ended by its guardian, shield (landlock 7: store, signals),"
            " network sealed, memory limit 500 MB",
        ),
        (
            {"limits": ALL},
            False,
            "template child, whole tree ended by its guardian, memory limit 500 MB, process limit 1,200,"
            " CPU limit 90.5 s, open files limit 256, file size limit 2 GB",
        ),
    ],
)
def test_a_world_reads_as(facts: dict[str, Any], plain: bool, said: str) -> None:
    """C157, U40: what a child was started with, and what of it somebody had to ask for."""
    world = PLAIN | facts
    assert (is_plain(world), in_words(world)) == (plain, said)


@pytest.mark.parametrize("one", [{"shield": "landlock 3: store"}, {"network": "sealed"}, {"limits": ALL}])
def test_whatever_was_asked_for_makes_a_world_worth_a_line(one: dict[str, Any]) -> None:
    """C157."""
    assert is_plain(PLAIN)
    assert not is_plain(PLAIN | one)


@pytest.mark.parametrize("odd", [None, "abc", -1, 1e300, float("nan"), [], [[]], {}, {"x": 1}], ids=repr)
def test_garbage_in_a_world_is_told_as_nothing(odd: Any) -> None:
    """U32: and what a newer version may have added is passed over."""
    assert in_words(dict.fromkeys(("spawn", "kill", "network", "limits", "newer"), odd)) == ""
    assert is_plain({"shield": None if isinstance(odd, str) else odd})
    assert in_words({"limits": dict.fromkeys(("memory_limit", "newer_limit"), odd)}) == ""
    assert limits({"limits": odd}) == (odd if isinstance(odd, dict) else {})
    assert limits(None) == {}
