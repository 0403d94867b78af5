"""What an application declares: lanes, landers, handlers, reads, migrations.

Imported by the supervisor and by every child, so this file imports no store and
no screen. An `App` is a plain list of declarations; nothing runs here.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypedDict, TypeVar, Unpack, overload

from policies.options import Options, options_from
from supervisor.checks import (
    HANDLER_OPTIONS,
    LANE_OPTIONS,
    check_kind,
    check_takes,
    checked_options,
)

Row = TypeVar("Row")
Row_co = TypeVar("Row_co", covariant=True)
In = TypeVar("In")
In_co = TypeVar("In_co", covariant=True)
Kept = TypeVar("Kept")


class Job(Protocol[In_co]):
    """The job as both halves of a lane see it."""

    @property
    def id(self) -> int: ...
    @property
    def kind(self) -> str: ...
    @property
    def payload(self) -> In_co: ...
    @property
    def key(self) -> str | None: ...
    @property
    def attempt(self) -> int:
        """The number of this attempt, from 1."""


class Log(Protocol):
    """`ctx.log`: one line into the job's log tail."""

    def __call__(self, message: str, /) -> None: ...


class Context(Protocol):
    """What a compute half may ask for. It belongs to one thread (CONTRACTS K13)."""

    @property
    def resume(self) -> str | None:
        """The last mark that landed, or None (always None in a `restart` lane)."""

    @property
    def log(self) -> Log: ...

    def use(self, load: Callable[[], Kept]) -> Kept:
        """Return what `load()`, a function of a module, made when this child first asked for it."""

    def checkpoint(self, mark: str) -> None:
        """Say that everything yielded so far is complete up to `mark` (at most 16 KiB of text)."""

    def read(self, query: "Read", /, **args: Any) -> Any:
        """Run a registered read in the supervisor and return its answer; it sees landed rows only."""

    def progress(self, done: int, total: int | None = None) -> None:
        """Say how far the work is; shown to people, moves no clock."""

    def spend(self, micros: int) -> None:
        """Add to what this attempt has cost, in millionths of the currency."""


class Rows(Protocol[Row_co]):
    """The rows of one batch, as a sequence of what the compute half yielded."""

    tuples: list[tuple[Any, ...]]

    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[Row_co]: ...
    def __getitem__(self, index: int, /) -> Row_co: ...


class Landing(Protocol):
    """The facade a lander writes through: inside the landing transaction, unable to commit it."""

    def execute(self, sql: str, args: Sequence[Any] | Mapping[str, Any] = (), /) -> int:
        """Run one statement and return how many rows it changed."""

    def executemany(self, sql: str, rows: Iterable[Any], /) -> int:
        """Run one statement for each row and return how many rows were changed."""

    def query(self, sql: str, args: Sequence[Any] | Mapping[str, Any] = (), /) -> list[tuple[Any, ...]]:
        """Return all rows of a SELECT."""

    def enqueue(self, kind: str, payload: Any = None, /) -> int:
        """Enqueue a job in this transaction and return its id."""


class Queries(Protocol):
    """What a read gets: a snapshot it cannot write to."""

    def query(self, sql: str, args: Sequence[Any] | Mapping[str, Any] = (), /) -> list[tuple[Any, ...]]: ...


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
    """An application: what `supervisor run --app MODULE:ATTR` loads."""

    name: str
    lanes: dict[str, Lane[Any, Any]] = field(default_factory=dict)
    handlers: dict[str, Handler] = field(default_factory=dict)
    reads: dict[str, Read] = field(default_factory=dict)
    migrations: list[Migration] = field(default_factory=list)

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

    def migration(self, number: int, sql: str, /) -> None:
        """Declare script `number` (1, 2, 3 ... without gaps); the supervisor runs each once, in order."""
        if number != len(self.migrations) + 1:
            raise ValueError(f"app {self.name!r}: migration {number} must be {len(self.migrations) + 1}")
        self.migrations.append(Migration(number, sql))
