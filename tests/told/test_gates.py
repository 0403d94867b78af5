"""How gates and models stand, cleaned and in words."""

from typing import Any

import pytest

from supervisor.told.gates import gates, gates_line, models, models_line, yielding

POWER = {"gate": "power", "closed": True, "state": "battery", "percent": 61.0, "source": "BAT0"}
AWAY = {"gate": "presence", "closed": False, "state": "away", "idle_s": 840, "source": "logind"}
MEMORY = {"gate": "memory", "closed": False, "available": 9_100_000_000, "total": 24_000_000_000}
QUIET = {"gate": "quiet", "closed": False}
BOOKS: dict[str, Any] = {
    "residents": [
        {"name": "minilm", "memory": 1_200_000_000, "pinned": False, "jobs": 2},
        {"name": "qwen", "memory": 4_000_000_000, "pinned": True, "jobs": 0},
    ],
    "measured": True,
    "error": None,
    "usable": 12_000_000_000,
    "consumers": 0,
    "swaps": 3,
    "load_s": 4.2,
    "asked": [],
}
GARBAGE: list[Any] = [None, 7, "text", [], {}, [None], [[]], {"gate": 1}, [{"gate": None}], True]


def test_the_line_has_each_reading_and_who_said_so_where_somebody_asks() -> None:
    """U27: a gate that is closed names its source."""
    line = gates_line(gates({"gates": [POWER, AWAY, MEMORY, QUIET]}))
    assert line.split("   ") == [
        "power: battery 61 % (BAT0), closed",
        "presence: away 14 min",
        "memory: 9.1 GB of 24 GB free",
        "quiet: no",
    ]


@pytest.mark.parametrize(
    ("gate", "said"),
    [
        (POWER | {"closed": False, "state": "mains"}, "power: mains"),
        (POWER | {"state": "unknown", "source": "no sysfs"}, "power: unknown (no sysfs), closed"),
        (POWER | {"closed": False, "state": "battery", "percent": None}, "power: battery"),
        (AWAY | {"idle_s": None, "source": "no session"}, "presence: away (no session)"),
        (AWAY | {"closed": True, "state": "present", "idle_s": 3}, "presence: present, 3.0 s since a touch"),
        (AWAY | {"state": "unknown", "source": "no bus"}, "presence: unknown (no bus)"),
        (MEMORY | {"available": None, "source": "no /proc"}, "memory: unknown (no /proc)"),
        (MEMORY | {"pressure": 12.5}, "memory: 9.1 GB of 24 GB free, pressure 12.5 %"),
        (MEMORY | {"total": None}, "memory: 9.1 GB free"),
        (QUIET | {"closed": True}, "quiet: yes, closed"),
        ({"gate": "of_a_newer_version", "state": "shut", "closed": True}, "of a newer version: shut, closed"),
    ],
)
def test_each_reading_is_said_and_unknown_as_that(gate: dict[str, Any], said: str) -> None:
    """U28: never a default that looks measured."""
    assert gates_line(gates({"gates": [gate]})).startswith(said)


def test_the_models_in_memory_are_said_with_their_sum_and_swaps() -> None:
    """C139, C142."""
    books = models({"models": BOOKS})
    assert books is not None
    assert models_line(books) == (
        "minilm (1.2 GB, 2 jobs), qwen (4 GB, pinned)   5.2 GB of 12 GB   3 swaps   last load 4.2 s"
    )


@pytest.mark.parametrize(
    ("sizes", "line"),
    [
        (
            (1_200_000_000, None),
            "minilm (1.2 GB, 2 jobs), qwen (size unknown, not ours)   at least 1.2 GB of 12 GB",
        ),
        (
            (None, None),
            "minilm (size unknown, 2 jobs), qwen (size unknown, not ours)   size unknown of 12 GB",
        ),
        ((0, 5_000_000_000), "minilm (0 B, 2 jobs), qwen (5 GB, not ours)   5 GB of 12 GB"),
    ],
)
def test_a_model_of_unknown_size_is_never_said_to_take_nothing(sizes: tuple[Any, Any], line: str) -> None:
    """C139, U28."""
    minilm, qwen = BOOKS["residents"]
    found = [minilm | {"memory": sizes[0]}, qwen | {"memory": sizes[1], "pinned": False, "consumer": True}]
    books = models({"models": BOOKS | {"residents": found}})
    assert books is not None
    assert models_line(books).startswith(line + "   ")
    assert [one["memory"] for one in books["residents"]] == list(sizes)


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"residents": [], "load_s": None, "swaps": 0}, "none   0 B of 12 GB   0 swaps"),
        (
            {"residents": None, "measured": False, "error": "no answer", "load_s": None, "swaps": 1},
            "unreconciled: no answer   1 swap",
        ),
        (
            {"residents": [], "asked": ["qwen"], "load_s": None, "usable": None},
            "none   0 B   loading qwen   3 swaps",
        ),
    ],
)
def test_books_that_nobody_could_measure_are_said_to_be_unreconciled(
    changes: dict[str, Any], line: str
) -> None:
    """C139, LESSONS 48."""
    books = models({"models": BOOKS | changes})
    assert books is not None
    assert models_line(books) == line


@pytest.mark.parametrize("garbage", GARBAGE, ids=repr)
def test_garbage_tells_nothing_and_breaks_nothing(garbage: Any) -> None:
    """U31, C97."""
    told = {"gates": garbage, "models": garbage, "yielding": garbage}
    assert gates(told) == []
    assert yielding(told) == {}
    if (books := models(told)) is not None:
        assert models_line(books) == "unreconciled   0 swaps"


@pytest.mark.parametrize("name", BOOKS)
@pytest.mark.parametrize("garbage", GARBAGE, ids=repr)
def test_one_bad_entry_of_the_books_costs_that_entry_alone(name: str, garbage: Any) -> None:
    """U31."""
    books = models({"models": BOOKS | {name: garbage}})
    assert books is not None
    assert ("3 swaps" in models_line(books)) is (name != "swaps")


def test_a_reading_that_is_no_figure_is_not_shown_as_one() -> None:
    found = gates({"gates": [POWER | {"percent": "61"}, AWAY | {"idle_s": float("nan")}, 7]})
    assert [gate.get("percent", gate.get("idle_s")) for gate in found] == [None, None]
