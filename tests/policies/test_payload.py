"""Payloads at the door."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ipc import messages
from policies.payload import (
    DEPTH_LIMIT,
    MARK_LIMIT,
    PAYLOAD_LIMIT,
    PayloadRefused,
    is_payload,
    payload_from,
    payload_text,
)

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner),
)


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def refusal(value: Any) -> str:
    with pytest.raises(PayloadRefused) as refused:
        payload_text(value)
    return str(refused.value)


def refusal_of_text(text: str) -> str:
    with pytest.raises(PayloadRefused) as refused:
        payload_from(text)
    return str(refused.value)


@given(JSON)
def test_strict_json_is_stored_as_given_and_read_back(value: Any) -> None:
    """U39: key order is kept."""
    text = payload_text(value)
    assert json.loads(text) == value == payload_from(text)
    assert text == json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    assert payload_text(payload_from(text)) == text


def test_tuples_are_stored_as_lists() -> None:
    assert payload_text(("a", (1, 2))) == '["a",[1,2]]'


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (float("nan"), "NaN at $ is not JSON"),
        ({"a": [0, float("nan")]}, "NaN at $.a[1] is not JSON"),
        ({"a": {"b c": float("-inf")}}, '-Infinity at $.a["b c"] is not JSON'),
        ({"a": "x\ud800y"}, "the text at $.a holds a lone surrogate (U+D800) at position 1"),
        ({"\udfff": 1}, "the text at $ holds a lone surrogate (U+DFFF) at position 0"),
        ([2**64], "the number at $[0] does not fit 64 bits"),
        ([-(2**63) - 1], "the number at $[0] does not fit 64 bits"),
        ({"a": b"x"}, "the value at $.a is of type bytes, which is not JSON"),
        ({"a": {1}}, "the value at $.a is of type set, which is not JSON"),
        ({1: 2}, "a key at $ is of type int; JSON keys are text"),
    ],
    ids=repr,
)
def test_what_is_not_strict_json_is_refused_with_its_place(value: Any, said: str) -> None:
    """K15."""
    assert refusal(value) == said


def test_the_first_fault_is_named() -> None:
    assert refusal([1, {"x": [float("inf")]}, b""]).startswith("Infinity at $[1].x[0]")


def test_a_place_is_one_line_whatever_the_keys_are() -> None:
    said = refusal({"two\nlines": {"long" * 100: {"é": float("nan")}}})
    assert "\n" not in said
    assert len(said) < 200
    assert said.endswith('"].é is not JSON')


def test_the_limit_is_in_bytes_of_the_stored_text() -> None:
    """K15."""
    assert len(payload_text("x" * (PAYLOAD_LIMIT - 2))) == PAYLOAD_LIMIT == 1 << 20
    assert "at most 1048576 are allowed" in refusal("x" * (PAYLOAD_LIMIT - 1))
    assert refusal("é" * (PAYLOAD_LIMIT // 2)).startswith(f"the payload is {PAYLOAD_LIMIT + 2} bytes")


def test_depth_is_bounded_before_python_is() -> None:
    assert json.loads(payload_text(nested(DEPTH_LIMIT))) == nested(DEPTH_LIMIT)
    assert refusal(nested(DEPTH_LIMIT + 1)).startswith("the payload is nested more than 100 deep")
    assert refusal_of_text("[" * 101 + "1" + "]" * 101).startswith("the payload is nested more than 100 deep")
    assert refusal_of_text("[" * 200_000) == "the payload is nested too deeply"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "the payload is not JSON: Expecting value at line 1, column 1"),
        ("{'a': 1}", "the payload is not JSON: Expecting property name"),
        ('{"a": 1,\n "b" 2}', "the payload is not JSON: Expecting ':' delimiter at line 2, column 6"),
        ("[1] 2", "the payload is not JSON: Extra data at line 1, column 5"),
        ('{"a": NaN}', "NaN at $.a is not JSON"),
        ("[-Infinity]", "-Infinity at $[0] is not JSON"),
        ("[1e999]", "Infinity at $[0] is not JSON"),
        (r'["\ud800"]', "the text at $[0] holds a lone surrogate (U+D800) at position 0"),
        ("9" * 5000, "a number in the payload does not fit 64 bits"),
        ("[99999999999999999999]", "the number at $[0] does not fit 64 bits"),
    ],
    ids=lambda text: text[:20],
)
def test_text_that_is_not_strict_json_is_refused_with_its_place(text: str, said: str) -> None:
    """K15."""
    assert refusal_of_text(text).startswith(said)


@given(st.text())
def test_no_text_breaks_the_door(text: str) -> None:
    try:
        value = payload_from(text)
    except PayloadRefused as refused:
        value = str(refused)
        assert "\n" not in value
    assert payload_from(payload_text(value)) == value


@pytest.mark.parametrize(
    "cell",
    [
        *("", "{bad", "NaN", "[Infinity]", b"{}", None, 5, "9" * 5000, "[" * 5000),
        *(
            "[" * 102 + "]" * 102,
            '"' + "x" * PAYLOAD_LIMIT + '"',
            '"' + "\u00e9" * (PAYLOAD_LIMIT // 2) + '"',
        ),
    ],
)
def test_a_stored_cell_that_is_no_payload_is_told(cell: object) -> None:
    """U32, K15."""
    assert not is_payload(cell)


@given(JSON)
def test_every_payload_that_was_stored_is_one(value: object) -> None:
    """K15."""
    assert is_payload(payload_text(value))


def test_the_mark_is_bounded_as_on_the_wire() -> None:
    """K15."""
    assert MARK_LIMIT == messages.MARK_LIMIT
