"""Options at the door: right, or refused with everything that is wrong."""

import json
import resource
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.job import ENDED
from policies.options import (
    DURATIONS,
    FRAME_LIMIT,
    LARGEST_SIZE,
    LEAST_FILE_SIZE,
    LEAST_MEMORY,
    LEAST_OPEN_FILES,
    OPTION_NAMES,
    SIZES,
    UNIT_ROWS,
    Options,
    complaint_about,
    options_from,
    readable_options,
    retention,
)

ROOT = Path(__file__).resolve().parents[2]
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
    "memory_limit": 0,
    "process_limit": 0,
    "cpu_limit": 0.0,
    "open_files_limit": 0,
    "file_size_limit": 0,
    "jobs_per_child": 1,
    "network": True,
    "shield": False,
    "spawn": "auto",
    "mode": "subprocess",
    "tier": "",
    "unique": None,
    "max_running": 0,
    "exclusive_by": "",
    "gates": None,
    "on_gate": "finish",
    "keep_done": 0.0,
    "keep_failed": 0.0,
}
BAD: list[tuple[str, Any]] = [
    *[
        (name, bad)
        for name in ("batch_rows", "batch_bytes", "max_attempts", "jobs_per_child")
        for bad in (0, -1, 1.5, "3", True, None)
    ],
    ("batch_rows", UNIT_ROWS + 1),
    ("batch_rows", 10**10),
    ("batch_bytes", FRAME_LIMIT + 1),
    *[
        (name, bad)
        for name in (
            *("batch_deadline", "start_deadline", "job_deadline", "grace", "backoff", "backoff_max"),
            *("keep_done", "keep_failed", "cpu_limit"),
        )
        for bad in (-0.1, float("nan"), float("inf"), 1e10, "5", True, None)
    ],
    *[("priority", bad) for bad in (1.0, "10", True, None, 10**10, -(10**10))],
    *[("nice", bad) for bad in (-21, 20, 1.0, "1", False)],
    *[
        (name, bad)
        for name in ("memory_limit", "process_limit", "open_files_limit", "file_size_limit")
        for bad in (-1, 1e9, "6GB", True, None, LARGEST_SIZE + 1)
    ],
    *[("memory_limit", bad) for bad in (1, 6, LEAST_MEMORY - 1)],
    *[("open_files_limit", bad) for bad in (1, LEAST_OPEN_FILES - 1, 10**10)],
    *[("file_size_limit", bad) for bad in (1, LEAST_FILE_SIZE - 1)],
    *[("cpu_limit", bad) for bad in (1e-9, 0.999)],
    ("process_limit", 10**10),
    *[(name, bad) for name in ("retry_safe", "network", "shield") for bad in (1, 0, "true", None)],
    *[(name, bad) for name in ("resume", "spawn") for bad in ("again", "", None, 1, [], {})],
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
    ("memory_limit", LEAST_MEMORY),
    ("open_files_limit", LEAST_OPEN_FILES),
    ("file_size_limit", LEAST_FILE_SIZE),
    *[(name, LARGEST_SIZE) for name in ("memory_limit", "file_size_limit")],
    *[(name, 0) for name in ("memory_limit", "process_limit", "open_files_limit", "file_size_limit")],
    *[("cpu_limit", good) for good in (0, 1, 1.5)],
    ("process_limit", 1),
    ("jobs_per_child", 10**9),
    ("network", False),
    ("shield", True),
    ("spawn", "cold"),
    ("resume", "restart"),
    ("resume", "checkpoint"),
    ("keep_done", 30 * 86_400),
    ("keep_failed", 0.5),
]


def test_the_defaults_are_the_pinned_ones() -> None:
    """C198, K16."""
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


def test_a_limit_that_could_never_work_is_refused_with_what_to_do() -> None:
    """K13: what, which, what to do; off is always possible."""
    assert [
        complaint_about(*one)
        for one in (
            ("memory_limit", 6),
            ("open_files_limit", 3),
            ("file_size_limit", 4096),
            ("cpu_limit", 0.5),
        )
    ] == [
        "memory_limit 6 is under the 32000000 bytes that a child needs before it does any work;"
        " raise it, or switch it off with 0",
        "open_files_limit 3 is under the 64 files that a child may need for itself;"
        " raise it, or switch it off with 0",
        "file_size_limit 4096 is under the 65536 bytes that a hung child's stacks may take;"
        " raise it, or switch it off with 0",
        "cpu_limit 0.5 is under 1 second, the least that the system can count;"
        " raise it, or switch it off with 0",
    ]


@pytest.mark.skipif(sys.platform != "linux", reason="only /proc says what a process holds")
def test_the_least_memory_limit_leaves_room_for_a_child_that_has_loaded_an_empty_application() -> None:
    """What a child imports before its first job, in a fresh interpreter."""
    look = "import worker.__main__, worker.start, supervisor.api; print(open('/proc/self/statm').read())"
    command = [sys.executable, "-c", look]
    done = subprocess.run(command, cwd=ROOT, env={}, capture_output=True, check=True, timeout=30)
    resident = int(done.stdout.split()[1]) * resource.getpagesize()
    assert 0 < resident < LEAST_MEMORY


def test_the_least_file_size_limit_cuts_no_dump_of_stacks() -> None:
    """Pinned to what the supervisor reads of it."""
    from ipc.child import STACK_BYTES

    assert LEAST_FILE_SIZE == STACK_BYTES


def test_every_size_and_every_duration_is_known_as_one() -> None:
    sizes = {name for name in OPTION_NAMES if name.endswith(("_bytes", "memory_limit", "size_limit"))}
    assert set(SIZES) == sizes
    seconds = {name for name in OPTION_NAMES if name.endswith(("_deadline", "cpu_limit"))}
    assert set(DURATIONS) == seconds | {"grace", "backoff", "backoff_max", "keep_done", "keep_failed"}


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


EARLIER = (
    '{"batch_rows":256,"batch_bytes":1048576,"batch_deadline":30.0,"start_deadline":0.0,"job_deadline":0.0,'
    '"grace":5.0,"max_attempts":3,"backoff":5.0,"backoff_max":3600.0,"retry_on":[],"retry_safe":false,'
    '"resume":"replay","priority":50,"env":["TOKEN"],"nice":10,"keep_done":60.0,"keep_failed":0.0}'
)
"""A kind's options as the store holds them from before there were limits."""


def test_options_that_an_earlier_version_wrote_leave_what_it_did_not_know_at_its_defaults() -> None:
    """K7: a store outlives the version that declared its kinds."""
    assert readable_options(json.loads(EARLIER), Options()) == Options(
        batch_deadline=30.0, retry_safe=False, env=("TOKEN",), keep_done=60.0
    )


def test_an_option_that_a_later_version_wrote_takes_no_other_with_it() -> None:
    """K7: what is not known here, or was not allowed yet, counts as unsaid."""
    base = Options(grace=7.0, nice=3)
    later = {"retry_safe": False, "tyre": [1], "nice": 99, "spawn": "warm", "memory_limit": "6GB", "grace": 9}
    assert readable_options(later, base) == Options(grace=9, nice=3, retry_safe=False)
    assert readable_options({"tyre": 1}, base) is base
    assert readable_options({}, base) is base


def test_what_is_stored_reads_back_as_it_was() -> None:
    options = Options(memory_limit=LEAST_MEMORY, network=False, spawn="cold", retry_on=("OSError",))
    assert readable_options(json.loads(json.dumps(asdict(options))), Options()) == options


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)


@given(st.sampled_from(OPTION_NAMES), ANYTHING)
def test_whatever_comes_is_taken_or_refused_and_never_breaks_anything(name: str, value: Any) -> None:
    complaint = complaint_about(name, value)
    assert readable_options({name: value}, Options()) == options_from({} if complaint else {name: value})
    if complaint is None:
        assert isinstance(options_from({name: value}), Options)
    else:
        with pytest.raises(ValueError, match=rf"^{name} "):
            options_from({name: value})
