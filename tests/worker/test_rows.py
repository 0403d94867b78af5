"""What a row may be (CONTRACTS K3)."""

import datetime
import enum
from typing import NamedTuple

import msgspec
import pytest

from ipc.messages import Batch, Done, Failed
from worker.batches.cutter import ROWS_LIMIT


class Pair(NamedTuple):
    a: int
    b: str


class Note(msgspec.Struct):
    path: str
    n: int
    text: bytes | None = None


class Other(msgspec.Struct):
    path: str


class Level(enum.IntEnum):
    HIGH = 1


class Text(str):
    pass


def yielding(*rows):
    return lambda job, ctx: iter(rows)


def test_every_kind_of_cell_crosses_exactly(bench, rows):
    row = (
        None,
        True,
        False,
        0,
        -(2**63),
        2**63 - 1,
        1.5,
        -0.0,
        float("inf"),
        "",
        "é\0\U0001f600",
        b"",
        b"\0\xff",
    )
    said = bench.make(yielding(row, list(row)))
    assert rows(said) == [row, row]
    assert [[*map(type, one)] for one in rows(said)] == [[*map(type, row)]] * 2


def test_named_tuples_are_tuples(bench, rows):
    said = bench.make(yielding(Pair(1, "x"), (2, "y"), [3, "z"], Pair(4, "w")))
    assert rows(said) == [(1, "x"), (2, "y"), (3, "z"), (4, "w")]
    assert all(one.keys is None for one in said if isinstance(one, Batch))


def test_dicts_travel_as_their_values_in_the_order_of_the_first(bench, rows):
    """K3: keys are named once a batch."""
    said = bench.make(yielding({"b": 1, "a": "x"}, {"a": "y", "b": 2}, {"b": None, "a": None}))
    assert rows(said) == [(1, "x"), (2, "y"), (None, None)]
    assert {tuple(one.keys) for one in said if isinstance(one, Batch)} == {("b", "a")}
    assert rows(bench.make(yielding({"only": 1}, {"only": 2}))) == [(1,), (2,)]


def test_structs_travel_in_the_order_of_their_fields(bench, rows):
    said = bench.make(yielding(Note("p", 1), Note("q", 2, b"t")), rows=Note)
    assert rows(said) == [("p", 1, None), ("q", 2, b"t")]
    assert all(one.keys is None for one in said if isinstance(one, Batch))


@pytest.mark.parametrize(
    ("cell", "label"),
    [
        (datetime.date(2020, 1, 1), "date"),
        (Level.HIGH, "Level"),
        (Text("x"), "Text"),
        ([1], "list"),
        ({"a": 1}, "dict"),
        (bytearray(b"x"), "bytearray"),
        (1j, "complex"),
        (object(), "object"),
        (Note("p", 1), "Note"),
    ],
)
def test_any_other_cell_fails_the_attempt_by_row_and_cell(bench, rows, cell, label):
    """K3: exact types only; the rows before it have left."""
    said = bench.make(yielding((1, 2), (3, 4), (5, cell), (6, 7)))
    assert rows(said) == [(1, 2), (3, 4)]
    failed = said[-1]
    assert isinstance(failed, Failed)
    assert (failed.code, failed.disposition, failed.last_seq) == ("row_type", "unstated", 2)
    assert failed.message.startswith(f"row 3: cell 2 is of type {label};")
    named = bench.make(yielding({"id": 1, "when": cell}))[-1]
    assert named.message.startswith(f"row 1: cell 'when' is of type {label};")


@pytest.mark.parametrize("number", [2**63, 2**64 - 1, 2**64, -(2**63) - 1, 10**40])
def test_an_int_outside_of_64_bits_fails_the_attempt(bench, rows, number):
    """K3: also those that the codec would take."""
    said = bench.make(yielding((1, "x"), (number, "y")))
    assert rows(said) == [(1, "x")]
    assert said[-1].code == "row_type"
    assert "row 2: an int is outside of 64 bits" in said[-1].message


def test_bytes_that_look_like_a_large_int_are_fine(bench, rows):
    stream = [(n, "Ϗ" * 3, 0.1 * n, b"\xcf\xff" * 4) for n in range(2**40, 2**40 + 600)]
    assert rows(bench.make(yielding(*stream))) == stream


def test_a_lone_surrogate_is_no_text(bench, rows):
    said = bench.make(yielding(("fine",), ("lone \ud800",)))
    assert rows(said) == [("fine",)]
    assert (said[-1].code, said[-1].message) == (
        "row_type",
        "row 2: a cell has a lone surrogate, which is no text",
    )


@pytest.mark.parametrize(
    ("stream", "code", "message"),
    [
        ([5], "row_type", "row 1: it is of type int; rows are tuples"),
        (["text"], "row_type", "row 1: it is of type str;"),
        ([None], "row_type", "row 1: it is of type NoneType;"),
        ([Other("p")], "row_type", "row 1: it is of type Other;"),
        ([{1, 2}], "row_type", "row 1: it is of type set;"),
        ([()], "row_type", "row 1: it has 0 cells"),
        ([tuple(range(2001))], "row_type", "row 1: it has 2001 cells, 1 to 2000 are allowed"),
        ([{}], "row_keys", "row 1: the keys of a dict row are text"),
        ([{1: 2}], "row_keys", "row 1: the keys of a dict row are text"),
        ([{"\ud800": 2}], "row_keys", "row 1: a key has a lone surrogate"),
        ([{"k" * (65 << 10): 2}], "row_keys", "row 1: the keys take"),
        ([{"a": 1}, {"b": 1}], "row_keys", "row 2: its keys are not those of the first row: a"),
        ([{"a": 1}, {"a": 1, "b": 1}], "row_keys", "row 2: its keys"),
        ([{"a": 1, "b": 1}, {"a": 1}], "row_keys", "row 2: its keys"),
        ([{"a": 1}, (1,)], "row_type", "row 2: it is of type tuple; the rows before it are dicts"),
        ([(1,), {"a": 1}], "row_type", "row 2: it is of type dict; the rows before it are tuples or lists"),
    ],
)
def test_what_is_no_row_fails_the_attempt_and_says_which(bench, rows, stream, code, message):
    said = bench.make(yielding(*stream))
    assert len(rows(said)) == len(stream) - 1
    assert said[-1].code == code
    assert said[-1].message.startswith(message)


def test_a_lane_that_declares_its_rows_takes_no_others(bench):
    for row in (("p", 1), {"path": "p"}, Other("p")):
        failed = bench.make(yielding(row), rows=Note)[-1]
        assert failed.code == "row_type"
        assert failed.message.endswith("the lane declares rows=Note")


def test_a_row_over_the_frame_is_refused_with_its_number(bench, rows):
    """K3: row_too_large, terminal; the largest row that fits travels alone."""
    said = bench.make(yielding(("x",), ("y" * ROWS_LIMIT,)))
    assert rows(said) == [("x",)]
    assert said[-1].code == "row_too_large"
    assert said[-1].message.startswith("row 2: it takes 8257542 bytes")


def test_the_largest_row_travels_alone(spawn):
    worker = spawn(f"""
        @app.lane("large")
        def large(job, ctx):
            yield b"",
            yield b"y" * {ROWS_LIMIT - 10},
            yield b"",
    """)
    said = worker.job("large")
    assert isinstance(said[-1], Done)
    assert max(len(memoryview(one.rows)) for one in said if isinstance(one, Batch)) > ROWS_LIMIT - 20


def test_a_refusal_names_the_line_that_yielded(bench):
    def inner():
        yield (1,)
        yield (object(),)  # here

    def half(job, ctx):
        yield from inner()

    failed = bench.make(half)[-1]
    assert "# here" in failed.traceback
    assert ".inner\n" in failed.traceback
