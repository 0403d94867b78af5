"""Which models are in memory for one run: made so after a claim, before a child is given the job.

claimed --ensure--> Ready: placed | Refused, Failed: deferred, its tier blocked until something changes
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from landing.claim import Claimed, Revive
from landing.lander import Lander
from policies.residency import Model, Refused
from policies.routing import LoaderName
from supervisor.attempt.conversation import World
from supervisor.children.pool import Pool
from supervisor.children.worker import Stage
from supervisor.residency.books import Books
from supervisor.residency.errand import Failed, Post, Ready
from supervisor.residency.loader import ChildLoader, Loader, NoLoader
from supervisor.run.gatekeeper import Gatekeeper
from supervisor.settings.gates import Scheduling, model_of

LOOK_SECONDS: Final = 60.0
"""So often a refusal is looked at again at least: a server may drop a model by itself (SPEC U29)."""

CALM_SECONDS: Final = 2.0
"""Nobody who was refused tries again sooner: a server whose figures wobble must not make a storm."""


class Models:
    """Loop thread only."""

    def __init__(
        self,
        world: World,
        scheduling: Scheduling,
        pool: Pool,
        gates: Gatekeeper,
        lander: Lander,
        post: Post,
    ) -> None:
        self._world = world
        self._gates = gates
        self._lander = lander
        self._pool = pool
        self._tiers = {name: tier for name, tier in scheduling.tiers.items() if tier.model is not None}
        self._in_children = ChildLoader(lambda name: post(self._let_go, name))
        loaders: dict[LoaderName, Loader] = server(scheduling)
        loaders[LoaderName.NONE], loaders[LoaderName.CHILD] = NoLoader(), self._in_children
        self._books = Books(
            [(model_of(tier), loaders[LoaderName(tier.loader)]) for tier in self._tiers.values()],
            post,
            world.monotonic,
            self._changed,
        )
        self._books.ceiling = scheduling.ceiling
        self._holds: dict[int, Model] = {}
        self._refused_at = 0.0
        self._revive_at = float("inf")
        self._warm: dict[int, str] = {}
        for tier in self._tiers.values():
            if tier.pinned:
                self._books.ensure(model_of(tier), lambda _answer: None)

    @property
    def loaded(self) -> tuple[str, int] | None:
        """Return the load key of the model in the workers' slot: like jobs go first (SPEC C144)."""
        keys = {model_of(tier).key: (tier.name, tier.window) for tier in self._tiers.values()}
        return keys.get(self._books.loaded or "")

    def needs(self, claimed: Claimed) -> bool:
        """Tell whether a job has to wait for a model."""
        return claimed.tier in self._tiers

    def ensure(self, claimed: Claimed, then: Callable[[Claimed, str], None]) -> None:
        """Have the job's model in memory; `then(claimed, why not)` is called on the loop, "" where it is."""
        tier = self._tiers[claimed.tier]

        def answered(answer: Ready | Refused | Failed) -> None:
            if isinstance(answer, Ready):
                self._holds[claimed.attempt] = model_of(tier)
                then(claimed, "")
            else:
                error = self._books.facts()["error"]
                reason = (
                    f"{answer.reason}: {error}" if error and error not in answer.reason else answer.reason
                )
                self._gates.refused[tier.name] = reason
                self._refused_at = self._world.monotonic()
                then(claimed, reason)

        self._books.ensure(model_of(tier), answered)

    def turn(self, now: float, attempts: Iterable[int]) -> None:
        """Let the models of ended attempts go (`attempts` are all that live); look again after a refusal."""
        if not self._tiers:
            return
        self._books.turn(now)
        alive = set(attempts)
        for attempt in [one for one in self._holds if one not in alive]:
            self._books.release(self._holds.pop(attempt))
        self._note_children()
        if self._gates.refused and now >= self._refused_at + LOOK_SECONDS:
            self._refused_at = now
            self._books.look()
            self._changed()
        if now >= self._revive_at:
            self._revive_at = float("inf")
            self._gates.refused.clear()
            self._lander.submit(Revive(), lambda _reply: self._gates.listener())

    def next_due(self) -> float:
        """Return when `turn` has something to do, monotonic."""
        due = self._books.next_due()
        again = self._refused_at + LOOK_SECONDS if self._gates.refused else float("inf")
        return min(again, self._revive_at, float("inf") if due is None else due)

    def facts(self) -> Mapping[str, Any] | None:
        """Return how the books stand, None where no tier has a model."""
        return self._books.facts() if self._tiers else None

    def close(self) -> None:
        """Ask nothing more."""
        self._books.close()

    def _changed(self) -> None:
        """What is in memory has changed: who was refused may try again (SPEC U29)."""
        if self._gates.refused:
            self._revive_at = min(self._revive_at, self._refused_at + CALM_SECONDS)

    def _note_children(self) -> None:
        """Tell the loader of children which models are warm in one."""
        now = {id(worker): worker.profile.model for worker in self._pool if worker.is_warm}
        for key in now.keys() - self._warm.keys():
            self._in_children.warm(now[key])
        for key in self._warm.keys() - now.keys():
            self._in_children.gone(self._warm[key])
        self._warm = now

    def _let_go(self, model: str) -> None:
        for worker in self._pool:
            if worker.profile.model == model and worker.is_warm and worker.stage is Stage.READY:
                self._pool.dismiss(worker)


def server(scheduling: Scheduling) -> dict[LoaderName, Loader]:
    """Return the loader that all tiers of a model server share, nothing where there are none."""
    tiers = [tier for tier in scheduling.tiers.values() if tier.loader == LoaderName.OLLAMA]
    if not tiers:
        return {}
    from supervisor.residency.ollama import OllamaLoader  # noqa: PLC0415 - an HTTP client few need

    names = [tier.model for tier in tiers if tier.model is not None]
    return {LoaderName.OLLAMA: OllamaLoader(scheduling.ollama, names)}
