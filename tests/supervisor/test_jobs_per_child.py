"""`jobs_per_child`: several jobs in one child, each as if alone, and an end to it when something is off."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from supervisor.client import Client
from tests.supervisor.serving import House, kill_session, wait_for

if TYPE_CHECKING:
    from subprocess import Popen

SERIES = str(Path(__file__).with_name("series_lanes.py"))


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path, workers=1, app=SERIES)


@pytest.fixture
def supervisor(house: House) -> Iterator["Popen[str]"]:
    """A supervisor of that house, as a process of its own."""
    process = house.start()
    yield process
    kill_session(process)


def pid_of(house: House, job: int) -> int:
    """Return which process a job's row says that it was."""
    ((pid, _),) = house.items(job)
    return int(pid)


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def run_in_order(house: House, *kinds: str | tuple[str, dict[str, Any]]) -> list[int]:
    """Run jobs one after another, in one run; return their ids."""
    jobs = [house.enqueue(*((kind, {}) if isinstance(kind, str) else kind)) for kind in kinds]
    assert house.serve().ended == "idle"
    return jobs


def finished(house: House, job: int) -> dict[str, Any]:
    """Wait until a job has ended; return its only attempt."""
    wait_for(lambda: house.job(job)["finished_at"])
    (attempt,) = house.attempts(job)
    return attempt


# --- as often as was agreed


@pytest.mark.parametrize("kind", ["who", "who_cold"])
def test_a_child_runs_three_jobs_and_another_one_the_next(house: House, kind: str) -> None:
    """K13, DESIGN 5."""
    pids = [pid_of(house, job) for job in run_in_order(house, *[kind] * 7)]
    assert pids == [pids[0]] * 3 + [pids[3]] * 3 + [pids[6]]
    assert len(set(pids)) == 3


def test_a_job_that_has_failed_is_followed_by_another_in_its_child(house: House) -> None:
    """K13: its word was its own, so the child is well."""
    failed, after, other = run_in_order(house, "fails", "who", "dumps")
    assert house.job(failed)["state"] == "failed"
    assert pid_of(house, failed) == pid_of(house, after) == pid_of(house, other)


# --- each as if it were alone


def test_a_job_has_its_own_log_and_no_other(house: House) -> None:
    """C161: also what was printed without an end of line."""
    jobs = run_in_order(house, "who", "who", "fails", "who")
    logs = [house.attempts(job)[0]["log"] for job in jobs]
    assert logs == [f"job {job} begins\njob {job} ends" if n != 2 else "" for n, job in enumerate(jobs)]


def test_a_job_has_its_own_stack_and_no_other(house: House) -> None:
    """C126: what an earlier job of the same child had dumped is not told of this one."""
    dumped, hung = run_in_order(house, "dumps", "hangs")
    stack = house.attempts(hung)[0]["kill"]["stack"]
    assert pid_of(house, dumped) == pid_of(house, hung)
    assert " in hangs" in stack
    assert " in dumps" not in stack


def test_the_memory_limit_of_a_job_is_not_that_of_the_next(house: House, tmp_path: Path) -> None:
    """FIELD J1: a limit belongs to a job; the child outlives it."""
    enough = ("holds", {"mib": 300})
    limited, free, over = run_in_order(house, "limited", enough, ("limited", {}))
    assert pid_of(house, limited) == pid_of(house, free)
    assert [house.job(job)["state"] for job in (limited, free)] == ["done", "done"]
    assert pid_of(house, over) != pid_of(house, free), "it had grown"


def test_the_answer_to_a_question_that_a_job_has_left_open_is_not_given_to_the_next(house: House) -> None:
    """C151: questions are numbered by each job anew."""
    left, asked = run_in_order(house, "asks_and_leaves", "asks")
    assert house.attempts(left)[0]["error_code"] == "order"
    assert [text for _, text in house.items(asked)] == ["its own answer"]


# --- and an end to it


def test_a_child_that_had_to_be_killed_is_followed_by_another(house: House) -> None:
    """DESIGN 5: recycled after an overrun."""
    before, hung, after = run_in_order(house, "who", "hangs", "who")
    assert house.attempts(hung)[0]["outcome"] == "timed_out"
    assert pid_of(house, before) == pid_of(house, hung) != pid_of(house, after)


def test_a_child_that_has_left_a_process_behind_is_followed_by_another(house: House) -> None:
    """DESIGN 5, FIELD A5: recycled, and what it left is ended with it."""
    before, left, after = run_in_order(house, "who", "leaves", "who")
    assert pid_of(house, before) == pid_of(house, left) != pid_of(house, after)
    ((_, sleeper),) = house.items(left)
    assert house.job(left)["state"] == "done"
    assert is_gone(int(sleeper))


def test_a_child_whose_guardian_is_kept_from_answering_is_followed_by_another(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K9: by a process that it left behind."""
    monkeypatch.setattr("supervisor.children.ladders.LEAVE_GRACE", 0.3)
    before, frozen, after = run_in_order(house, "who", "freezes", "who")
    assert [house.job(job)["state"] for job in (before, frozen, after)] == ["done"] * 3
    assert pid_of(house, before) == pid_of(house, frozen) != pid_of(house, after)
    assert is_gone(pid_of(house, frozen))


def test_a_child_that_nobody_can_tell_about_is_followed_by_another(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K9: the question to its guardian is held back; a slot does not wait for an answer for ever."""
    monkeypatch.setattr("supervisor.children.ladders.LEAVE_GRACE", 0.3)
    with monkeypatch.context() as held_back:
        held_back.setattr("ipc.keeper.Keeper.ask", lambda keeper: None)
        first, second = run_in_order(house, "who", "who")
    assert [house.job(job)["state"] for job in (first, second)] == ["done", "done"]
    assert pid_of(house, first) != pid_of(house, second)


def test_a_child_that_has_grown_is_followed_by_another(house: House) -> None:
    """DESIGN 5, FIELD J: what it holds is compared with what it held after its first job."""
    small, large, after = run_in_order(house, "who", ("holds", {"mib": 400}), "who")
    assert pid_of(house, small) == pid_of(house, large) != pid_of(house, after)


def test_a_child_whose_job_was_cancelled_is_followed_by_another(
    house: House, supervisor: "Popen[str]"
) -> None:
    """K6: the kill of one job is not the end of the next."""
    before = house.enqueue("who")
    cancelled = house.enqueue("holds", {"mib": 1, "until": "/nowhere"})
    after = house.enqueue("who")
    wait_for(lambda: house.job(cancelled)["state"] == "running")
    Client(house.home).cancel(cancelled)
    assert finished(house, after)["outcome"] == "done"
    assert finished(house, cancelled)["outcome"] == "cancelled"
    assert pid_of(house, after) != pid_of(house, before)
    assert is_gone(pid_of(house, before))


def test_a_child_that_speaks_while_it_rests_is_not_used_again(
    house: House, tmp_path: Path, supervisor: "Popen[str]"
) -> None:
    """C151: an idle child has nothing to say."""
    go = tmp_path / "go"
    first = house.enqueue("speaks_later", {"go": str(go)})
    assert finished(house, first)["outcome"] == "done"
    pid = pid_of(house, first)
    assert not is_gone(pid), "it may be given another job"
    go.touch()
    wait_for(lambda: is_gone(pid))
    second = house.enqueue("who")
    assert finished(house, second)["outcome"] == "done"
    assert pid_of(house, second) != pid
    assert house.job(first)["state"] == "done"


def test_a_stop_ends_a_child_that_rests(house: House, supervisor: "Popen[str]") -> None:
    """U42, K9: at once, since it has nothing to lose."""
    job = house.enqueue("who")
    assert finished(house, job)["outcome"] == "done"
    pid = pid_of(house, job)
    assert not is_gone(pid)
    supervisor.send_signal(signal.SIGTERM)
    assert supervisor.wait(20) == 0
    assert is_gone(pid)


def test_a_stop_lets_a_child_yield_that_might_have_run_more(house: House, supervisor: "Popen[str]") -> None:
    """U42: it is not given another job, and the next run goes on."""
    job = house.enqueue("yields")
    wait_for(lambda: house.job(job)["landed_rows"])
    supervisor.send_signal(signal.SIGTERM)
    assert supervisor.wait(20) == 0
    assert [one["outcome"] for one in house.attempts(job)] == ["yielded"]
    assert is_gone(pid_of(house, job))
    assert house.serve().ended == "idle"
    assert house.job(job)["state"] == "done"
