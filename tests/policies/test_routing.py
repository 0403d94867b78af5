"""Where a job goes, who may say so, and what settings may say of tiers."""

import ast
from collections.abc import Callable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies import routing
from policies.job import Priority
from policies.routing import BUILT_IN, HEAVY_TIERS, Advice, Decider, Plan, Tier, UnknownTier, tiers_from

ROOT = Path(__file__).resolve().parents[2]
WINDOWS = {"synthesis": 32_768, "routine": 8192, "gpu": 4096}


def plan_of(
    kind: str,
    *,
    tier: tuple[str | None, str | None] = (None, None),
    priority: tuple[int | None, int | None] = (None, None),
    windows: Mapping[str, int] = WINDOWS,
) -> Plan:
    """Both pairs are (what the job says, what its kind declares)."""
    return routing.route(
        kind,
        windows=windows,
        explicit_tier=tier[0],
        declared_tier=tier[1],
        explicit_priority=priority[0],
        declared_priority=priority[1],
    )


PINNED = [
    *("route", "classify", "watchdog", "vault_sync", "ambassador"),
    *("chat_sync", "chat_events", "integrate", "code_sync"),
]
SYNTHESIS = ["curate", "dream", "synthesize", "research", "compact", "ambassador_task"]


def test_the_rules_send_each_kind_where_the_table_says() -> None:
    """C110, C111."""
    assert {plan_of(kind).tier for kind in PINNED} == {"pinned"}
    assert {plan_of(kind).tier for kind in SYNTHESIS} == {"synthesis"}
    assert {plan_of(kind).by for kind in PINNED + SYNTHESIS} == {Decider.RULE}


@given(st.text())
def test_every_other_kind_known_or_not_is_routine(kind: str) -> None:
    """C111."""
    if kind not in PINNED + SYNTHESIS:
        assert plan_of(kind) == Plan("routine", 8192, Priority.DEFAULT, Decider.RULE)


def test_the_window_is_that_of_the_tier_so_that_equal_windows_batch() -> None:
    """C113."""
    assert [plan_of(kind).window for kind in ("dream", "curate", "embed", "vault_sync")] == [
        32_768,
        32_768,
        8192,
        0,
    ]
    assert plan_of("embed", tier=("gpu", None)).window == 4096
    assert plan_of("dream", windows={}).window == 0


def test_a_priority_is_a_kinds_own_and_not_its_tiers() -> None:
    """C72, C112, U35: what a kind of nobody's table is pinned for must not outrank the owner."""
    for tier in (*BUILT_IN, "gpu"):
        assert plan_of("embed", tier=(None, tier)).priority == plan_of("embed").priority == 50
        assert plan_of("dream", tier=(None, tier)).priority == plan_of("dream").priority == 100
        assert plan_of("ambassador", tier=(tier, None)).priority == plan_of("ambassador").priority == 0


def test_what_a_kind_declares_wins_over_its_tier_and_what_a_job_says_over_both() -> None:
    """C112, U35: also 0, which is a priority and not nothing."""
    assert plan_of("dream", priority=(None, 50)).priority == 50
    assert plan_of("dream", priority=(None, 0)).priority == 0
    assert plan_of("dream", priority=(0, 50)).priority == 0
    assert plan_of("ambassador", priority=(7, 0)).priority == 7


def test_housekeeping_without_a_model_is_background_on_its_pinned_tier() -> None:
    """C112, U35: it must not outrank the owner; what the owner waits for is reactive."""
    quiet = ("vault_sync", "chat_sync", "chat_events", "integrate", "code_sync")
    assert {plan_of(kind).priority for kind in quiet} == {Priority.BACKGROUND}
    assert {plan_of(kind).tier for kind in quiet} == {"pinned"}
    urgent = ("route", "classify", "watchdog", "ambassador")
    assert {plan_of(kind).priority for kind in urgent} == {Priority.REACTIVE}
    assert plan_of("vault_sync", priority=(0, None)).priority == Priority.REACTIVE


def test_what_a_job_says_of_its_tier_wins_over_its_kind_and_that_over_the_rules() -> None:
    """C110."""
    said = plan_of("dream", tier=("gpu", "routine"))
    assert (said.tier, said.by) == ("gpu", Decider.EXPLICIT)
    declared = plan_of("dream", tier=(None, "routine"))
    assert (declared.tier, declared.by) == ("routine", Decider.DECLARED)
    assert plan_of("dream", tier=(None, "")).by is Decider.RULE


def test_a_router_may_be_asked_only_where_nobody_has_said_anything() -> None:
    """C110: rules first."""
    assert [
        kind for kind in (*PINNED, *SYNTHESIS, "embed", "shadow") if routing.is_open(kind, None, None)
    ] == [
        "embed",
        "shadow",
    ]
    assert routing.is_open("embed", None, "")
    assert not routing.is_open("embed", None, "stretch")
    assert not any(routing.is_open("embed", explicit, None) for explicit in ("stretch", ""))


def test_a_router_is_given_kind_and_payload_and_names_a_tier() -> None:
    """C110."""
    asked: list[tuple[str, Any]] = []

    def router(kind: str, payload: Any) -> str:
        asked.append((kind, payload))
        return "gpu"

    assert routing.ask(router, "embed", {"n": 1}) == Advice("gpu")
    assert asked == [("embed", {"n": 1})]


def raising(error: BaseException) -> Any:
    raise error


class Name(StrEnum):
    GPU = "gpu"


class Broken(Exception):
    def __str__(self) -> str:
        raise SystemExit


ANSWERS: list[tuple[Callable[[], object], Advice]] = [
    (lambda: "", Advice("")),
    (lambda: Name.GPU, Advice("gpu")),
    (lambda: None, Advice(None)),
    (lambda: ["gpu"], Advice(None, "the router said no tier but a value of type list")),
    (lambda: 1, Advice(None, "the router said no tier but a value of type int")),
    (lambda: raising(ValueError("no")), Advice(None, "the router raised ValueError")),
    (lambda: raising(RecursionError()), Advice(None, "the router raised RecursionError")),
    (lambda: raising(SystemExit(1)), Advice(None, "the router raised SystemExit")),
    (lambda: raising(GeneratorExit()), Advice(None, "the router raised GeneratorExit")),
    (lambda: raising(Broken()), Advice(None, "the router raised Broken")),
]


@pytest.mark.parametrize(("answer", "advice"), ANSWERS, ids=[str(advice) for _, advice in ANSWERS])
def test_whatever_a_router_does_costs_its_advice_and_no_job(
    answer: Callable[[], object], advice: Advice
) -> None:
    """C110: no code of its error's runs either."""
    found = routing.ask(lambda _kind, _payload: answer(), "embed", None)
    assert (found, type(found.tier)) == (advice, type(advice.tier))


def test_somebody_who_interrupts_a_router_interrupts_the_enqueue() -> None:
    with pytest.raises(KeyboardInterrupt):
        routing.ask(lambda _kind, _payload: raising(KeyboardInterrupt()), "embed", None)


def test_what_a_router_named_is_shown_by_its_beginning() -> None:
    assert routing.no_tier("x" * 500) == f"the router said '{'x' * 40}', which is no tier"


@pytest.mark.parametrize("said", [("synthesys", None), (None, "synthesys"), ("synthesys", "routine")])
def test_a_tier_that_nobody_defined_is_refused_with_those_that_there_are(
    said: tuple[str | None, str | None],
) -> None:
    """C110; the caller words a guess."""
    with pytest.raises(UnknownTier, match=r"^unknown tier 'synthesys'$") as caught:
        plan_of("embed", tier=said)
    assert caught.value.tier == "synthesys"
    assert caught.value.known == ("gpu", "pinned", "routine", "stretch", "synthesis")


def test_an_empty_tier_that_a_job_names_is_none() -> None:
    with pytest.raises(UnknownTier):
        plan_of("embed", tier=("", "routine"))


def test_the_tiers_that_are_built_in_have_no_model_and_two_of_them_are_heavy() -> None:
    """C128, C131."""
    assert tiers_from({}) == BUILT_IN
    assert all(name == tier.name for name, tier in BUILT_IN.items())
    assert {(tier.model, tier.memory, tier.window) for tier in BUILT_IN.values()} == {(None, 0, 0)}
    assert sorted(HEAVY_TIERS) == ["stretch", "synthesis"]
    assert [name for name, tier in BUILT_IN.items() if tier.pinned] == ["pinned"]


def test_the_heavy_tiers_are_said_in_one_place() -> None:
    """C131: read, never redefined."""
    places = []
    for room in ("supervisor", "worker", "landing", "ipc", "policies"):
        for file in (ROOT / room).rglob("*.py"):
            for node in ast.walk(ast.parse(file.read_text("utf-8"))):
                named = isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
                if named and node.id == "HEAVY_TIERS":
                    places.append(str(file.relative_to(ROOT)))
    assert places == ["policies/routing.py"]


def test_settings_change_a_tier_that_is_built_in_and_add_others() -> None:
    tiers = tiers_from(
        {
            "synthesis": {"model": "qwen3:8b", "memory": 6_000_000_000, "window": 32_768, "loader": "ollama"},
            "minilm": {"memory": 1_200_000_000, "heavy": True, "window": 512},
            "large": {"model": "big", "memory": 20 * 10**9, "evicts_pinned": True, "loader": "child"},
        }
    )
    assert tiers["synthesis"] == Tier("synthesis", "qwen3:8b", 6 * 10**9, 32_768, heavy=True, loader="ollama")
    assert tiers["minilm"] == Tier("minilm", None, 1_200_000_000, 512, heavy=True)
    assert tiers["large"] == Tier("large", "big", 20 * 10**9, evicts_pinned=True, loader="child")
    assert {name: tiers[name] for name in ("pinned", "stretch", "routine")}.items() <= BUILT_IN.items()
    assert routing.heavy_tiers(tiers.values()) == {"synthesis", "stretch", "minilm"}


BAD: list[tuple[dict[str, Any], str]] = [
    ({"modle": "a"}, "has no key 'modle'"),
    ({"name": "a"}, "has no key 'name'"),
    ({"memory": -1}, f"memory must be a whole number of bytes from 0 to {10**15}, not -1"),
    ({"memory": "6GB"}, f"memory must be a whole number of bytes from 0 to {10**15}, not '6GB'"),
    ({"memory": 10**15 + 1}, f"memory must be a whole number of bytes from 0 to {10**15}, not {10**15 + 1}"),
    ({"window": True}, f"window must be a whole number of tokens from 0 to {10**9}, not True"),
    ({"window": 1.5}, f"window must be a whole number of tokens from 0 to {10**9}, not 1.5"),
    ({"heavy": 1}, "heavy must be true or false, not 1"),
    ({"pinned": "yes"}, "pinned must be true or false, not 'yes'"),
    ({"evicts_pinned": None}, "evicts_pinned must be true or false, not None"),
    ({"model": ""}, "model must be a name of 1 to 256 printable characters, not ''"),
    ({"model": "a\nb"}, "model must be a name of 1 to 256 printable characters, not 'a\\nb'"),
    ({"model": 7}, "model must be a name of 1 to 256 printable characters, not 7"),
    ({"loader": "olama"}, "loader must be none, child or ollama, not 'olama'"),
    ({"loader": ["none"]}, "loader must be none, child or ollama, not ['none']"),
    ({"model": "a"}, "says nothing of the memory that a takes; add memory"),
    ({"loader": "ollama", "memory": 5}, "names no model for ollama to load; add model"),
    (
        {"pinned": True, "evicts_pinned": True},
        "is pinned and evicts_pinned at once; a model cannot run without itself",
    ),
]


@pytest.mark.parametrize(("section", "complaint"), BAD, ids=[str(section) for section, _ in BAD])
def test_what_is_wrong_in_a_section_is_said_in_one_line(section: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=r"^\[tiers\.x\] ") as caught:
        tiers_from({"x": section})
    assert str(caught.value) == f"[tiers.x] {complaint}"


def test_all_complaints_about_all_tiers_come_at_once() -> None:
    section: Any = 3
    with pytest.raises(ValueError, match=r"^\[tiers\.a\] ") as caught:
        tiers_from(
            {
                "a": {"heavy": 1, "window": -1},
                "b": section,
                "c\nd": {"heavy": True},
                "warm": {"model": "a", "memory": 1, "pinned": True},
                "pinned": {"model": "b", "memory": 1},
            }
        )
    assert str(caught.value).splitlines() == [
        "[tiers.a] heavy must be true or false, not 1",
        f"[tiers.a] window must be a whole number of tokens from 0 to {10**9}, not -1",
        "[tiers.b] must be a section, not 3",
        "[tiers] 'c\\nd' must be named by 1 to 64 letters, digits, dots, hyphens or underscores",
        "[tiers] only one model can be pinned, not those of pinned and warm",
    ]


def test_two_tiers_may_share_the_model_that_stays_loaded() -> None:
    """C135: one pinned model."""
    shared = {"model": "a", "memory": 1, "pinned": True}
    assert tiers_from({"pinned": shared, "warm": shared})["warm"].pinned
