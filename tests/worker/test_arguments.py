"""The command line of a child is taken as a whole, or refused as a whole."""

import subprocess
import sys

import pytest

from worker.arguments import USAGE, parse

LEAST = ("--channel", "3", "--stack", "4", "--parent", "5")


def test_the_least_that_a_child_is_told_leaves_everything_else_off() -> None:
    arguments = parse([*LEAST, "app.py"])
    assert arguments is not None
    assert vars(arguments) == {
        "channel": 3,
        "stack": 4,
        "parent": 5,
        "template": -1,
        "sealed": False,
        "jobs": 1,
        "cpu": 0,
        "open_files": 0,
        "file_size": 0,
        "apps": ["app.py"],
    }


def test_everything_that_a_child_can_be_told_is_taken_in_any_order() -> None:
    """C157: the seal is among it."""
    words = [
        "--template",
        "6",
        "--sealed",
        "--jobs",
        "2",
        "--cpu",
        "7",
        "--open-files",
        "8",
        "--file-size",
        "9",
    ]
    arguments = parse([*words, *LEAST, "one.py:app", "two:app"])
    assert arguments is not None
    assert vars(arguments) == {
        "channel": 3,
        "stack": 4,
        "parent": 5,
        "template": 6,
        "sealed": True,
        "jobs": 2,
        "cpu": 7,
        "open_files": 8,
        "file_size": 9,
        "apps": ["one.py:app", "two:app"],
    }


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["app.py"],
        [*LEAST],
        [*LEAST[:4], "app.py"],
        [*LEAST, "--jobs"],
        [*LEAST, "--jobs", "app.py"],
        [*LEAST, "--jobs", "-1", "app.py"],
        [*LEAST, "--jobs", "1.5", "app.py"],
        [*LEAST, "--jobs", "٣", "app.py"],
        [*LEAST, "--jobs", "9" * 5000, "app.py"],
        [*LEAST, "--apps", "1", "app.py"],
        [*LEAST, "--sealed=no", "app.py"],
        [*LEAST, "--unknown", "1", "app.py"],
        [*LEAST, "--", "app.py"],
    ],
)
def test_anything_else_is_refused(words: list[str]) -> None:
    assert parse(words) is None


def test_a_child_that_is_started_by_hand_says_how_it_is_meant() -> None:
    done = subprocess.run([sys.executable, "-P", "-m", "worker"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", USAGE)
