"""Children that take more than they may: ended in time, or refused in words, with figures."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ipc.guardian import meter
from tests.supervisor.misbehaving.meeting import COLD, TEMPLATE, Meeting

APP = "greedy_children"
MB = 1_000_000
GROWTH = 500 * MB


class Scale:
    """Weighs a process that a job has noted, again and again, from a thread of its own.

    Attributes:
        crossed_at: when it first held more than the limit, monotonic seconds.
        gone_at: when it was no more.
        most: bytes that it held at most.
    """

    def __init__(self, noted: Path, limit: int) -> None:
        self.crossed_at = self.gone_at = 0.0
        self.most = 0
        self._noted = noted
        self._limit = limit
        self._over = threading.Event()

    def weigh(self) -> None:
        while not self._over.wait(0.005) and not self.gone_at:
            for one in self._noted.iterdir():
                held = meter.resident_of(int(one.name.partition("-")[0]))
                self.most = max(self.most, held)
                if held > self._limit and not self.crossed_at:
                    self.crossed_at = time.monotonic()
                if self.most and not held:
                    self.gone_at = time.monotonic()

    @contextmanager
    def at_work(self) -> Iterator[None]:
        thread = threading.Thread(target=self.weigh)
        thread.start()
        try:
            yield
        finally:
            self._over.set()
            thread.join()


def test_a_child_that_grows_is_gone_within_a_second_of_crossing_its_memory_limit(tmp_path: Path) -> None:
    """FIELD J1, FIELD J5: 100 MB a second under a limit of 500 MB."""
    meeting = Meeting(tmp_path, APP)
    scale = Scale(meeting.noted, GROWTH)
    meeting.watch = scale.at_work()
    end = meeting.hold("grows")
    print(f"GONE {scale.gone_at - scale.crossed_at:.3f} s after it crossed, held {scale.most / MB:.0f} MB")
    assert 0 < scale.crossed_at < scale.gone_at < scale.crossed_at + 1.0
    end.is_told_as("memory", "memory_limit", r"memory limit 500 MB crossed at 5\d\d MB in 1 process")
    assert "in grows" in end.kill["stack"]
    memory = end.kill["memory"]
    assert (memory["limit"], memory["processes"]) == (GROWTH, 1)
    assert GROWTH < memory["used"] < 1.2 * GROWTH
    assert end.attempt["world"]["limits"] == {"memory_limit": GROWTH}


@pytest.mark.parametrize("tier", ["cgroup", "guardian"])
def test_what_its_children_hold_counts_whatever_session_they_are_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tier: str
) -> None:
    """FIELD J1."""
    if tier == "guardian":
        monkeypatch.setattr("supervisor.run.daemon.cgroup.base", lambda: None)
    end = Meeting(tmp_path, APP).hold("has_it_held_by_its_children")
    end.is_told_as("memory", "memory_limit", r"memory limit 200 MB crossed at \d+ MB in [345] processes")
    assert end.kill["ended"] == 5


def test_a_child_that_takes_it_at_once_is_ended(tmp_path: Path) -> None:
    """FIELD J1."""
    end = Meeting(tmp_path, APP).hold("takes_it_at_once")
    end.is_told_as("memory", "memory_limit", r"memory limit 200 MB crossed at \d+ MB in 1 process")


@pytest.mark.parametrize("what", ["holds_it_where_its_copies_see_it", "asks_for_more_than_it_uses"])
def test_memory_that_is_shared_or_not_used_is_no_crossing(tmp_path: Path, what: str) -> None:
    """LESSONS 10: a limit that fires on healthy work is worse than none."""
    Meeting(tmp_path, APP).hold(what).is_done()


def test_a_child_that_asks_for_more_than_there_is_says_so_itself(tmp_path: Path) -> None:
    """FIELD J5."""
    end = Meeting(tmp_path, APP).hold("asks_for_more_than_there_is")
    end.is_told_as("failed", "raised", "MemoryError: <MemoryError raised>")


# --- processes


@pytest.mark.parametrize(
    ("what", "tier"),
    [
        ("forks_without_end", "cgroup"),
        ("forks_without_end", "guardian"),
        ("starts_many_programs", "guardian"),
    ],
)
def test_a_child_of_many_processes_ends_with_all_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str, tier: str
) -> None:
    """FIELD A5."""
    if tier == "guardian":
        monkeypatch.setattr("supervisor.run.daemon.cgroup.base", lambda: None)
    end = Meeting(tmp_path, APP).hold(what)
    end.is_told_as("died", "process_limit", r"process limit 20 crossed at \d+ processes")
    assert 20 < end.kill["memory"]["processes"] <= end.kill["ended"] < 400


def test_threads_are_no_processes(tmp_path: Path) -> None:
    """LESSONS 10."""
    Meeting(tmp_path, APP).hold("has_many_threads").is_done()


# --- CPU time


@pytest.mark.parametrize(("how", "spawn"), [("burns", TEMPLATE), ("burns_in_c", COLD)])
def test_a_child_that_has_used_up_its_cpu_time_dies_of_it(tmp_path: Path, how: str, spawn: str) -> None:
    """FIELD J5: told apart from other signals."""
    end = Meeting(tmp_path, APP, spawn).hold(how)
    end.is_told_as("died", "cpu_limit", "the worker used its 1 s of CPU time").has_died_of(signal=24)


def test_one_that_blocks_the_signal_is_killed_by_the_kernel_and_told_the_same(tmp_path: Path) -> None:
    end = Meeting(tmp_path, APP).hold("burns_and_blocks_the_signal")
    end.is_told_as("died", "cpu_limit", "the worker used its 1 s of CPU time").has_died_of(signal=9)


def test_time_that_passes_is_no_cpu_time(tmp_path: Path) -> None:
    """LESSONS 10."""
    Meeting(tmp_path, APP).hold("sleeps_longer_than_its_cpu_time").is_done()


def test_a_kill_by_hand_is_no_use_of_cpu_time(tmp_path: Path) -> None:
    """FIELD H9."""
    end = Meeting(tmp_path, APP).hold("is_killed_by_hand_under_a_cpu_limit")
    end.is_told_as(
        "died", "died", r"the worker died: killed by signal 9 \(SIGKILL\), which laneway did not send"
    )


# --- descriptors and files


@pytest.mark.parametrize(
    ("what", "spawn", "reason"),
    [
        ("opens_without_end", TEMPLATE, r'OSError: 24, "Too many open files", "/dev/null"'),
        ("opens_without_end", COLD, r'OSError: 24, "Too many open files", "/dev/null"'),
        ("writes_without_end", TEMPLATE, r'OSError: 27, "File too large"'),
        ("writes_without_end", COLD, r'OSError: 27, "File too large"'),
        ("has_a_program_write_without_end", TEMPLATE, r"CalledProcessError: -25, .*"),
    ],
)
def test_more_files_or_larger_ones_than_allowed_are_refused_in_words(
    tmp_path: Path, what: str, spawn: str, reason: str
) -> None:
    end = Meeting(tmp_path, APP, spawn).hold(what).is_told_as("failed", "raised", reason)
    assert all(file.stat().st_size <= 100_000 for file in tmp_path.glob("large-*"))
    assert "memory_limit" not in end.attempt["world"]["limits"]


def test_a_child_without_descriptors_is_stopped_and_says_where_it_was(tmp_path: Path) -> None:
    """C126."""
    end = Meeting(tmp_path, APP).hold("opens_without_end_and_hangs")
    end.is_told_as("timed_out", "batch_deadline", "no batch for 0.5 s").is_killed(
        by="term", stuck_at="# full"
    )


@pytest.mark.parametrize("spawn", [TEMPLATE, COLD])
def test_a_child_that_stays_below_all_of_its_limits_notices_none(tmp_path: Path, spawn: str) -> None:
    """LESSONS 10."""
    Meeting(tmp_path, APP, spawn).hold("stays_below_all_of_its_limits").is_done()
