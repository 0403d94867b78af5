"""Options at the door: right, or refused with everything that is wrong."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.job import ENDED
from policies.options import (
    FRAME_LIMIT,
    OPTION_NAMES,
    UNIT_ROWS,
    Options,
    complaint_about,
    options_from,
    retention,
)

DEFAULTS = {
    "batch_rows": 256,
    "batch_bytes": 1 << 20,
    "batch_deadline": 0.0,
    "start_deadline": 0.0,
    "job_deadline": 0.0,
    "grace": 5.0,
    "max_attempts": 3,
    "backoff": 5.0,
    "backoff_max": 3600.0,
    "retry_on": (),
    "retry_safe": True,
    "resume": "replay",
    "priority": 50,
    "env": (),
    "nice": 10,
    "keep_done": 0.0,
    "keep_failed": 0.0,
}
BAD: list[tuple[str, Any]] = [
    *[
        (name, bad)
        for name in ("batch_rows", "batch_bytes", "max_attempts")
        for bad in (0, -1, 1.5, "3", True, None)
    ],
    ("batch_rows", UNIT_ROWS + 1),
    ("batch_rows", 10**10),
    ("batch_bytes", FRAME_LIMIT + 1),
    *[
        (name, bad)
        for name in (
            *("batch_deadline", "start_deadline", "job_deadline", "grace", "backoff", "backoff_max"),
            *("keep_done", "keep_failed"),
        )
        for bad in (-0.1, float("nan"), float("inf"), 1e10, "5", True, None)
    ],
    *[("priority", bad) for bad in (1.0, "10", True, None, 10**10, -(10**10))],
    *[("nice", bad) for bad in (-21, 20, 1.0, "1", False)],
    *[("retry_safe", bad) for bad in (1, 0, "true", None)],
    *[("resume", bad) for bad in ("again", "", None, 1, [], {})],
    *[(name, bad) for name in ("retry_on", "env") for bad in ("A", [""], [1], None, 7, {"A": 1})],
]
GOOD: list[tuple[str, Any]] = [
    ("batch_rows", 1),
    ("batch_rows", UNIT_ROWS),
    ("batch_bytes", FRAME_LIMIT),
    ("max_attempts", 10**9),
    ("grace", 0),
    ("job_deadline", 0.25),
    ("priority", -5),
    ("nice", -20),
    ("nice", 19),
    ("retry_safe", False),
    ("resume", "restart"),
    ("resume", "checkpoint"),
    ("keep_done", 30 * 86_400),
    ("keep_failed", 0.5),
]


def test_the_defaults_are_the_pinned_ones() -> None:
    """K16."""
    options = options_from({})
    assert {name: getattr(options, name) for name in OPTION_NAMES} == DEFAULTS


@pytest.mark.parametrize(("name", "value"), BAD, ids=repr)
def test_a_bad_value_is_refused_in_one_line_that_names_the_option(name: str, value: Any) -> None:
    complaint = complaint_about(name, value)
    assert complaint is not None
    assert complaint.startswith(name)
    assert "\n" not in complaint
    with pytest.raises(ValueError, match=f"^{name}"):
        options_from({name: value})


@pytest.mark.parametrize(("name", "value"), GOOD, ids=repr)
def test_a_good_value_is_taken(name: str, value: Any) -> None:
    assert getattr(options_from({name: value}), name) == value


def test_a_batch_over_the_frame_is_refused() -> None:
    """K3."""
    with pytest.raises(ValueError, match="over the frame limit"):
        options_from({"batch_bytes": FRAME_LIMIT + 1})


def test_the_frame_limit_is_the_wires_own() -> None:
    """K3, K16."""
    from ipc import messages

    assert FRAME_LIMIT == messages.FRAME_LIMIT == 8 << 20
    assert UNIT_ROWS == messages.UNIT_ROWS == 1 << 18


def test_nothing_is_pruned_by_default() -> None:
    """U33."""
    assert retention(Options()) == {}


def test_what_is_kept_for_a_time_is_named_by_its_end_states() -> None:
    """U33: each end state is in exactly one of the two."""
    kept = retention(Options(keep_done=3, keep_failed=5.5))
    assert {frozenset(map(str, states)): seconds for states, seconds in kept.items()} == {
        frozenset({"done", "skipped", "cancelled"}): 3,
        frozenset({"failed", "failed_optional"}): 5.5,
    }
    assert sorted(state for states in kept for state in states) == sorted(ENDED)
    assert list(retention(Options(keep_failed=1)).values()) == [1]
    assert list(retention(Options(keep_done=1)).values()) == [1]


def test_all_complaints_come_at_once() -> None:
    with pytest.raises(ValueError, match="unknown option") as refused:
        options_from({"batch_rowz": 1, "grace": -1, "nice": 99, "priority": 5, "tyre": None})
    lines = str(refused.value).splitlines()
    assert [line.split(" must")[0] for line in lines] == [
        "unknown option 'batch_rowz'",
        "unknown option 'tyre'",
        "grace",
        "nice",
    ]


def test_values_lie_over_a_base_and_leave_it_alone() -> None:
    base = options_from({"grace": 9, "nice": 1})
    over = options_from({"nice": 2}, base)
    assert (over.grace, over.nice) == (9, 2)
    assert base.nice == 1


def test_lists_from_a_settings_file_become_tuples() -> None:
    options = options_from({"retry_on": ["OSError"], "env": ["TOKEN"]})
    assert (options.retry_on, options.env) == (("OSError",), ("TOKEN",))
    assert hash(options)


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)


@given(st.sampled_from(OPTION_NAMES), ANYTHING)
def test_whatever_comes_is_taken_or_refused_and_never_breaks_anything(name: str, value: Any) -> None:
    complaint = complaint_about(name, value)
    if complaint is None:
        assert isinstance(options_from({name: value}), Options)
    else:
        with pytest.raises(ValueError, match=rf"^{name} "):
            options_from({name: value})
