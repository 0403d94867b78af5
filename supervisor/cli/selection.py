"""Which jobs a command means, and carrying something out on all of them: ids, or whatever the filters match.

selection -> a few hundred ids at a time -> one transaction -> an answer line for each job
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from heapq import merge
from itertools import chain, islice
from typing import Any, Final, NamedTuple

from landing.errors import StoreError
from policies.job import State
from supervisor.cli.codes import FAILED
from supervisor.cli.output import complain, hint, print_line
from supervisor.client import Client
from supervisor.errors import Refused
from supervisor.told.units import count

TOGETHER: Final = 200
"""Jobs that share a transaction: some milliseconds, for which everybody else waits."""


class Answer(NamedTuple):
    """What became of one job: as JSON, and as a line for a person."""

    facts: dict[str, Any]
    line: str


@dataclass(frozen=True, slots=True)
class Selection:
    """Jobs by their ids, or else all that are in one of `states`, of `kind` and with `tag`.

    These come oldest first; with `by_state`, the jobs in the first of the states come before the others.
    """

    ids: tuple[int, ...]
    states: tuple[State, ...]
    kind: str | None
    tag: str | None
    by_state: bool = False

    def chunks(self, client: Client) -> Iterator[Sequence[int]]:
        """Yield ids, a chunk at a time, each once."""
        found = iter(dict.fromkeys(self.ids)) if self.ids else self.matching(client)
        while chunk := tuple(islice(found, TOGETHER)):
            yield chunk

    def matching(self, client: Client) -> Iterator[int]:
        """Yield the ids of all that match; jobs that come or go meanwhile disturb nothing."""
        each = [self.in_state(client, state) for state in self.states]
        return chain(*each) if self.by_state else merge(*each)

    def in_state(self, client: Client, state: State) -> Iterator[int]:
        """Yield ids, oldest first."""
        after = 0
        while ids := client.ids(state, kind=self.kind, tag=self.tag, after=after, limit=TOGETHER):
            yield from ids
            after = ids[-1]


def selected(
    default: Iterable[State], ids: Sequence[int], states: Iterable[str], kind: str | None, tag: str | None
) -> Selection:
    """Return which jobs are meant; without --state, those in one of the `default` states.

    Raises:
        Refused: neither ids nor a filter, or both.
    """
    wanted = tuple(State(state) for state in states)
    filtered = bool(wanted) or kind is not None or tag is not None
    if ids and filtered:
        raise Refused(
            ["ids and filters exclude each other; name jobs, or say which by --state, --kind, --tag"]
        )
    if not ids and not filtered:
        raise Refused(["which jobs? Name ids, or say which by --state, --kind, --tag"])
    return Selection(tuple(ids), wanted or tuple(default), kind, tag)


def carry_out(
    client: Client,
    selection: Selection,
    act: Callable[[Sequence[int]], Iterable[Answer | StoreError]],
    *,
    as_json: bool,
) -> int:
    """Act on every job and print what became of it; 1 says that some could not be."""
    done, refused = 0, False
    with printer(as_json=as_json) as show:
        try:
            for ids in selection.chunks(client):
                for answer in act(ids):
                    if isinstance(answer, StoreError):
                        complain(str(answer))
                        refused = True
                    else:
                        show(answer)
                        done += 1
        except StoreError:
            if done:
                hint(f"{count(done, 'job')} done before this; the same command goes on with the others")
            raise
    if not done and not refused:
        hint("no job matches")
    return FAILED if refused else 0


@contextmanager
def printer(*, as_json: bool) -> Iterator[Callable[[Answer], None]]:
    """Lend what prints answers as they come: lines, or the items of one JSON list, never held whole."""
    if not as_json:
        yield lambda answer: print_line(answer.line)
        return
    printed = 0

    def item(answer: Answer) -> None:
        nonlocal printed
        print(",\n " if printed else "[", json.dumps(answer.facts), sep="", end="")
        printed += 1

    try:
        yield item
    except BaseException:
        if printed:  # what was done stays readable
            print("]")
        raise
    print("]" if printed else "[]")
