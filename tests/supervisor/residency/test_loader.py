"""Models that live in warm children are resident as long as such children are."""

import threading

import pytest

from policies.residency import Model, Resident
from supervisor.residency.loader import ChildLoader, LoaderError, NoLoader

EMBEDDER = Model("embedder", 1000)


def test_without_a_loader_nothing_is_resident_and_every_load_is_free() -> None:
    loader = NoLoader()
    loader.load(EMBEDDER)
    assert loader.residents() == ()
    loader.unload("embedder")


def test_a_model_counts_from_the_promise_until_its_child_has_gone() -> None:
    """C139."""
    loader = ChildLoader(lambda name: None)
    loader.load(EMBEDDER)
    assert loader.residents() == (Resident("embedder", 1000),)
    loader.warm("embedder")
    assert loader.residents() == (Resident("embedder", 1000),)
    loader.gone("embedder")
    assert loader.residents() == ()


def test_each_child_holds_a_copy_of_its_own() -> None:
    """C139."""
    loader = ChildLoader(lambda name: None)
    loader.load(EMBEDDER)
    for _ in range(3):
        loader.warm("embedder")
    assert loader.residents() == (Resident("embedder", 3000),)
    loader.gone("embedder")
    assert loader.residents() == (Resident("embedder", 2000),)


def test_a_promise_is_taken_back_when_no_child_could_be_started() -> None:
    loader = ChildLoader(lambda name: None)
    loader.load(EMBEDDER)
    loader.gone("embedder")
    assert loader.residents() == ()
    loader.load(EMBEDDER)
    loader.warm("embedder")
    assert loader.residents() == (Resident("embedder", 1000),)


def test_a_child_that_nobody_promised_is_resident_at_unknown_cost() -> None:
    """C139."""
    loader = ChildLoader(lambda name: None)
    loader.warm("embedder")
    assert loader.residents() == (Resident("embedder", None),)


def test_an_unload_asks_the_children_to_go_and_returns_when_they_have() -> None:
    """C135."""
    asked = threading.Event()
    loader = ChildLoader(lambda name: asked.set())
    loader.load(EMBEDDER)
    loader.warm("embedder")
    loader.warm("embedder")
    unload = threading.Thread(target=loader.unload, args=("embedder",))
    unload.start()
    assert asked.wait(20)
    loader.gone("embedder")
    unload.join(0.1)
    assert unload.is_alive()
    assert loader.residents() == (Resident("embedder", EMBEDDER.memory),)
    loader.gone("embedder")
    unload.join(20)
    assert not unload.is_alive()
    assert loader.residents() == ()


def test_a_promise_that_no_child_keeps_yet_is_unloaded_without_asking_anybody() -> None:
    asked: list[str] = []
    loader = ChildLoader(asked.append)
    loader.load(EMBEDDER)
    loader.unload("embedder")
    assert loader.residents() == ()
    assert asked == []


def test_children_that_do_not_go_are_an_error_and_stay_resident() -> None:
    loader = ChildLoader(lambda name: None, patience=0.05)
    loader.warm("embedder")
    with pytest.raises(LoaderError, match=r'^children that hold "embedder" still run after 0\.05 s$'):
        loader.unload("embedder")
    assert [one.name for one in loader.residents()] == ["embedder"]
