"""Asking one of the system's programs: bounded in time, without our environment."""

import sys

import pytest

from ipc import tool


def test_the_answer_is_what_the_program_printed() -> None:
    """C62."""
    assert tool.run(["echo", "on battery"], 5.0) == "on battery\n"


def test_it_sees_none_of_our_environment_and_no_input(monkeypatch: pytest.MonkeyPatch) -> None:
    """U40."""
    monkeypatch.setenv("SECRET", "s3cret")
    code = "import os, sys; print(sorted(os.environ), sys.stdin.read())"
    assert "SECRET" not in tool.run([sys.executable, "-I", "-S", "-c", code], 5.0)


@pytest.mark.parametrize("argv", [["false"], ["/no/such/program"]])
def test_one_that_fails_or_is_not_there_is_an_error(argv: list[str]) -> None:
    """C61."""
    with pytest.raises(OSError, match=r"ended with 1|No such file"):
        tool.run(argv, 5.0)


def test_one_that_hangs_is_ended_when_its_time_is_up() -> None:
    """C62: the probe has its own limit."""
    with pytest.raises(TimeoutError, match=r"sleep took longer than 0.2 s"):
        tool.run(["sleep", "60"], 0.2)
