"""What is in memory, compared with the world before each decision (SPEC C139, LESSONS 48).

ensure --Errand--> the thread (errand.py) --> post --> settle on the loop --> done(Ready | Refused | Failed)

The loop never waits for a loader. One that hangs past the limit is given up: all that wait for it fail,
and nothing more is asked of it until it comes back.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final

from policies.residency import Ceiling, Model, Swaps, swapped
from supervisor.residency.errand import Answer, Done, Errand, Failed, Known, Post, Ready, Runner
from supervisor.residency.loader import Loader

LIMIT: Final = 900.0
"""Seconds for one question as a whole; the loaders' own limits are shorter."""


class Books:
    """Keeps the accounts of models in memory; see the module. Loop thread only.

    Attributes:
        ceiling: what there may be; a change holds for what is asked from then on.
    """

    def __init__(
        self,
        models: Iterable[tuple[Model, Loader]],
        post: Post,
        monotonic: Callable[[], float],
        changed: Callable[[], object] = lambda: None,
        limit: float = LIMIT,
    ) -> None:
        """Look for the first time, in the thread; without models there is none.

        Args:
            models: what the tiers need, each with who holds it.
            post: `post(call, answer)` has `call(answer)` run on the loop.
            monotonic: seconds.
            changed: called on the loop when what is in memory, or whether that is known, has changed.
            limit: seconds for one question.

        Raises:
            ValueError: two tiers give one model to two loaders.
        """
        self.ceiling = Ceiling()
        self._post = post
        self._changed = changed
        self._limit = limit
        self._known = Known(error="nobody has looked yet")
        self._swaps = Swaps()
        self._load_seconds: float | None = None
        self._waiting: list[Errand] = []
        self._hung: Errand | None = None
        self._runner = Runner(models, self._settle, post, monotonic)
        self.look()

    @property
    def loaded(self) -> str | None:
        """The load key that the workers' slot has, or had last: like jobs go first (SPEC C144)."""
        return self._swaps.key

    def ensure(self, model: Model | None, done: Done) -> None:
        """Have a model in memory; `done` gets the answer later, on the loop.

        `Ready`: nothing evicts it until `release`. `Refused`: defer the job, nothing was touched.
        `Failed`: the loader could not; the text says why.
        """
        if model is None:
            self._post(done, Ready())
        elif self._hung is not None:
            self._post(done, Failed(self._hangs()))
        else:
            self._send(model, done)

    def release(self, model: Model | None) -> None:
        """The work that a `Ready` was for has ended, or will not begin."""
        if model is not None:
            self._runner.release(model.name)

    def look(self) -> None:
        """Compare the books with the world; in vain where that is under way."""
        if self._runner.models and self._hung is None and all(one.model is not None for one in self._waiting):
            self._send(None, lambda _: None)

    def next_due(self) -> float | None:
        """Return when the loader that is being asked is given up (monotonic), None where none is."""
        began = self._waiting[0].began if self._waiting else None
        return None if began is None else began + self._limit

    def turn(self, now: float) -> None:
        """Give up a loader that is overdue."""
        due = self.next_due()
        if due is None or now < due:
            return
        self._hung = self._waiting[0]
        self._known = Known(self._known.residents, self._hangs())
        waiting, self._waiting = self._waiting, []
        for errand in waiting:
            errand.given_up.set()
            errand.done(Failed(self._hangs()))
        self._changed()

    def facts(self) -> dict[str, Any]:
        """Return what `status` shows: names, bytes, seconds. `measured` False: the books are unreconciled.

        `consumers` is what residents that no setting names are known to take.
        """
        held, residents = self._runner.held(), self._known.residents
        return {
            "residents": None
            if residents is None
            else [
                {
                    "name": one.name,
                    "memory": one.memory,
                    "pinned": one.pinned,
                    "consumer": one.consumer,
                    "jobs": 0 if one.consumer else held.get(one.name, 0),
                }
                for one in residents
            ],
            "measured": not self._known.error,
            "error": self._known.error or None,
            "usable": self.ceiling.usable,
            "consumers": sum(one.memory or 0 for one in residents or () if one.consumer),
            "swaps": self._swaps.count,
            "load_s": self._load_seconds,
            "asked": [one.model.name for one in self._waiting if one.model is not None],
        }

    def close(self) -> None:
        """Ask nothing more, answer nothing more; never wait for a loader."""
        for errand in self._waiting:
            errand.given_up.set()
        self._waiting.clear()
        self._runner.send(None)

    def _send(self, model: Model | None, done: Done) -> None:
        errand = Errand(model, done, self.ceiling)
        self._waiting.append(errand)
        self._runner.send(errand)

    def _hangs(self) -> str:
        return f"the loader has not answered within {self._limit:g} s"

    def _settle(self, outcome: tuple[Errand, Known, Answer]) -> None:
        errand, known, answer = outcome
        before, self._known = self._known, known
        if errand.model is None and self._swaps.key is None:
            self._swaps = Swaps(self._found(known))
        if errand.given_up.is_set():
            self._come_back(errand, answer)
        else:
            self._waiting.remove(errand)
            if isinstance(answer, Ready) and errand.model is not None:
                self._swaps = swapped(self._swaps, errand.model)
                self._load_seconds = answer.seconds or self._load_seconds
            errand.done(answer)
        if (before.residents, before.error == "") != (known.residents, known.error == ""):
            self._changed()

    def _come_back(self, errand: Errand, answer: Answer) -> None:
        """Ask again from now on; what came too late is held for nobody."""
        self._hung = None
        if isinstance(answer, Ready):
            self.release(errand.model)

    def _found(self, known: Known) -> str | None:
        """Return the key of a worker's model that was there before anything was asked."""
        names = {one.name for one in known.residents or () if not (one.pinned or one.consumer)}
        return next((one.key for one in self._runner.models if one.name in names), None)
