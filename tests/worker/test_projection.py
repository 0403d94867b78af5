"""What may be stored of any value (SPEC B51-B59, U21)."""

import json
import subprocess
import sys
from collections import OrderedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ipc.description import describe
from worker.projection import RESULT_LIMIT, project

scalars = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=20), st.binary(max_size=20)
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=70),
        st.tuples(inner, inner),
        st.dictionaries(st.one_of(st.text(max_size=5), st.integers()), inner, max_size=6),
        st.frozensets(scalars, max_size=5),
    ),
    max_leaves=40,
)
plain = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**4000), 2**4000),
        st.floats(allow_nan=False, allow_infinity=False),
        st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=5), st.dictionaries(st.text(max_size=5), inner, max_size=5)
    ),
    max_leaves=12,
)


def nested(depth):
    value = 1
    for _ in range(depth):
        value = [value]
    return value


def cycle():
    value = []
    value.append(value)
    return value


class Text(str):
    pass


@given(value=plain)
def test_plain_json_data_stays_as_it_is(value):
    """B53: canonical, sorted keys, ASCII."""
    text = project(value)
    if not text.startswith('{"digest":'):
        assert json.loads(text) == value
        assert text == json.dumps(value, sort_keys=True, separators=(",", ":"))
    else:
        assert len(json.dumps(value)) > RESULT_LIMIT


@given(value=values)
def test_any_value_becomes_bounded_ascii_json(value):
    """B54, B57."""
    text = project(value)
    assert len(text) <= RESULT_LIMIT
    assert text.isascii()
    json.loads(text)


@pytest.mark.parametrize(
    ("value", "reason", "summary"),
    [
        (2**4096, "oversized", "<positive int of 4097 bits>"),
        (-(2**5000), "oversized", "<negative int of 5001 bits>"),
        (float("nan"), "not_json", "<nan>"),
        ([1.5, float("-inf")], "not_json", "[1.5, <-inf>]"),
        (b"ab" * 500, "not_json", f"<bytes of 1000: {'6162' * 64}>"),
        ({1: "x"}, "not_json", '{1: "x"}'),
        ({"b": {3, 1, 2}, "a": Text("t")}, "not_json", '{"a": <Text>, "b": {1, 2, 3}}'),
        (OrderedDict(a=1), "not_json", "<OrderedDict>"),
        (nested(9), "oversized", "[[[[[[[[<list of 1>]]]]]]]]"),
        (cycle(), "not_json", "[<cycle>]"),
        ("lone \ud800", "not_json", '"lone \\ud800"'),
        (object, "not_json", "<type>"),
        ([0] * 65, "oversized", f"[{'0, ' * 64}<1 more>]"),
        (dict.fromkeys(map(str, range(65))), "oversized", "<dict of 65>"),
        ([["x"] * 60] * 60, "oversized", f"[{', '.join(['<list of 60>'] * 60)}]"),
        ("é" * 9000, "oversized", f'<text of 9000: "{"é" * 512}">'),
    ],
)
def test_what_does_not_fit_is_described(value, reason, summary):
    """B54, B59."""
    envelope = json.loads(project(value))
    assert (envelope["projection"], envelope["reason"]) == ("bounded", reason)
    assert envelope["type"] == type(value).__name__
    assert envelope["summary"] == summary or envelope["summary"] == summary[:1999] + "…"
    assert len(envelope["digest"]) == 64


def test_a_summary_is_cut_until_the_envelope_fits():
    """B54: also where each character takes twelve bytes of ASCII."""
    text = project(["\U0001f600" * 500] * 60)
    assert RESULT_LIMIT - 20 < len(text) <= RESULT_LIMIT
    assert json.loads(text)["summary"].endswith("…")


def test_nothing_of_the_value_runs():
    """B51: subclasses of built-in types are opaque, their hooks are not called."""

    def trap(*_):
        raise AssertionError("a hook ran")

    hooks = [
        "__repr__",
        "__str__",
        "__iter__",
        "__len__",
        "__eq__",
        "__hash__",
        "__getattribute__",
        "__bool__",
    ]
    for base in (dict, list, str, int, object):
        value = type("Trap", (base,), dict.fromkeys(hooks, trap))()
        assert json.loads(project([value]))["summary"] == "[<Trap>]"


def test_the_order_of_entries_does_not_show():
    """B55."""
    assert project({"a": 1, "b": {2}}) == project({"b": {2}, "a": 1})
    assert describe({f"k{n}" for n in range(60)}) == describe({f"k{n}" for n in reversed(range(60))})


SAYS = """
from worker.projection import project
print(project([{str(n) for n in range(50)}, {1: {b"x", "y"}}]))
"""


def test_every_process_says_the_same():
    """B55: hash randomization does not show."""
    said = set()
    for seed in ("1", "2", "3"):
        environment = {"PYTHONHASHSEED": seed}
        ended = subprocess.run([sys.executable, "-c", SAYS], env=environment, capture_output=True, check=True)
        said.add(ended.stdout)
    assert len(said) == 1
