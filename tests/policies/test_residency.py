"""Which models may be in memory together: one pinned, one at work, and never more than there is room for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from policies.residency import (
    Ceiling,
    Load,
    Model,
    Refused,
    Resident,
    Swaps,
    plan_load,
    recognised,
    swapped,
)

GB = 10**9
USUAL = Ceiling()
ROUTER = Model("router", 4 * GB, pinned=True)
SMALL = Model("small", 8 * GB, window=4096)
LARGE = Model("large", 20 * GB)
GIANT = Model("giant", 24 * GB, evicts_pinned=True)
KNOWN = (ROUTER, SMALL, LARGE, GIANT)


def in_memory(*models: Model) -> tuple[Resident, ...]:
    return recognised([Resident(one.name, None) for one in models], KNOWN)


def planned(
    wanted: Model | None,
    residents: tuple[Resident, ...] | None = (),
    *,
    consumers: int = 0,
    ceiling: Ceiling = USUAL,
    measured: bool = True,
    in_use: tuple[str, ...] = (),
) -> Load | Refused:
    there = residents if residents is None else (*residents, *chat(consumers))
    return plan_load(wanted, there, ceiling, measured=measured, in_use=in_use)


def chat(size: int) -> tuple[Resident, ...]:
    """Return what somebody else has loaded, nothing where that takes nothing."""
    return (Resident("chat", size, consumer=True),) if size else ()


def test_a_tier_without_a_model_needs_none_whatever_is_in_memory() -> None:
    assert planned(None, None, measured=False) == Load()
    assert planned(None, in_memory(ROUTER, LARGE)) == Load()


def test_a_worker_takes_the_slot_of_the_worker_before_it_and_leaves_the_pinned_one() -> None:
    """C135."""
    assert planned(SMALL, in_memory(ROUTER, LARGE)) == Load(("large",), loads=True)
    assert planned(SMALL, in_memory(ROUTER)) == Load((), loads=True)


def test_a_model_that_is_there_is_not_loaded_again() -> None:
    assert planned(SMALL, in_memory(ROUTER, SMALL)) == Load()
    assert planned(ROUTER, in_memory(ROUTER, SMALL)) == Load()


@pytest.mark.parametrize(("window", "loads"), [(None, False), (4095, True), (4096, False), (8192, False)])
def test_a_model_that_was_loaded_for_fewer_tokens_is_loaded_again(window: int | None, *, loads: bool) -> None:
    """C113."""
    assert planned(SMALL, (Resident("small", 8 * GB, window=window),)) == Load((), loads=loads)


def test_a_model_marked_so_runs_alone() -> None:
    """C135."""
    assert planned(GIANT, in_memory(ROUTER, SMALL)) == Load(("router", "small"), loads=True)
    assert planned(SMALL, in_memory(GIANT)) == Load(("giant",), loads=True)
    assert planned(ROUTER, in_memory(GIANT)) == Load(("giant",), loads=True)


def test_a_model_that_runs_alone_is_told_so_by_its_mark_not_by_its_size() -> None:
    """C135."""
    hermit = Model("hermit", GB, evicts_pinned=True)
    beside = recognised([Resident("hermit", None)], [hermit])
    assert planned(hermit, in_memory(ROUTER)) == Load(("router",), loads=True)
    assert planned(ROUTER, beside) == Load(("hermit",), loads=True)


def test_exactly_full_is_admitted_and_a_byte_more_is_not() -> None:
    """C136."""
    assert planned(LARGE, in_memory(ROUTER)) == Load((), loads=True)
    assert planned(LARGE, in_memory(ROUTER), consumers=1) == Refused(
        "ceiling: large beside router, chat (0 GB) would make it 24 of 24 GB; "
        "no setting names chat: goes on when it has left (ollama stop unloads it)"
    )


def test_there_are_never_more_models_than_the_ceiling_has() -> None:
    """C136."""
    one = Ceiling(most=1)
    assert planned(SMALL, in_memory(ROUTER), ceiling=one) == Refused(
        "ceiling: small beside router would make it 2 models of 1"
    )
    assert planned(SMALL, in_memory(LARGE), ceiling=one) == Load(("large",), loads=True)


def test_a_refusal_is_typed_and_says_whose_it_is() -> None:
    """C136, C137."""
    answer = planned(Model("huge", 25 * GB))
    assert isinstance(answer, Refused)
    assert answer.reason == "ceiling: huge would make it 25 of 24 GB"


def test_others_that_take_memory_are_charged_and_take_no_slot() -> None:
    """C139."""
    assert planned(SMALL, in_memory(ROUTER), consumers=12 * GB) == Load((), loads=True)
    assert isinstance(planned(SMALL, in_memory(ROUTER), consumers=12 * GB + 1), Refused)


def test_what_no_setting_names_is_never_evicted_and_a_refusal_says_who_it_is_and_what_ends_it() -> None:
    """C139: also by a model that runs alone, and by the pinned one; whoever is idle goes as ever."""
    others = (Resident("chat", 14 * GB, consumer=True), Resident("embed", 2 * GB, consumer=True))
    assert planned(SMALL, (*in_memory(LARGE), *others)) == Load(("large",), loads=True)
    assert planned(GIANT, (*in_memory(ROUTER), *others)) == Refused(
        "ceiling: giant beside chat (14 GB), embed (2 GB) would make it 40 of 24 GB; "
        "no setting names chat or embed: goes on when it has left (ollama stop unloads it)"
    )
    assert planned(ROUTER, (*in_memory(SMALL), *others)) == Load(("small",), loads=True)
    assert planned(ROUTER, (*in_memory(SMALL), *others), in_use=("small",)) == Refused(
        "ceiling: router beside small, chat (14 GB), embed (2 GB) would make it 28 of 24 GB; "
        "no setting names chat or embed: goes on when it has left (ollama stop unloads it)"
    )


def test_a_model_that_would_not_fit_anyhow_is_no_strangers_fault() -> None:
    """C139, U27."""
    assert planned(Model("huge", 25 * GB), consumers=GB) == Refused("ceiling: huge would make it 25 of 24 GB")


def test_what_somebody_else_has_loaded_under_the_same_name_is_not_ours() -> None:
    """C139: another server may hold the name of a model that our own children are to have."""
    assert planned(SMALL, (Resident("small", 9 * GB, consumer=True),)) == Load((), loads=True)
    assert isinstance(planned(SMALL, (Resident("small", None, consumer=True),)), Refused)


def test_a_resident_of_unknown_cost_refuses_every_model_but_the_pinned_one() -> None:
    """C139, U28."""
    stranger = Resident("stranger", None, consumer=True)
    for wanted in (SMALL, GIANT):
        assert planned(wanted, (stranger,)) == Refused(
            "ceiling: nobody can tell how much memory stranger takes; "
            "no setting names stranger: goes on when it has left (ollama stop unloads it)"
        )
    assert planned(ROUTER, (stranger,)) == Load((), loads=True)


def test_the_arithmetic_applies_to_the_pinned_model_as_well() -> None:
    """C139."""
    stranger = Resident("stranger", None, consumer=True)
    assert isinstance(planned(ROUTER, (stranger,), consumers=20 * GB + 1), Refused)


def test_nobody_ever_having_looked_is_not_an_empty_machine() -> None:
    """C139, U28, LESSONS 48."""
    assert planned(SMALL, None, measured=False) == Refused(
        "ceiling: nobody can tell what is in memory (unreconciled)"
    )
    assert planned(ROUTER, None, measured=False) == Load((), loads=True)


def test_old_knowledge_still_counts_and_a_refusal_by_it_says_so() -> None:
    """C139, U28."""
    assert planned(SMALL, in_memory(ROUTER), measured=False) == Load((), loads=True)
    answer = planned(LARGE, in_memory(ROUTER), consumers=1, measured=False)
    assert isinstance(answer, Refused)
    assert answer.reason.endswith(" (unreconciled)")


def test_a_model_of_which_nobody_says_how_large_it_is_is_not_loaded() -> None:
    """U28, LESSONS 46."""
    assert planned(Model("riddle", 0)) == Refused(
        "ceiling: nobody says how much memory riddle takes (set memory of its tier)"
    )


def test_what_a_running_job_works_with_is_not_evicted() -> None:
    """C129."""
    both = in_memory(ROUTER, SMALL)
    assert planned(LARGE, both, in_use=("small",)) == Refused(
        "ceiling: large needs the slot of small, which is in use"
    )
    assert planned(GIANT, both, in_use=("router",)) == Refused(
        "ceiling: giant runs alone, and router is in use"
    )
    assert planned(ROUTER, in_memory(GIANT), in_use=("giant",)) == Refused(
        "ceiling: giant runs alone, and is in use"
    )
    assert planned(SMALL, both, in_use=("small", "router")) == Load()


def test_the_pinned_model_lets_a_worker_stay_that_fits_and_evicts_one_that_does_not() -> None:
    """C135, LESSONS 46: a dead router is worse than a reload."""
    assert planned(ROUTER, in_memory(LARGE)) == Load((), loads=True)
    assert planned(ROUTER, in_memory(LARGE), consumers=1) == Load(("large",), loads=True)
    assert isinstance(planned(ROUTER, in_memory(LARGE), consumers=1, in_use=("large",)), Refused)


def test_there_is_one_pinned_model() -> None:
    """C135."""
    old = Resident("old router", GB, pinned=True)
    assert planned(ROUTER, (old,)) == Load(("old router",), loads=True)


def test_of_two_sizes_the_larger_is_believed_and_a_strangers_is_its_own() -> None:
    """C139."""
    found = recognised(
        [Resident("small", 9 * GB), Resident("router", GB), Resident("large", None), Resident("stranger", 5)],
        KNOWN,
    )
    assert found == (
        Resident("small", 9 * GB),
        Resident("router", 4 * GB, pinned=True),
        Resident("large", 20 * GB),
        Resident("stranger", 5, consumer=True),
    )


def test_a_resident_whose_size_nobody_says_is_not_free() -> None:
    """C139."""
    assert recognised([Resident("riddle", None)], [Model("riddle", 0)]) == (Resident("riddle", None),)


def test_a_swap_is_a_change_of_the_workers_load_key_only() -> None:
    """C138."""
    work = (ROUTER, SMALL, ROUTER, SMALL, LARGE, ROUTER, LARGE, SMALL)
    swaps, counts = Swaps(), []
    for model in work:
        swaps = swapped(swaps, model)
        counts.append(swaps.count)
    assert counts == [0, 0, 0, 0, 1, 1, 1, 2]


def test_another_window_of_the_same_model_is_another_load() -> None:
    """C138, C113."""
    wide = Model("small", 8 * GB, window=8192)
    assert swapped(swapped(Swaps(), SMALL), wide) == Swaps("small/8192", 1)


WORKERS = st.builds(
    Model,
    st.sampled_from(["a", "b", "c", "d"]),
    st.integers(1, 30 * GB),
    evicts_pinned=st.booleans(),
)
PINNED = st.builds(Model, st.just("pin"), st.integers(1, 30 * GB), pinned=st.just(True))
CEILINGS = st.builds(Ceiling, st.integers(0, 40 * GB), st.integers(1, 3))


@given(WORKERS, st.none() | PINNED, st.none() | WORKERS, CEILINGS, st.integers(0, 10 * GB))
def test_a_worker_is_refused_exactly_when_it_would_breach(
    wanted: Model, pinned: Model | None, before: Model | None, ceiling: Ceiling, consumers: int
) -> None:
    """C140."""
    there = [one for one in (pinned, before) if one is not None]
    residents = recognised([Resident(one.name, None) for one in there], there)
    declared = [one for one in there if one.name == wanted.name]
    size = max(wanted.memory, *(one.memory for one in declared), 0)
    stays = [] if wanted.evicts_pinned or pinned is None else [pinned]
    total = size + consumers + sum(one.memory for one in stays)
    breaches = total > ceiling.usable or 1 + len(stays) > ceiling.most
    answer = plan_load(wanted, (*residents, *chat(consumers)), ceiling, measured=True)
    assert isinstance(answer, Refused) == breaches


@given(PINNED, st.none() | WORKERS, CEILINGS, st.integers(0, 10 * GB))
def test_the_pinned_model_is_refused_exactly_when_it_would_breach_alone(
    wanted: Model, before: Model | None, ceiling: Ceiling, consumers: int
) -> None:
    """C140."""
    there = [] if before is None else [before]
    residents = recognised([Resident(one.name, None) for one in there], there)
    answer = plan_load(wanted, (*residents, *chat(consumers)), ceiling, measured=True)
    assert isinstance(answer, Refused) == (wanted.memory + consumers > ceiling.usable)


class Machine(RuleBasedStateMachine):
    """Any order of loads, holds and ends of jobs on one machine."""

    @initialize(
        sizes=st.lists(st.integers(1, 30 * GB), min_size=5, max_size=5),
        alone=st.lists(st.booleans(), min_size=4, max_size=4),
        ceiling=CEILINGS,
        consumers=st.integers(0, 10 * GB),
    )
    def begin(self, sizes: list[int], alone: list[bool], ceiling: Ceiling, consumers: int) -> None:
        names = ("a", "b", "c", "d")
        workers = [Model(*one[:2], evicts_pinned=one[2]) for one in zip(names, sizes, alone, strict=False)]
        self.models = [*workers, Model("pin", sizes[4], pinned=True)]
        self.ceiling, self.consumers = ceiling, consumers
        self.there: dict[str, Model] = {}
        self.busy: set[str] = set()

    @rule(index=st.integers(0, 4), holds=st.booleans())
    def want(self, index: int, *, holds: bool) -> None:
        wanted, before = self.models[index], dict(self.there)
        residents = recognised([Resident(name, None) for name in self.there], self.models)
        there = (*residents, *chat(self.consumers))
        plan = plan_load(wanted, there, self.ceiling, measured=True, in_use=frozenset(self.busy))
        if isinstance(plan, Refused):
            assert plan.reason.startswith("ceiling: ")
            return
        assert plan.loads == (wanted.name not in before)
        assert not self.busy & set(plan.evict)
        for name in plan.evict:
            del self.there[name]
        self.there[wanted.name] = wanted
        if holds:
            self.busy.add(wanted.name)

    @rule()
    def all_jobs_end(self) -> None:
        self.busy.clear()

    @invariant()
    def the_ceiling_holds(self) -> None:
        if there := list(getattr(self, "there", {}).values()):
            assert sum(one.memory for one in there) + self.consumers <= self.ceiling.usable
            assert len(there) <= self.ceiling.most

    @invariant()
    def one_worker_at_most_and_whoever_runs_alone_is_alone(self) -> None:
        there = list(getattr(self, "there", {}).values())
        assert sum(not one.pinned for one in there) <= 1
        assert len(there) == 1 or not any(one.evicts_pinned and not one.pinned for one in there)


def test_every_reachable_set_of_residents_is_within_the_ceiling() -> None:
    """C135, C136, C140."""
    run_state_machine_as_test(Machine)
