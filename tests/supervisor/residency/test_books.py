"""The books are compared with the world before each decision, and no loader ever holds up the loop."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from policies.residency import Ceiling, Model, Refused, Resident
from supervisor.loop import Loop
from supervisor.residency.books import Books
from supervisor.residency.errand import Answer, Failed, Ready
from supervisor.residency.loader import ChildLoader, Loader, NoLoader
from supervisor.residency.ollama import OllamaLoader
from supervisor.sensors import monotonic
from tests.supervisor.residency.model_server import GB, ModelServer, hangs, says

ROUTER = Model("router", 4 * GB, pinned=True)
SMALL = Model("small", 8 * GB, window=4096)
LARGE = Model("large", 20 * GB, window=4096)
MODELS = (ROUTER, SMALL, LARGE)
PATIENCE = 20.0


class Desk:
    """Books on a real loop; keeps the answers and how often something changed."""

    def __init__(self, models: list[tuple[Model, Loader]], **options: Any) -> None:
        self.loop = Loop(monotonic)
        self.changes = 0
        self.answers: list[Answer] = []
        self.books = Books(models, self.loop.post, monotonic, self._count, **options)

    def _count(self) -> None:
        self.changes += 1

    def until(self, fact: Callable[[], object]) -> None:
        due = monotonic() + PATIENCE
        while not fact():
            assert monotonic() < due, (self.answers, self.books.facts())
            self.loop.turn(monotonic() + 0.01)

    def ask(self, *models: Model | None) -> list[Answer]:
        """Ask for all of them at once, and return their answers."""
        before = len(self.answers)
        for model in models:
            self.books.ensure(model, self.answers.append)
        self.until(lambda: len(self.answers) == before + len(models))
        return self.answers[before:]

    def look(self) -> dict[str, Any]:
        """Have the books compared with the world, and return them."""
        self.until(lambda: not self.books._waiting)
        self.books.look()
        self.until(lambda: not self.books._waiting)
        return self.books.facts()

    def residents(self) -> list[str]:
        return [one["name"] for one in self.books.facts()["residents"]]


@contextmanager
def desk_for(*models: tuple[Model, Loader], **options: Any) -> Iterator[Desk]:
    desk = Desk(list(models), **options)
    try:
        yield desk
    finally:
        desk.books.close()
        desk.loop.close()


def on_server(server: ModelServer, *models: Model) -> list[tuple[Model, Loader]]:
    loader = OllamaLoader(server.url, [one.name for one in models or MODELS], look_seconds=60.0)
    return [(one, loader) for one in models or MODELS]


@pytest.fixture
def desk(server: ModelServer) -> Iterator[Desk]:
    with desk_for(*on_server(server)) as opened:
        yield opened


def loads(server: ModelServer) -> list[str]:
    """Return what was loaded (+) and unloaded (-), in order."""
    return [("-" if order["keep_alive"] == 0 else "+") + order["model"] for order in server.orders]


def test_the_books_are_measured_before_anybody_asks(server: ModelServer) -> None:
    """C139: what was loaded before a crash is still there after it."""
    server.hold("large")
    with desk_for(*on_server(server)) as desk:
        assert desk.books.facts()["residents"] is None
        assert desk.books.facts()["measured"] is False
        desk.until(lambda: desk.changes)
        assert desk.books.facts() == {
            "residents": [
                {"name": "large", "memory": 20 * GB, "pinned": False, "consumer": False, "jobs": 0}
            ],
            "measured": True,
            "error": None,
            "usable": 24 * GB,
            "consumers": 0,
            "swaps": 0,
            "load_s": None,
            "asked": [],
        }
    assert loads(server) == []


def test_a_model_is_loaded_once_and_how_long_it_took_is_told(desk: Desk, server: ModelServer) -> None:
    """C142."""
    first, second = desk.ask(SMALL), desk.ask(SMALL)
    assert loads(server) == ["+small"]
    assert isinstance(first[0], Ready)
    assert first[0].seconds > 0
    assert second == [Ready("small")]
    facts = desk.books.facts()
    assert facts["load_s"] == first[0].seconds
    assert facts["residents"] == [
        {"name": "small", "memory": 8 * GB, "pinned": False, "consumer": False, "jobs": 2}
    ]


def test_a_worker_evicts_the_one_before_it_and_the_swap_is_counted(desk: Desk, server: ModelServer) -> None:
    """C135, C138."""
    for model in (ROUTER, SMALL, LARGE, ROUTER):
        (answer,) = desk.ask(model)
        assert isinstance(answer, Ready), answer
        desk.books.release(model)
    assert loads(server) == ["+router", "+small", "-small", "+large"]
    assert desk.residents() == ["router", "large"]
    assert desk.books.facts()["swaps"] == 1
    assert desk.books.loaded == LARGE.key


def test_what_was_in_the_slot_before_the_start_counts_for_swaps(server: ModelServer) -> None:
    """C138, C144."""
    server.hold("small")
    with desk_for(*on_server(server)) as desk:
        desk.look()
        assert desk.books.loaded == SMALL.key
        desk.ask(LARGE)
        assert desk.books.facts()["swaps"] == 1


def test_a_refusal_comes_before_any_load_or_unload_and_changes_nothing(
    desk: Desk, server: ModelServer
) -> None:
    """C136, C137."""
    server.hold("small")
    server.hold("router", size=4 * GB + 1)
    (answer,) = desk.ask(LARGE)
    assert isinstance(answer, Refused)
    assert answer.reason.startswith("ceiling: large beside router")
    assert loads(server) == []
    assert desk.residents() == ["small", "router"]
    assert desk.books.facts()["swaps"] == 0


def test_the_ceiling_that_holds_is_that_of_the_question(desk: Desk) -> None:
    desk.books.ceiling = Ceiling(usable=7 * GB)
    assert isinstance(desk.ask(SMALL)[0], Refused)
    desk.books.ceiling = Ceiling(usable=8 * GB)
    assert isinstance(desk.ask(SMALL)[0], Ready)


def test_what_others_loaded_meanwhile_is_seen_before_each_check(desk: Desk, server: ModelServer) -> None:
    """C139, LESSONS 48."""
    desk.look()
    server.hold("router", size=5 * GB)
    (answer,) = desk.ask(LARGE)
    assert answer == Refused("ceiling: large beside router would make it 25 of 24 GB")


def test_a_resident_of_unknown_cost_defers_all_but_the_pinned_model(desk: Desk, server: ModelServer) -> None:
    """C139."""
    server.hold("stranger", size=None, size_vram=None)
    refused, ready = desk.ask(SMALL, ROUTER)
    assert refused == Refused(
        "ceiling: nobody can tell how much memory stranger:latest takes; "
        "no setting names stranger:latest: goes on when it has left (ollama stop unloads it)"
    )
    assert isinstance(ready, Ready)


def test_a_stranger_is_charged_and_never_unloaded_and_whoever_does_not_fit_beside_it_waits(
    desk: Desk, server: ModelServer
) -> None:
    """C139, C140: a consumer takes memory and no slot.

    A model that no setting names was once taken for the worker before, and unloaded to make room; but
    somebody is talking to it, and it is not ours to end.
    """
    server.hold("small")
    server.hold("stranger", size=16 * GB)
    assert desk.ask(LARGE) == [
        Refused(
            "ceiling: large beside stranger:latest (16 GB) would make it 36 of 24 GB; "
            "no setting names stranger:latest: goes on when it has left (ollama stop unloads it)"
        )
    ]
    assert desk.ask(SMALL) == [Ready("small")]
    assert loads(server) == []
    assert desk.books.facts()["consumers"] == 16 * GB
    assert [one["consumer"] for one in desk.books.facts()["residents"]] == [False, True]


def test_when_the_stranger_has_left_that_is_a_change_and_the_model_comes(
    desk: Desk, server: ModelServer
) -> None:
    """C139, U29."""
    server.hold("stranger", size=16 * GB)
    assert isinstance(desk.ask(LARGE)[0], Refused)
    changes = desk.changes
    server.resident.clear()
    assert desk.look()["consumers"] == 0
    assert desk.changes == changes + 1
    assert isinstance(desk.ask(LARGE)[0], Ready)
    assert loads(server) == ["+large"]


def test_what_shares_the_slot_with_a_model_that_is_there_goes_without_a_load(
    desk: Desk, server: ModelServer
) -> None:
    """C135: and a stranger beside both stays."""
    for name in ("small", "large"):
        server.hold(name, size=GB)
    server.hold("stranger", size=GB)
    assert desk.ask(SMALL) == [Ready("small", evicted=("large",))]
    assert loads(server) == ["-large"]
    assert desk.residents() == ["small", "stranger:latest"]


def test_a_name_that_our_children_have_is_a_strangers_where_the_server_holds_it(server: ModelServer) -> None:
    """C139: each loader is asked for its own models only."""
    children = ChildLoader(lambda name: None)
    server.resident["embedder"] = {"name": "embedder", "size": 9 * GB}
    with desk_for(*on_server(server, ROUTER, LARGE), (Model("embedder", 5 * GB), children)) as desk:
        (answer,) = desk.ask(Model("embedder", 5 * GB))
        assert isinstance(answer, Ready)
        assert children.residents() == (Resident("embedder", 5 * GB),)
        assert [one["consumer"] for one in desk.look()["residents"]] == [True, False]
        desk.books.release(Model("embedder", 5 * GB))
        assert isinstance(desk.ask(LARGE)[0], Refused)
    assert loads(server) == []


def test_a_failed_look_keeps_the_last_knowledge_and_marks_it(desk: Desk, server: ModelServer) -> None:
    """C139, U28."""
    server.hold("large")
    desk.look()
    changes = desk.changes
    server.misbehave["/api/ps"] = says(500, b"")
    facts = desk.look()
    assert (facts["measured"], desk.residents(), desk.changes) == (False, ["large"], changes + 1)
    assert facts["error"].endswith("answers 500")
    assert desk.ask(LARGE) == [Ready("large")]
    assert desk.ask(SMALL) == [
        Refused("ceiling: small needs the slot of large, which is in use (unreconciled)")
    ]
    del server.misbehave["/api/ps"]
    assert desk.look()["measured"] is True
    assert desk.changes == changes + 2


def test_a_look_that_finds_nothing_new_is_no_change(desk: Desk, server: ModelServer) -> None:
    desk.look()
    changes = desk.changes
    desk.look()
    assert desk.changes == changes
    server.hold("small")
    desk.look()
    assert desk.changes == changes + 1


def test_a_server_that_was_never_seen_is_no_empty_machine() -> None:
    """C139, U28, LESSONS 48."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    loader = OllamaLoader(f"http://127.0.0.1:{port}")
    with desk_for((ROUTER, loader), (SMALL, loader)) as desk:
        refused, failed = desk.ask(SMALL, ROUTER)
        assert refused == Refused("ceiling: nobody can tell what is in memory (unreconciled)")
        assert isinstance(failed, Failed)
        assert failed.reason.endswith("does not answer: Connection refused")
        assert desk.books.facts()["residents"] is None


def test_a_load_that_works_while_nobody_can_look_does_not_make_the_machine_known(
    server: ModelServer,
) -> None:
    """C139, LESSONS 48."""
    server.misbehave["/api/ps"] = says(500, b"")
    with desk_for(*on_server(server)) as blind:
        ready, refused = blind.ask(ROUTER, SMALL)
        assert isinstance(ready, Ready)
        assert isinstance(refused, Refused)
        assert blind.books.facts()["residents"] is None


def test_a_load_that_fails_says_why_and_the_books_stay_true(desk: Desk, server: ModelServer) -> None:
    server.hold("large")
    del server.installed["small"]
    (answer,) = desk.ask(SMALL)
    assert isinstance(answer, Failed)
    assert "answers 404: model 'small' not found" in answer.reason
    assert loads(server) == ["-large", "+small"]
    assert desk.residents() == []
    assert isinstance(desk.ask(LARGE)[0], Ready)


def test_a_model_that_a_job_works_with_is_not_evicted_until_it_is_released(
    desk: Desk, server: ModelServer
) -> None:
    """C129: also when both are asked for in one breath."""
    ready, refused = desk.ask(SMALL, LARGE)
    assert isinstance(ready, Ready)
    assert refused == Refused("ceiling: large needs the slot of small, which is in use")
    desk.ask(SMALL)
    desk.books.release(SMALL)
    assert isinstance(desk.ask(LARGE)[0], Refused)
    desk.books.release(SMALL)
    assert isinstance(desk.ask(LARGE)[0], Ready)
    assert loads(server) == ["+small", "-small", "+large"]


def test_a_tier_without_a_model_is_ready_though_the_server_hangs(server: ModelServer) -> None:
    server.misbehave["/api/ps"] = hangs
    with desk_for(*on_server(server)) as desk:
        assert desk.ask(None) == [Ready()]
        desk.books.release(None)


def test_an_answer_never_comes_before_the_question_has_returned(desk: Desk) -> None:
    desk.books.ensure(None, desk.answers.append)
    assert desk.answers == []
    desk.until(lambda: desk.answers)


def test_a_loader_that_hangs_is_given_up_and_asked_again_when_it_came_back(
    desk: Desk, server: ModelServer
) -> None:
    desk.look()
    server.misbehave["/api/generate"] = hangs
    desk.books.ensure(SMALL, desk.answers.append)
    desk.books.ensure(LARGE, desk.answers.append)
    desk.until(server.hanging.is_set)
    due = desk.books.next_due()
    assert due is not None
    desk.books.turn(due - 0.001)
    assert desk.answers == []
    desk.books.turn(due)
    overdue = Failed("the loader has not answered within 900 s")
    assert desk.answers == [overdue, overdue]
    assert desk.books.facts()["measured"] is False
    assert desk.ask(SMALL) == [overdue]
    desk.books.look()
    assert desk.books.next_due() is None
    del server.misbehave["/api/generate"]
    server.released.set()
    desk.until(lambda: desk.books.facts()["measured"])
    assert isinstance(desk.ask(SMALL)[0], Ready)
    assert loads(server) == ["+small"]
    assert server.paths.count("/api/ps") == 6, "what was given up in the queue is not begun"


def test_what_was_given_up_takes_no_further_step(desk: Desk, server: ModelServer) -> None:
    server.hold("small")
    desk.look()
    server.misbehave["/api/ps"] = hangs
    desk.books.ensure(LARGE, desk.answers.append)
    desk.until(server.hanging.is_set)
    due = desk.books.next_due()
    assert due is not None
    desk.books.turn(due)
    assert len(desk.answers) == 1
    del server.misbehave["/api/ps"]
    server.released.set()
    desk.until(lambda: desk.books.facts()["measured"])
    assert loads(server) == []
    assert desk.residents() == ["small"]


def test_what_comes_too_late_is_held_for_nobody() -> None:
    """C129."""
    slow = Slow()
    with desk_for((SMALL, slow), (LARGE, slow)) as desk:
        desk.books.ensure(SMALL, desk.answers.append)
        desk.until(slow.loading.is_set)
        desk.books.turn(desk.books.next_due() or 0.0)
        slow.go.set()
        desk.until(lambda: desk.books.facts()["measured"])
        assert desk.books.facts()["residents"] == [
            {"name": "small", "memory": 8 * GB, "pinned": False, "consumer": False, "jobs": 0}
        ]
        (answer,) = desk.ask(LARGE)
        assert isinstance(answer, Ready)
        assert answer.evicted == ("small",)


def test_closing_waits_for_no_loader(server: ModelServer) -> None:
    server.misbehave["/api/ps"] = hangs
    with desk_for(*on_server(server)) as desk:
        desk.books.ensure(SMALL, desk.answers.append)
        desk.until(server.hanging.is_set)
        desk.books.close()
        assert desk.books.next_due() is None
        assert not server.released.is_set()
    server.released.set()
    assert desk.answers == []


def test_a_mistake_in_a_loader_fails_its_question_and_no_other() -> None:
    broken = Broken()
    with desk_for((SMALL, broken), (LARGE, NoLoader())) as desk:
        assert desk.ask(SMALL) == [Failed("ZeroDivisionError: no such luck")]
        assert isinstance(desk.ask(LARGE)[0], Ready)


def test_a_look_that_raises_anything_is_a_failed_look() -> None:
    """C139."""
    broken = Broken()
    with desk_for((SMALL, broken)) as desk:
        assert desk.look()["measured"] is True
        broken.blind = True
        facts = desk.look()
        assert (facts["measured"], facts["error"]) == (False, "ValueError: no eyes")


def test_models_of_children_and_of_a_server_share_one_ceiling(server: ModelServer) -> None:
    """C136: and a child that is to go has gone before the other is loaded."""
    embedder = Model("embedder", 5 * GB)
    asked: list[str] = []
    children = ChildLoader(lambda name: desk.loop.post(let_go, name))

    def let_go(name: str) -> None:
        asked.append(name)
        children.gone(name)

    with desk_for(*on_server(server, ROUTER, LARGE), (embedder, children)) as desk:
        assert isinstance(desk.ask(embedder)[0], Ready)
        children.warm("embedder")
        assert [type(one) for one in desk.ask(ROUTER, LARGE)] == [Ready, Refused]
        desk.books.release(embedder)
        (answer,) = desk.ask(LARGE)
        assert isinstance(answer, Ready)
        assert answer.evicted == ("embedder",)
        assert asked == ["embedder"]
        assert sorted(desk.residents()) == ["large", "router"]


def test_without_models_there_is_no_thread() -> None:
    before = threading.active_count()
    with desk_for() as desk:
        assert threading.active_count() == before
        desk.books.look()
        assert desk.ask(None) == [Ready()]
        assert desk.books.next_due() is None


def test_one_model_with_two_loaders_is_refused() -> None:
    models: list[tuple[Model, Loader]] = [(SMALL, NoLoader()), (SMALL, NoLoader())]
    with pytest.raises(ValueError, match=r'^the model "small" has two loaders'):
        Books(models, lambda call, answer: None, monotonic)


class Slow:
    """Loads when it is let go on."""

    def __init__(self) -> None:
        self.loading = threading.Event()
        self.go = threading.Event()
        self.there: tuple[Resident, ...] = ()

    def residents(self) -> tuple[Resident, ...]:
        return self.there

    def load(self, model: Model) -> None:
        self.loading.set()
        self.go.wait(PATIENCE)
        self.there = (Resident(model.name, model.memory),)

    def unload(self, name: str) -> None:
        self.there = ()


class Broken:
    """Makes mistakes of its own."""

    blind = False

    def residents(self) -> tuple[Resident, ...]:
        if self.blind:
            raise ValueError("no eyes")
        return ()

    def load(self, model: Model) -> None:
        raise ZeroDivisionError("no such luck")

    def unload(self, name: str) -> None:
        raise ZeroDivisionError("no such luck")
