"""Children that leave something behind: it is ended with them, and the next job finds a clean world."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.supervisor.misbehaving.meeting import COLD, TEMPLATE, Meeting

APP = "untidy_children"
LEFT_BEHIND = [
    "leaves_a_program_behind",
    "leaves_a_program_that_holds_its_output",
    "leaves_a_daemon_behind",
    "leaves_a_shell_that_has_left_its_folder",
    "leaves_many_programs_behind",
    "leaves_zombies_of_its_own",
    "leaves_zombies_to_its_guardian",
]


@pytest.fixture(params=["cgroup", "guardian"])
def tier(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """How surely a tree is ended: the second is what most users have."""
    if request.param == "guardian":
        monkeypatch.setattr("supervisor.run.daemon.cgroup.base", lambda: None)
    return str(request.param)


@pytest.mark.parametrize("what", LEFT_BEHIND)
def test_what_a_done_child_leaves_behind_ends_with_it(tmp_path: Path, tier: str, what: str) -> None:
    """C126, FIELD A5, FIELD B9, FIELD H5."""
    end = Meeting(tmp_path, APP).hold(what).is_done()
    if tier == "guardian":
        assert end.attempt["world"]["kill"] == tier


@pytest.mark.parametrize("what", ["leaves_a_daemon_behind", "leaves_zombies_to_its_guardian"])
def test_what_one_that_was_started_by_itself_leaves_behind_ends_too(tmp_path: Path, what: str) -> None:
    """FIELD A5, FIELD H5, FIELD H7."""
    Meeting(tmp_path, APP, COLD).hold(what).is_done()


def can_unshare() -> bool:
    if shutil.which("unshare") is None:
        return False
    return subprocess.run(["unshare", "-rpf", "true"], check=False, capture_output=True).returncode == 0


def test_what_hides_in_a_process_namespace_ends_with_its_child(tmp_path: Path, tier: str) -> None:
    """FIELD A5."""
    if not can_unshare():
        pytest.skip("no process namespaces here")
    Meeting(tmp_path, APP).hold("makes_a_world_of_its_own").is_done()


# --- copies of itself

FORKS = {
    "forks_a_copy_that_works_on": list(range(100)),
    "forks_a_copy_that_leaves_by_sys_exit": [],
    "forks_a_copy_that_raises": [],
    "forks_a_copy_that_is_done": [0],
    "forks_a_copy_that_stays": [],
}
"""What a child does, and the rows that it yields itself after that."""


@pytest.mark.parametrize("how", FORKS)
def test_a_copy_that_a_child_forks_of_itself_is_no_worker(tmp_path: Path, how: str) -> None:
    """K2: whatever it does, it says nothing over the wire, and the job is done by whom it was given to."""
    end = Meeting(tmp_path, APP).hold(how).is_done()
    assert [n for n, text in end.rows if text == "forked"] == FORKS[how]


def test_neither_is_a_copy_of_one_that_was_started_by_itself(tmp_path: Path) -> None:
    """K2, FIELD H7."""
    Meeting(tmp_path, APP, COLD).hold("forks_a_copy_that_raises").is_done()


# --- the state of the process


def texts(meeting: Meeting) -> list[str]:
    """Return what the jobs have said, but for the rows that all of them have."""
    rows = meeting.house.query("SELECT text FROM items ORDER BY rowid")
    return [text for (text,) in rows if text not in {"before", "beside", "after", "quick"}]


@pytest.mark.parametrize("spawn", [TEMPLATE, COLD])
def test_a_job_finds_nothing_of_what_another_has_changed(tmp_path: Path, spawn: str) -> None:
    """C156, K13: each has a process of its own; so many that all guardians serve again."""
    meeting = Meeting(tmp_path, APP, spawn)
    meeting.hold("says_what_it_finds").is_done()
    both = ["says_what_it_finds", "changes_all_that_it_finds"]
    meeting.hold("changes_all_that_it_finds", after=[*both, *both]).is_done()
    clean, *found = map(json.loads, texts(meeting))
    assert [set(map(str, one.items())) ^ set(map(str, clean.items())) for one in found] == [set()] * 2
    assert (clean["folder"], clean["global"]) == (str(tmp_path), {})


def test_two_copies_of_one_template_throw_other_dice(tmp_path: Path) -> None:
    """C156: but the seed of hashes is the same for all."""
    meeting = Meeting(tmp_path, APP)
    meeting.hold("throws_dice", after=["throws_dice"] * 4).is_done()
    dice, noise, hashes = zip(*(text.split() for text in texts(meeting)), strict=True)
    assert (len(set(dice)), len(set(noise)), len(set(hashes))) == (5, 5, 1)


def test_a_child_that_deletes_its_own_folder_is_done(tmp_path: Path) -> None:
    Meeting(tmp_path, APP).hold("deletes_its_own_folder").is_done()


# --- its limits

TAKES = [
    "takes_all_its_descriptors_away",
    "takes_its_files_away",
    "takes_its_processes_away",
    "takes_its_stack_away",
    "takes_its_signals_away",
]


@pytest.mark.parametrize("what", TAKES)
def test_a_child_that_takes_its_own_means_away_can_still_say_that_it_is_done(
    tmp_path: Path, what: str
) -> None:
    Meeting(tmp_path, APP).hold(what).is_done()


def test_a_child_without_any_limit_left_is_stopped_by_its_clock(tmp_path: Path) -> None:
    """C126: it cannot write down where it is."""
    end = Meeting(tmp_path, APP).hold("hangs_without_any_limit_left")
    end.is_told_as("timed_out", "batch_deadline", "no batch for 0.5 s").is_killed(by="term")


def test_a_child_without_memory_can_still_say_so(tmp_path: Path) -> None:
    """FIELD J5."""
    end = Meeting(tmp_path, APP).hold("takes_its_memory_away")
    end.is_told_as("failed", "raised", "MemoryError: <MemoryError raised>")
