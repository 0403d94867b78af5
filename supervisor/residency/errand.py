"""The half of the books that talks to loaders, in a thread of its own: look, plan, unload, load, look.

A loader may hang for as long as it likes here. Each step is taken only while somebody still waits for it.
"""

import queue
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from landing.text import error_text
from policies.residency import Ceiling, Load, Model, Refused, Resident, plan_load, recognised
from supervisor.residency.loader import Loader, LoaderError


@dataclass(frozen=True, slots=True)
class Ready:
    """The model is there, held for the caller until it is released.

    Attributes:
        model: its name; None where none is needed.
        seconds: how long the load took; 0.0 where the model was there.
        evicted: what went for it.
    """

    model: str | None = None
    seconds: float = 0.0
    evicted: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Failed:
    """The loader could not do it; one line for a person."""

    reason: str


Answer = Ready | Refused | Failed
Done = Callable[[Answer], object]
Post = Callable[[Callable[[Any], object], Any], object]


@dataclass(frozen=True, slots=True)
class Known:
    """What is in memory, None where nobody has ever been able to tell; `error` where the last look failed."""

    residents: tuple[Resident, ...] | None = None
    error: str = ""


@dataclass(slots=True, eq=False)
class Errand:
    """One question on its way; without a model it only looks. `began`, monotonic, is set by the thread."""

    model: Model | None
    done: Done
    ceiling: Ceiling
    began: float | None = None
    given_up: threading.Event = field(default_factory=threading.Event)


Back = Callable[[tuple[Errand, Known, Answer]], object]


class Runner:
    """Runs errands one by one; `back((errand, known, answer))` is posted for each that began.

    Args:
        models: what the tiers need, each with who holds it.
        back: takes what comes back, on the loop.
        post: `post(call, answer)` has `call(answer)` run on the loop.
        monotonic: seconds.

    Raises:
        ValueError: two tiers give one model to two loaders.
    """

    def __init__(
        self,
        models: Iterable[tuple[Model, Loader]],
        back: Back,
        post: Post,
        monotonic: Callable[[], float],
    ) -> None:
        self.models, self._loaders = registered(models)
        self._back = back
        self._post = post
        self._monotonic = monotonic
        self._seen: dict[Loader, tuple[Resident, ...] | None] = dict.fromkeys(self._loaders.values())
        self._held: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._inbox: queue.SimpleQueue[Errand | None] = queue.SimpleQueue()
        if self.models:
            threading.Thread(target=self._serve, name="residency", daemon=True).start()

    def send(self, errand: Errand | None) -> None:
        """Queue an errand; None ends the thread. Any thread."""
        self._inbox.put(errand)

    def release(self, name: str) -> None:
        """A job that held this model has ended. Any thread."""
        with self._lock:
            self._held -= Counter([name])

    def held(self) -> dict[str, int]:
        """Return how many jobs hold which models. Any thread."""
        with self._lock:
            return dict(self._held)

    def _serve(self) -> None:
        while (errand := self._inbox.get()) is not None:
            if not errand.given_up.is_set():
                errand.began = self._monotonic()
                known, answer = self._run(errand)
                self._post(self._back, (errand, known, answer))

    def _run(self, errand: Errand) -> tuple[Known, Answer]:
        known = self._look()
        if errand.model is None:
            return known, Ready()
        plan = plan_load(
            errand.model,
            known.residents,
            errand.ceiling,
            measured=not known.error,
            in_use=self.held(),
        )
        if isinstance(plan, Refused):
            return known, plan
        if not plan.evict and not plan.loads:
            return known, self._hold(Ready(errand.model.name))
        try:
            answer: Answer = self._carry_out(errand, errand.model, plan)
        except LoaderError as error:
            answer = Failed(str(error))
        except Exception as error:  # noqa: BLE001 - a loader's mistake: the next question needs this thread
            answer = Failed(error_text(error))
        return self._look(), answer

    def _carry_out(self, errand: Errand, model: Model, plan: Load) -> Ready:
        for name in plan.evict:
            still_wanted(errand)
            holder = self._loaders[name]  # a consumer, which may have none, is never evicted
            holder.unload(name)
            self._seen[holder] = tuple(one for one in self._seen[holder] or () if one.name != name)
        if not plan.loads:
            return self._hold(Ready(model.name, evicted=plan.evict))
        still_wanted(errand)
        began = self._monotonic()
        loader = self._loaders[model.name]
        loader.load(model)
        seen = self._seen[loader]
        if seen is not None:  # or else one known resident would look like the only one
            rest = (one for one in seen if one.name != model.name)
            self._seen[loader] = (*rest, Resident(model.name, model.memory or None))
        return self._hold(Ready(model.name, self._monotonic() - began, plan.evict))

    def _hold(self, ready: Ready) -> Ready:
        """Hold the model before anybody is told: the next errand must not evict it in between."""
        with self._lock:
            self._held.update([ready.model or ""])
        return ready

    def _look(self) -> Known:
        """Measure; who does not answer is believed to hold what it held."""
        errors = []
        for loader in self._seen:
            try:
                self._seen[loader] = loader.residents()
            except LoaderError as error:
                errors.append(str(error))
            except Exception as error:  # noqa: BLE001 - as above
                errors.append(error_text(error))
        residents: list[Resident] = []
        for loader, seen in self._seen.items():
            if seen is None:
                return Known(None, "; ".join(errors))
            own = (one for one in self.models if self._loaders[one.name] is loader)
            residents.extend(recognised(seen, own))
        return Known(tuple(residents), "; ".join(errors))


def registered(models: Iterable[tuple[Model, Loader]]) -> tuple[tuple[Model, ...], dict[str, Loader]]:
    """Return the models, and who holds which name."""
    models = tuple(models)
    loaders: dict[str, Loader] = {}
    for model, loader in models:
        if loaders.setdefault(model.name, loader) is not loader:
            raise ValueError(f'the model "{model.name}" has two loaders; give its tiers the same one')
    return tuple(dict.fromkeys(model for model, _ in models)), loaders


def still_wanted(errand: Errand) -> None:
    """Stop before a step that nobody waits for any more."""
    if errand.given_up.is_set():
        raise LoaderError("it was given up")
