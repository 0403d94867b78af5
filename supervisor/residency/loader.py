"""Whoever keeps models in memory, behind one protocol: nobody, our own children, or a model server.

A loader is called in the thread of the books, never in the loop; each call ends within a limit of its own.
"""

import threading
from collections import Counter
from collections.abc import Callable
from typing import Final, Protocol

from policies.residency import Model, Resident

PATIENCE: Final = 30.0
"""Seconds in which the children of a model must have gone."""


class LoaderError(Exception):
    """A loader could not do or say it; the text is one line for a person."""


class Loader(Protocol):
    """What the books ask of whoever keeps models in memory. Every call may raise `LoaderError`."""

    def residents(self) -> tuple[Resident, ...]:
        """Return what is in memory now; whether it is pinned, the books know better."""

    def load(self, model: Model) -> None:
        """Bring a model into memory, for its window; return when it is there."""

    def unload(self, name: str) -> None:
        """Put a resident out of memory; return when it has gone."""


class NoLoader:
    """Nothing is resident, and a load is free: the model is a word that keeps like jobs together."""

    def residents(self) -> tuple[Resident, ...]:
        return ()

    def load(self, model: Model) -> None:
        """Nothing to do."""

    def unload(self, name: str) -> None:
        """Nothing to do."""


class ChildLoader:
    """The models live in warm children (`ctx.use`): resident as long as children of the tier live.

    A load is a promise to give such a child a job, and counts from then on; one that was started ahead
    of need holds nothing yet. The loop tells what becomes of the children; each holds a copy of its own.

    Args:
        let_go: called with a model's name, in the thread of the books: its children are to end.
        patience: seconds that `unload` gives them.
    """

    def __init__(self, let_go: Callable[[str], object], patience: float = PATIENCE) -> None:
        self._let_go = let_go
        self._patience = patience
        self._changed = threading.Condition()
        self._promised: dict[str, Model] = {}
        self._sizes: dict[str, int] = {}
        self._copies: Counter[str] = Counter()

    def warm(self, name: str) -> None:
        """A child has been given a job that uses this model. Any thread."""
        with self._changed:
            self._copies[name] += 1

    def gone(self, name: str) -> None:
        """Such a child has ended. Any thread."""
        with self._changed:
            self._copies[name] = max(0, self._copies[name] - 1)
            if not self._copies[name]:
                del self._copies[name]
                self._promised.pop(name, None)
            self._changed.notify_all()

    def residents(self) -> tuple[Resident, ...]:
        with self._changed:
            return tuple(self._resident(name) for name in dict.fromkeys([*self._promised, *self._copies]))

    def load(self, model: Model) -> None:
        with self._changed:
            self._promised[model.name] = model
            self._sizes[model.name] = model.memory

    def unload(self, name: str) -> None:
        with self._changed:
            self._promised.pop(name, None)
            if not self._copies[name]:
                return
        self._let_go(name)
        with self._changed:
            if not self._changed.wait_for(lambda: not self._copies[name], self._patience):
                raise LoaderError(f'children that hold "{name}" still run after {self._patience:g} s')

    def _resident(self, name: str) -> Resident:
        memory = self._sizes.get(name, 0) * max(1, self._copies[name])
        return Resident(name, memory or None)
