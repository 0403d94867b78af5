"""What the halves of a lane are handed: the job, a context in the child, rows and a facade while landing.

Imported by every child with the application, so this file imports no store and no screen.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from supervisor.api import Read

Row_co = TypeVar("Row_co", covariant=True)
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
