"""Rows as landers see them, and questions that children ask (CONTRACTS K1; SPEC C127)."""

from typing import Any

import msgspec
import pytest
from msgspec import Raw

from ipc.messages import Batch, Read, ResumePoint, encoder
from landing.batches import RowsRefused
from landing.reader import Unanswered
from supervisor import api
from supervisor.attempt.questions import ANSWER_LIMIT, ARGUMENT_LIMIT, answer, encoded, question
from supervisor.attempt.rows import rows_of


class Point(msgspec.Struct):
    x: int
    label: str = ""


def batch_of(
    rows: list[tuple[Any, ...]], keys: list[str] | None = None, blobs: list[int] | None = None
) -> Batch:
    width = len(rows[0])
    return Batch(
        1, len(rows), width, blobs or [], keys, ResumePoint(), None, None, 0, Raw(encoder.encode(rows))
    )


def test_tuples_stay_tuples_and_go_straight_to_executemany() -> None:
    """K1."""
    rows = rows_of(batch_of([(1, b"x"), (2, None)], blobs=[1]), None)
    assert list(rows) == rows.tuples == [(1, b"x"), (2, None)]
    assert (len(rows), rows[1]) == (2, (2, None))


def test_dicts_come_back_as_dicts() -> None:
    """K1."""
    rows = rows_of(batch_of([(1, "a"), (2, "b")], keys=["n", "t"]), None)
    assert list(rows) == [{"n": 1, "t": "a"}, {"n": 2, "t": "b"}]
    assert rows.tuples == [(1, "a"), (2, "b")]


def test_structs_come_back_as_the_declared_type() -> None:
    """K1."""
    assert list(rows_of(batch_of([(1, "a")]), Point)) == [Point(1, "a")]


@pytest.mark.parametrize(
    ("batch", "rows_type"),
    [
        (batch_of([("no number", "a")]), Point),
        (batch_of([(1, "a", 3)]), Point),
        (batch_of([(1, "a")], keys=["only one"]), None),
        (msgspec.structs.replace(batch_of([(1,)]), count=2), None),
        (msgspec.structs.replace(batch_of([(1,)]), rows=Raw(encoder.encode([[[1]]]))), None),
    ],
)
def test_rows_that_are_not_what_was_declared_are_refused(batch: Batch, rows_type: type | None) -> None:
    """K3."""
    with pytest.raises(RowsRefused):
        rows_of(batch, rows_type)


def known(db: Any, root: str) -> list[str]:
    return [root]


READS = {"known": api.Read("known", known)}


def test_a_registered_read_is_found_with_its_arguments() -> None:
    """C127."""
    asked = question(Read(1, "known", Raw(encoder.encode({"root": "/"}))), READS)
    assert not isinstance(asked, str)
    fn, args, _ = asked
    assert fn(None, **args) == ["/"]


@pytest.mark.parametrize(
    ("verb", "args", "words"),
    [
        ("other", {}, "known"),
        ("known", {"root": "x" * ARGUMENT_LIMIT}, "bytes"),
        ("known", [1, 2], "do not decode"),
    ],
)
def test_any_other_question_is_refused_in_words(verb: str, args: Any, words: str) -> None:
    """C127, C151."""
    asked = question(Read(1, verb, Raw(encoder.encode(args))), READS)
    assert isinstance(asked, str)
    assert words in asked


def test_with_no_reads_at_all_the_refusal_says_so() -> None:
    """C127: a typed refusal, not empty rows."""
    assert "none" in str(question(Read(1, "known", Raw(b"\x80")), {}))


def test_an_answer_is_bounded_and_plain() -> None:
    """K8, K16."""
    assert isinstance(encoded([1, 2]), Raw)
    for bad in (object(), "x" * ANSWER_LIMIT, 2**70, {"\ud800"}):
        assert isinstance(encoded(bad), Unanswered)
    assert answer(7, Unanswered("why")).error == "why"
    assert answer(7, Raw(b"\x01")).error is None
