"""What the record of a kill says, also one that an older version, or nobody sane, has written."""

from typing import Any

import pytest

from supervisor.told.kills import cause, end, pids, survivors, tally, where, with_survivors

WHY = "(not ours to signal, or stuck in the kernel)"
MEMORY = {"limit": 500_000_000, "used": 512_345_678, "processes": 3}


@pytest.mark.parametrize(
    ("outcome", "kill", "why", "said"),
    [
        ("died", None, "the worker died: exit code 3", "died: exit code 3"),
        (
            "died",
            None,
            "the worker died: killed by signal 11 (SIGSEGV)",
            "died: killed by signal 11 (SIGSEGV)",
        ),
        (
            "died",
            None,
            "the worker died: killed by signal 9 (SIGKILL), which laneway did not send",
            "died: killed by signal 9 (SIGKILL), which laneway did not send",
        ),
        (
            "memory",
            None,
            "the worker died: the kernel killed it, out of memory (512 MB resident at most)",
            "died: the kernel killed it, out of memory (512 MB resident at most)",
        ),
        (
            "memory",
            {"reason": "memory_limit", "memory": MEMORY, "survivors": []},
            "memory limit 500 MB crossed at 512 MB in 3 processes",
            "killed: memory limit 500 MB crossed at 512 MB in 3 processes",
        ),
        (
            "died",
            {"reason": "process_limit", "memory": MEMORY, "survivors": []},
            "process limit 64 crossed at 65 processes",
            "killed: process limit 64 crossed at 65 processes",
        ),
        (
            "memory",
            {"reason": "process_limit", "memory": MEMORY, "survivors": []},
            "process limit 64 crossed at 65 processes",
            "killed: process limit 64 crossed at 65 processes",
        ),
        (
            "died",
            None,
            "the worker used its 10 s of CPU time",
            "died: the worker used its 10 s of CPU time",
        ),
        (
            "timed_out",
            {"reason": "batch_deadline", "survivors": []},
            "no batch for 120 s",
            "killed: no batch for 120 s",
        ),
        ("timed_out", None, "refused by the store", "timed out: refused by the store"),
        ("cancelled", {"survivors": []}, "", "cancelled"),
        ("failed", None, "KeyError: 'n'", "failed: KeyError: 'n'"),
    ],
)
def test_an_end_reads_as(outcome: str, kill: dict[str, Any] | None, why: str, said: str) -> None:
    """FIELD H9, J5: by what ended it, told once."""
    assert end(outcome, kill, why) == said


@pytest.mark.parametrize(
    ("outcome", "why", "said"),
    [
        ("timed_out", "no batch for 1 s", f"killed, survivors: pid 4711 {WHY}: no batch for 1 s"),
        ("memory", "too much", f"killed, survivors: pid 4711 {WHY}: too much"),
        ("cancelled", "", f"cancelled, survivors: pid 4711 {WHY}"),
        ("failed", "no", f"failed, survivors: pid 4711 {WHY}: no"),
    ],
)
def test_a_kill_with_survivors_is_never_a_plain_one(outcome: str, why: str, said: str) -> None:
    """FIELD A7."""
    assert end(outcome, {"survivors": [4711]}, why) == said


@pytest.mark.parametrize(
    ("kill", "limits", "said"),
    [
        ({"reason": "batch_deadline", "deadline_s": 120}, {}, "batch_deadline 120 s"),
        ({"reason": "cancelled", "deadline_s": None}, {}, "cancelled"),
        ({"reason": "hung_up"}, {}, "hung up"),
        (
            {"reason": "memory_limit", "deadline_s": None, "memory": MEMORY},
            {},
            "memory limit 500 MB crossed at 512 MB in 3 processes",
        ),
        (
            {"reason": "memory_limit", "memory": {"limit": 10**9, "used": 1.2e9, "processes": 1}},
            {},
            "memory limit 1 GB crossed at 1.2 GB in 1 process",
        ),
        (
            {"reason": "process_limit", "memory": {"limit": 0, "used": 0, "processes": 65}},
            {"process_limit": 64},
            "process limit 64 crossed at 65 processes",
        ),
        (
            {"reason": "process_limit", "memory": {"limit": 0, "used": 0, "processes": 65}},
            {},
            "process limit crossed at 65 processes",
        ),
    ],
)
def test_a_cause_has_its_figures(kill: dict[str, Any], limits: dict[str, Any], said: str) -> None:
    """FIELD J5: which limit, and the measured values."""
    assert cause(kill, limits) == said


@pytest.mark.parametrize(
    ("kill", "said"),
    [
        ({"ended": 2, "survivors": []}, "2 processes ended, 0 survivors"),
        ({"ended": 1, "survivors": [4711]}, "1 process ended, 1 survivor"),
        ({"ended": 0, "survivors": [1, 2]}, "0 processes ended, 2 survivors"),
        ({"survivors": []}, ""),
    ],
)
def test_what_a_kill_counted_is_told_and_a_record_without_a_count_claims_none(
    kill: dict[str, Any], said: str
) -> None:
    """Promise 1: a record of before knows nothing of descendants."""
    assert tally(kill) == said


@pytest.mark.parametrize("rung", ["kill", "guardian", "unkillable"])
def test_a_child_without_a_frame_that_took_sigkill_is_said_to_have_ignored_sigterm(rung: str) -> None:
    """C126."""
    told = "ignored SIGTERM, ended by SIGKILL after its grace of 5 s"
    assert where({"rung": rung, "grace_s": 5, "stack": ""}) == told
    for other in ({"rung": "term", "grace_s": 5}, {"rung": rung, "grace_s": 0}, {"rung": rung}):
        assert where(other) == ""


ODD = [None, "abc", -1, 1e300, float("nan"), True, [], [[]], {}, {"pid": 1}, ["x", -1, 0, 2**31, 1.5]]


@pytest.mark.parametrize("odd", ODD, ids=repr)
def test_garbage_in_a_record_is_told_as_what_it_lacks(odd: Any) -> None:
    """U32."""
    names = ("reason", "deadline_s", "grace_s", "rung", "took_ms", "stack", "ended", "survivors", "memory")
    kill = dict.fromkeys(names, odd)
    assert pids(kill) == []
    assert survivors(kill) == where(kill) == ""
    assert with_survivors("killed", kill) == "killed"
    assert isinstance(cause(kill, {}), str)
    assert isinstance(cause({"reason": "memory_limit", "memory": dict.fromkeys(MEMORY, odd)}, {}), str)
    assert tally(kill).endswith("ended, 0 survivors")
