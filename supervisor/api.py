"""What an application declares: lanes, landers, handlers, reads, migrations, and who routes its jobs.

Imported by the supervisor and by every child, so this file imports no store and
no screen. An `App` is a plain list of declarations; nothing runs here.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypedDict, TypeVar, Unpack, overload

from policies.options import Options, options_from
from supervisor.checks import (
    HANDLER_OPTIONS,
    LANE_OPTIONS,
    check_kind,
    check_takes,
    checked_options,
)
from supervisor.halves import Context, Job, Landing, Rows

Row = TypeVar("Row")
In = TypeVar("In")
Router = TypeVar("Router", bound=Callable[[str, Any], object])


class LaneOptions(TypedDict, total=False):
    """Options of a lane; seconds and bytes. Meanings and defaults: `policies.options.Options`."""

    batch_rows: int
    batch_bytes: int
    batch_deadline: float
    start_deadline: float
    job_deadline: float
    grace: float
    memory_limit: int
    max_attempts: int
    backoff: float
    backoff_max: float
    retry_on: tuple[type[BaseException], ...]
    retry_safe: bool
    resume: str
    priority: int
    mode: str
    tier: str
    unique: str | None
    max_running: int
    exclusive_by: str
    gates: Sequence[str] | None
    on_gate: str
    env: Sequence[str]
    nice: int
    network: bool
    shield: bool
    process_limit: int
    cpu_limit: float
    open_files_limit: int
    file_size_limit: int
    jobs_per_child: int
    spawn: str
    keep_done: float
    keep_failed: float


@dataclass(slots=True)
class Lane(Generic[In, Row]):
    """A kind with a compute half (runs in the child) and a lander (runs in the landing transaction)."""

    kind: str
    compute: Callable[[Any, Any], Iterable[Row] | None]
    declared: Mapping[str, Any]
    rows: type | None = None
    payload: type | None = None
    land: Callable[[Any, Any, Any], None] | None = None
    forget: Callable[[Any, Any], None] | None = None

    @property
    def options(self) -> Options:
        """The limits as declared here, before any settings file."""
        return options_from(self.declared)

    def lander(
        self, fn: Callable[[Landing, Job[In], Rows[Row]], None], /
    ) -> Callable[[Landing, Job[In], Rows[Row]], None]:
        """Register `fn(db, job, rows)` as this lane's lander; it may run twice for a batch (CONTRACTS K1)."""
        if self.land is not None:
            raise ValueError(f"lane {self.kind!r} has a lander already")
        check_takes(fn, f"the lander of lane {self.kind!r}", ("db", "job", "rows"))
        self.land = fn
        return fn

    def discard(self, fn: Callable[[Landing, Job[In]], None], /) -> Callable[[Landing, Job[In]], None]:
        """Register `fn(db, job)`, which removes the rows that earlier attempts of this job have landed.

        It runs where an attempt starts over, in one transaction with what that attempt lands first
        (CONTRACTS K4), with the same `db` as the lander, and like the lander it may run twice.
        """
        if self.forget is not None:
            raise ValueError(f"lane {self.kind!r} has a discard already")
        check_takes(fn, f"the discard of lane {self.kind!r}", ("db", "job"))
        self.forget = fn
        return fn


@dataclass(frozen=True, slots=True)
class Handler:
    """A kind whose jobs run in the supervisor: short, trusted, without rows (CONTRACTS K11, K12)."""

    kind: str
    fn: Callable[[Any, Any], Any]
    declared: Mapping[str, Any]
    payload: type | None = None


@dataclass(frozen=True, slots=True)
class Read:
    """A registered read: `fn(db, **args)` runs in the supervisor, for at most a second."""

    name: str
    fn: Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Migration:
    """One numbered script over the application's own tables."""

    number: int
    sql: str


@dataclass(slots=True)
class App:
    """An application: what `supervisor run --app MODULE:ATTR` loads. `adviser` is its router, if any."""

    name: str
    lanes: dict[str, Lane[Any, Any]] = field(default_factory=dict)
    handlers: dict[str, Handler] = field(default_factory=dict)
    reads: dict[str, Read] = field(default_factory=dict)
    migrations: list[Migration] = field(default_factory=list)
    adviser: Callable[[str, Any], object] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.replace("_", "").replace("-", "").isalnum():
            raise ValueError(f"an app's name is letters, digits, - and _, not {self.name!r}")

    @overload
    def lane(
        self, kind: str, /, *, payload: type[In], rows: type | None = ..., **options: Unpack[LaneOptions]
    ) -> Callable[[Callable[[Job[In], Context], Iterable[Row] | None]], Lane[In, Row]]: ...
    @overload
    def lane(
        self, kind: str, /, *, rows: type | None = ..., **options: Unpack[LaneOptions]
    ) -> Callable[
        [Callable[[Job[dict[str, Any]], Context], Iterable[Row] | None]], Lane[dict[str, Any], Row]
    ]: ...
    def lane(
        self, kind: str, /, *, payload: type | None = None, rows: type | None = None, **options: Any
    ) -> Any:
        """Declare a lane: decorate its compute half `fn(job, ctx)`, which yields rows.

        Args:
            kind: the name jobs are enqueued under.
            payload: a type the payload is converted to (msgspec rules); None keeps plain JSON values.
            rows: a `msgspec.Struct` type when the half yields instances of it; None for tuples or dicts.
            options: see `LaneOptions`.

        Raises:
            ValueError: a bad name, a kind registered twice, a half that cannot be called, or bad
                options, all complaints at once.
        """
        check_kind(kind, "lane", self.name, (self.lanes, self.handlers))
        declared = checked_options(f"lane {kind!r}", options, LANE_OPTIONS)

        def declare(fn: Callable[[Any, Any], Iterable[Any] | None]) -> Lane[Any, Any]:
            check_takes(fn, f"the compute half of lane {kind!r}", ("job", "ctx"))
            lane: Lane[Any, Any] = Lane(kind, fn, declared, rows, payload)
            self.lanes[kind] = lane
            return lane

        return declare

    def handler(
        self, kind: str, /, *, payload: type | None = None, **options: Any
    ) -> Callable[[Callable[[Any, Context], Any]], Handler]:
        """Declare a handler: decorate `fn(job, ctx)`, short trusted work that runs in the supervisor.

        It lands no rows; what it returns is its job's result, and {"status": "skipped"} says that there
        was nothing to do. Like a lane it may raise Retry, Fail and Skip. Handlers run one at a time,
        beside the slots, and cannot be killed.

        Args:
            kind: the name jobs are enqueued under.
            payload: a type the payload is converted to (msgspec rules); None keeps plain JSON values.
            options: those of `LaneOptions` that need no rows and no process of their own.

        Raises:
            ValueError: as for a lane.
        """
        check_kind(kind, "handler", self.name, (self.lanes, self.handlers))
        declared = {"retry_safe": False, **checked_options(f"handler {kind!r}", options, HANDLER_OPTIONS)}

        def declare(fn: Callable[[Any, Context], Any]) -> Handler:
            check_takes(fn, f"handler {kind!r}", ("job", "ctx"))
            self.handlers[kind] = handler = Handler(kind, fn, declared, payload)
            return handler

        return declare

    def read(self, fn: Callable[..., Any], /) -> Read:
        """Register `fn(db, **args)` as a read that compute halves may ask for with `ctx.read`."""
        name = fn.__name__
        if name in self.reads:
            raise ValueError(f"read {name!r} is registered twice in app {self.name!r}")
        self.reads[name] = read = Read(name, fn)
        return read

    def router(self, fn: Router, /) -> Router:
        """Register `fn(kind, payload)`, which names the tier of a job, or None where it knows none.

        It is asked by whoever enqueues with the application loaded, before anything is written, and only
        about jobs whose tier neither they nor the kind nor the table of kinds says. If it raises, or
        names no tier that there is, the job goes where it would without a router, and the answer
        to the enqueue says so (`JobRef.warning`).

        Raises:
            ValueError: the application has a router already, or `fn` cannot be called so.
        """
        if self.adviser is not None:
            raise ValueError(f"app {self.name!r} has a router already")
        check_takes(fn, f"the router of app {self.name!r}", ("kind", "payload"))
        self.adviser = fn
        return fn

    def migration(self, number: int, sql: str, /) -> None:
        """Declare script `number` (1, 2, 3 ... without gaps); the supervisor runs each once, in order."""
        if number != len(self.migrations) + 1:
            raise ValueError(f"app {self.name!r}: migration {number} must be {len(self.migrations) + 1}")
        self.migrations.append(Migration(number, sql))
